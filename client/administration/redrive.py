"""Sends dead letters again, to their original topics or to another, without the properties about failures.

In queue order, in batches whose outcome is awaited. After each pull the progress is stored at the brokers (redrive_plan).
It ends at the first letter that cannot be sent. Letters that were sent after the last stored progress are sent again by the
next run: at most one pull, with the same unique ids.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import CorruptRecordError, InvalidParameter, NoOrigin, ZenitError
from ...model.properties import encode_properties
from ...model.queue import MessageQueue
from ...model.redelivery import (
    Origin,
    dead_letter_origin,
    dead_letter_topic,
    is_retry_topic,
    redriven_properties,
    retry_properties,
)
from ...model.topics.light_queues import LITE_TOPIC, light_properties, lite_queue
from ...record.kernel import StoredMessage, encode_record, wrap_batch
from ...record.sys_flag import COMPRESSED, COMPRESSION_MASK, MULTI_TAGS
from ...remoting.commands import CreateGroup, SendMessages, UpdateConsumerOffsets
from ..connection.connection import Connection
from ..connection.retry import RetryPolicy
from ..connection.waiting import Waits
from ..sending.destinations import Destinations
from ..sending.latency_fault import LatencyFault, latency_table
from ..sending.outgoing import check_send_topic
from .dead_letters import DeadLetter, DeadLetters
from .letter_selection import LetterSelection
from .redrive_plan import REDRIVER, Letter, QueuePlan, pause_ms, plan_redrive, run_letters_max, runs_of

KEPT_FLAGS: Final = COMPRESSED | MULTI_TAGS | COMPRESSION_MASK

OnProgress = Callable[[int, int], None]
"""Called with (letters done, letters to examine)."""


class Redrive:
    """One run over the dead letters of one group. `error`: why it ended early, None if it did not."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        group: str,
        *,
        to: str | None,
        select: LetterSelection,
        rate: float | None,
        dry_run: bool,
        on_progress: OnProgress | None,
        timeout_ms: int,
    ) -> None:
        """`rate`: letters a second at most; `timeout_ms`: for each request to a broker, and over all tries of one letter.

        Raises InvalidName, InvalidParameter (`to`, `rate`).
        """
        if rate is not None and not rate > 0:
            raise InvalidParameter("rate", rate, "letters a second, more than 0")
        self._letters = DeadLetters(connection, waits, timeout_ms=timeout_ms)
        self._sender = _Sender(connection, waits, timeout_ms)
        self._waits = waits
        self._group = group
        self._to = None if to is None else check_send_topic(to)
        self._select = select
        self._rate = rate
        self._dry_run = dry_run
        self._on_progress = on_progress
        self._began_ms = monotonic_ms()
        self._total = 0
        self._selected = 0
        self._left: int | None = None  # how many more may be selected
        self._done = 0
        self._passed_over = 0
        self._topics: dict[str, int] = {}
        self.error: str | None = None

    async def run(
        self, *, since: datetime | None, until: datetime | None, max_messages: int | None, again: bool
    ) -> dict[str, Any]:
        """Runs it; returns the document of `Admin.redrive_dead_letters`. Raises errors of reading."""
        if max_messages is not None and max_messages < 1:
            raise InvalidParameter("max_messages", max_messages, "at least 1")
        states = await self._letters.states(
            self._group, since, until, redrivers=sorted({REDRIVER, self._select.redriver})
        )
        if self._select.is_everything:
            plans = plan_redrive(states, again=again, max_messages=max_messages)
        else:  # how many are selected is known only after reading them
            plans = plan_redrive(states, again=again, max_messages=None)
            self._left = max_messages
        self._total = sum(plan.count for plan in plans)
        for plan in plans:
            if not self._is_over:
                await self._carry_out(plan)
        return {
            "group": self._group,
            "topic": dead_letter_topic(self._group),
            "dry_run": self._dry_run,
            "letters": self._total if self._select.is_everything else self._selected,
            "redriven": 0 if self._dry_run else self._done,
            "failed": 0 if self.error is None else 1,
            "error": self.error,
            "passed_over": self._passed_over,
            "topics": dict(sorted(self._topics.items())),
        }

    @property
    def _is_over(self) -> bool:
        return self.error is not None or self._left == 0

    async def _carry_out(self, plan: QueuePlan) -> None:
        if not self._dry_run:
            await self._letters.ask(plan.queue, CreateGroup(self._select.redriver))
        position = plan.begin
        async for batch, behind in self._letters.batches(plan.queue, plan.begin, plan.end):
            position = await self._send_batch(plan, batch, behind)
            if not self._dry_run:
                await self._remember(plan, position)
            if self._is_over:
                break
        if position > plan.begin:
            self._passed_over += plan.passed_over

    async def _send_batch(self, plan: QueuePlan, batch: list[StoredMessage], behind: int) -> int:
        """Returns the offset of the first letter that was not sent."""
        letters: list[Letter] = []
        unfit: tuple[StoredMessage, ZenitError] | None = None
        for message in batch:
            if not self._select.matches(DeadLetter.of(self._group, message)):
                continue
            if self._left == 0:
                behind = int(message.queue_offset)
                break
            try:
                letters.append(self._address(message))
            except ZenitError as error:
                unfit = message, error
                break
            self._selected += 1
            if self._left is not None:
                self._left -= 1
        for run in runs_of(letters, run_letters_max(self._rate)):
            try:
                if not self._dry_run:
                    await self._pause()
                    await self._sender.send(run)
                    if self._rate is not None:  # at a low rate a batch may be stopped half way
                        await self._remember(plan, int(run[-1].message.queue_offset) + 1)
            except ZenitError as error:
                return self._stop(run[0].message, error)
            self._count(run)
        return behind if unfit is None else self._stop(*unfit)

    def _address(self, message: StoredMessage) -> Letter:
        """Raises NoOrigin, InvalidParameter; CorruptRecordError, because a copy of damaged bytes would pass as valid."""
        if not message.body_crc_matches:
            raise CorruptRecordError(message.physical_offset, message.size_bytes, "body checksum")
        properties = message.properties
        origin = dead_letter_origin(message.offset_message_id, properties)
        topic = self._to or origin.topic
        if not topic:
            raise NoOrigin(message.message_id)
        if is_retry_topic(topic):  # only that group is to get it
            wanted = retry_properties(properties, Origin(origin.topic or topic, origin.message_id))
        else:
            wanted = redriven_properties(properties, origin)
            lite_topic = wanted.pop(LITE_TOPIC, None)
            if lite_topic is not None and topic == origin.topic:
                wanted |= {LITE_TOPIC: lite_topic, **light_properties((lite_queue(topic, lite_topic),))}
        return Letter(message, check_send_topic(topic), wanted)

    async def _pause(self) -> None:
        if self._rate is not None:
            await self._waits.sleep(pause_ms(self._done, self._rate, monotonic_ms() - self._began_ms))

    def _stop(self, message: StoredMessage, error: ZenitError) -> int:
        self.error = f"queue offset {message.queue_offset}, message {message.message_id}: {error}"
        return int(message.queue_offset)

    def _count(self, run: list[Letter]) -> None:
        self._done += len(run)
        topic = run[0].topic
        self._topics[topic] = self._topics.get(topic, 0) + len(run)
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)

    async def _remember(self, plan: QueuePlan, position: int) -> None:
        offset = plan.remembered(position)
        if offset is not None:
            queue = plan.queue
            await self._letters.ask(
                queue, UpdateConsumerOffsets(self._select.redriver, ((queue.topic, queue.queue_id, offset),))
            )


