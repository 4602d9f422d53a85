"""Committing a group's offsets: one request a broker, over its shared channel, so that an older one never overtakes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ..model.errors import RequestTimeout, ZenitError
from ..model.queue import MessageQueue
from ..remoting.commands import Reply, UpdateConsumerOffsets
from .connection import Connection
from .waiting import Waits

OnCommitted = Callable[[list[tuple[MessageQueue, int]], ZenitError | None], None]
"""Told of each broker's part: the offsets, and why it failed or None. In the thread that got the reply; must not block."""


def commit_nowait(
    connection: Connection,
    group: str,
    offsets: Mapping[MessageQueue, int],
    *,
    timeout_ms: int,
    on_done: OnCommitted,
    client_id: str = "",
    forward_only: bool = False,
) -> None:
    """Sends the offsets; `on_done` is called once a broker.

    `client_id`: who has the locks of these queues; else "". Where another has one of them, the broker takes none.
    `forward_only`: another member may have gone on since: its progress stays.
    """
    by_broker: dict[str, list[tuple[MessageQueue, int]]] = {}
    for queue, offset in offsets.items():
        by_broker.setdefault(queue.broker_name, []).append((queue, offset))
    for part in by_broker.values():
        _send_part(connection, group, part, timeout_ms, on_done, client_id, forward_only)


def _send_part(
    connection: Connection,
    group: str,
    part: list[tuple[MessageQueue, int]],
    timeout_ms: int,
    on_done: OnCommitted,
    client_id: str,
    forward_only: bool,
) -> None:
    def on_reply(_reply: Reply | None, _payload: bytes, error: ZenitError | None) -> None:
        on_done(part, error)

    first = part[0][0]
    rows = tuple((queue.topic, queue.queue_id, offset) for queue, offset in part)
    incarnations = tuple(queue.incarnation for queue, _ in part)
    request = UpdateConsumerOffsets(group, rows, client_id, forward_only, incarnations)
    try:
        address = connection.routes.address_of(first.topic, first.broker_name)
        connection.remoting.send_nowait(address, request, None, timeout_ms=timeout_ms, on_reply=on_reply)
    except ZenitError as error:
        on_done(part, error)


async def commit_and_wait(
    connection: Connection,
    waits: Waits,
    group: str,
    offsets: Mapping[MessageQueue, int],
    *,
    timeout_ms: int,
    on_done: OnCommitted,
    client_id: str = "",
    forward_only: bool = False,
) -> None:
    """The same, and waits for every broker. Raises the first error, RequestTimeout where one did not answer in time."""
    lock = threading.Lock()
    all_answered = waits.new_signal()
    errors: list[ZenitError] = []
    left = len({queue.broker_name for queue in offsets})

    def on_part(part: list[tuple[MessageQueue, int]], error: ZenitError | None) -> None:
        nonlocal left
        on_done(part, error)
        with lock:
            left -= 1
            if error is not None:
                errors.append(error)
            is_last = not left
        if is_last:
            all_answered.set()

    commit_nowait(
        connection,
        group,
        offsets,
        timeout_ms=timeout_ms,
        on_done=on_part,
        client_id=client_id,
        forward_only=forward_only,
    )
    if offsets and not await all_answered.wait(timeout_ms):
        raise RequestTimeout("a commit of offsets", timeout_ms)
    if errors:
        raise errors[0]