class _Sender:
    """Stores messages again, with properties that a producer may not set."""

    def __init__(self, connection: Connection, waits: Waits, timeout_ms: int) -> None:
        self._waits = waits
        self._routes = connection.routes
        self._timeout_ms = timeout_ms
        self._destinations = Destinations(connection.routes, LatencyFault(latency_table(None)))
        self._retry = RetryPolicy()

    async def send(self, run: list[Letter]) -> None:
        """Sends all of them, or none. Raises the error of the last try."""
        topic = run[0].topic
        deadline_ms = monotonic_ms() + self._timeout_ms
        await self._routes.route(topic, self._waits, timeout_ms=self._timeout_ms)
        tries = 0
        while True:
            try:
                await self._try(run, self._destinations.next_queue(topic, run[0].target), deadline_ms)
            except ZenitError as error:
                tries += 1
                left_ms = deadline_ms - monotonic_ms()
                delay_ms = self._retry.delay_ms(error, tries=tries, left_ms=left_ms, elsewhere=False)
                if delay_ms is None:
                    raise
                await self._waits.sleep(delay_ms)
                if error.route_stale:
                    await self._routes.refresh(topic, self._waits, timeout_ms=max(1, left_ms - delay_ms))
            else:
                return

    async def _try(self, run: list[Letter], queue: MessageQueue, deadline_ms: int) -> None:
        address = self._destinations.address_of(queue)
        host_bytes = 20 if address.startswith("[") else 8
        records = b"".join(_record(letter, host_bytes) for letter in run)
        route = self._routes.cached(queue.topic)
        if route is not None and route.is_batched:
            records = wrap_batch(records, len(records), len(records))
        await self._waits.call(
            address,
            SendMessages(queue.topic, queue.queue_id, len(run), REDRIVER),
            records,
            timeout_ms=self._retry.try_timeout_ms(self._timeout_ms, deadline_ms - monotonic_ms()),
        )


def _record(letter: Letter, host_bytes: int) -> bytes:
    """The record as a producer would send it. `host_bytes`: of the host that the broker writes into it."""
    message = letter.message
    return encode_record(
        topic=letter.topic.encode(),
        body=message.body_as_stored,
        properties=encode_properties(letter.properties),
        flag=message.flag,
        sys_flag=message.sys_flag & KEPT_FLAGS,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        store_host=bytes(host_bytes),
    )
