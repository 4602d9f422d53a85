"""Acknowledgements of foreign clients, by the handles that they bring: gathered for each topic and broker.

What one turn of the event loop brings travels in one request; where many wait for their answers, what 1 ms brings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ...client.consuming.simple.ack_sends import AckSends
from ...client.consuming.simple.lease import Lease, LeasedPart
from ...model.clock import monotonic_ms, now_ms
from ...model.errors import HandleRefused, RequestTimeout, ZenitError
from ...model.handles.receipt_handle import ReceiptHandle, split_index, with_index
from ...remoting.commands import ChangeInvisible, ForwardDeadLetter, ReleaseMessages, SuspendLite
from .backend import Backend
from .lite_receipt import LiteReceipt
from .overdue import Overdue

GROUPS_MAX: Final = 10_000
LINGER_S: Final = 0.001
MANY: Final = 4
"""Where so many calls wait, acknowledgements are gathered for 1 ms: a request costs as much as some of them."""
LITE_TRY_MS: Final = 60_000
"""So long an acknowledgement of a lite topic's message is tried."""


class _Settling:
    """One caller waits for the outcome of some messages. See AckWaiter."""

    __slots__ = ("_backend", "_left", "errors", "settled")

    def __init__(self, backend: Backend, wanted: dict[str, int]) -> None:
        self._backend = backend
        self._left = dict(wanted)
        self.errors: dict[tuple[str, int], ZenitError] = {}
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_settled(self, handle: str, bits: int, error: ZenitError | None) -> None:
        """In the thread that got the answer."""
        self._backend.waits.post(lambda: self._settle(handle, bits, error))

    def _settle(self, handle: str, bits: int, error: ZenitError | None) -> None:
        mine = self._left.get(handle, 0) & bits
        if not mine:
            return
        self._left[handle] ^= mine
        if error is not None:
            self.errors.update(((handle, index), error) for index in range(mine.bit_length()) if mine >> index & 1)
        if not any(self._left.values()) and not self.settled.done():
            self.settled.set_result(None)


class Acks:
    """Of one process; on the event loop. A handle is the text of PoppedMessage.handle, from whichever proxy."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._sends: dict[str, AckSends] = {}
        self._overdue = Overdue()
        self._waiting = 0  # calls
        self._held: set[AckSends] = set()

    def of_group(self, group: str) -> AckSends:
        """What gathers the acknowledgements of a group."""
        sends = self._sends.get(group)
        if sends is None:
            if len(self._sends) >= GROUPS_MAX:
                self._sends = {name: one for name, one in self._sends.items() if not one.is_idle}
            sends = self._sends[group] = AckSends(
                self._backend.connection, group, on_idle=_nobody_waits, on_ack_error=None
            )
        return sends

    async def ack(self, group: str, handles: Sequence[str], *, deadline_ms: int) -> list[ZenitError | None]:
        """The outcome of each: None, or LeaseExpired, HandleRefused, and what else the last try ended with. Acknowledged once
        more, a message succeeds again."""
        outcomes: list[ZenitError | None] = [None] * len(handles)
        leases: dict[int, Lease] = {}
        wanted: dict[str, int] = {}
        for at, handle in enumerate(handles):
            try:
                lease = leases[at] = self._lease(group, handle)
                if self._backend.connection.routes.cached(lease.part.topic) is None:
                    await self._backend.route(lease.part.topic, deadline_ms=deadline_ms)
            except ZenitError as error:
                leases.pop(at, None)
                outcomes[at] = error
            else:
                wanted[lease.part.handle] = wanted.get(lease.part.handle, 0) | 1 << lease.index
        if not wanted:
            return outcomes
        settling = _Settling(self._backend, wanted)
        sends = self.of_group(group)
        for part in {lease.part.handle: lease.part for lease in leases.values()}.values():
            sends.hold(part, wanted[part.handle], settling)
        self._send_soon(sends)
        left_ms = deadline_ms - monotonic_ms()
        self._waiting += 1
        try:
            await self._overdue.wait(settling.settled, deadline_ms)
        except TimeoutError:
            late = RequestTimeout("an acknowledgement", max(0, left_ms))
            return [late if at in leases else outcome for at, outcome in enumerate(outcomes)]
        finally:
            self._waiting -= 1
        for at, lease in leases.items():
            outcomes[at] = settling.errors.get((lease.part.handle, lease.index))
        return outcomes

    def _send_soon(self, sends: AckSends) -> None:
        is_due = bool(self._held)
        self._held.add(sends)
        if is_due:
            return
        loop = asyncio.get_running_loop()
        if self._waiting >= MANY:
            loop.call_later(LINGER_S, self._send_held)
        else:
            loop.call_soon(self._send_held)

    def _send_held(self) -> None:
        held, self._held = self._held, set()
        for sends in held:
            sends.send_held()

    async def change_invisible(self, group: str, handle: str, invisible_ms: int, *, deadline_ms: int) -> str:
        """The message's new handle; "" with 0 ms: it comes again at once, as an attempt. Nobody renews it any more. Raises
        LeaseExpired, HandleRefused, and what else the last try ended with."""
        lease = self._lease(group, handle)
        part = lease.part
        request = ChangeInvisible(group, part.topic, part.handle, lease.index, invisible_ms, renews=False)
        reply, _ = await self._backend.call(part.topic, part.broker_name, request, deadline_ms=deadline_ms)
        if not reply.handle:
            return ""
        if LiteReceipt.parse(handle) is not None:
            return LiteReceipt(reply.handle, 0, part.broker_name, group, part.topic).text()
        return with_index(reply.handle, 0)

    async def suspend(self, group: str, handle: str, delay_ms: int, *, deadline_ms: int) -> None:
        """A message of a lite topic, and those behind it that came with it, come again after a while; that is no attempt.
        Raises as `change_invisible` does."""
        lease = self._lease(group, handle)
        part = lease.part
        request = SuspendLite(group, part.topic, part.handle, lease.index, delay_ms)
        await self._backend.call(part.topic, part.broker_name, request, deadline_ms=deadline_ms)

    async def dead_letter(self, group: str, handle: str, reason: str, *, deadline_ms: int) -> None:
        """Moves a message to the group's dead letters. Raises as `change_invisible` does."""
        lease = self._lease(group, handle)
        part = lease.part
        request = ForwardDeadLetter(group, part.topic, part.handle, lease.index, reason)
        await self._backend.call(part.topic, part.broker_name, request, deadline_ms=deadline_ms)

    def release(self, group: str, handle: str) -> None:
        """The message reached nobody: it is visible again soon, and that was no attempt. In the background. Raises
        HandleRefused."""
        lease = self._lease(group, handle)
        self.of_group(group).give_back(lease.part, 1 << lease.index)

    async def take_back(self, group: str, handles: Sequence[str], *, deadline_ms: int) -> None:
        """These reached nobody, as far as they are leased still: they are visible when this returns, and that was no attempt.
        Raises HandleRefused, and what the last try ended with."""
        asked: dict[tuple[str, str], dict[str, int]] = {}
        for handle in handles:
            lease = self._lease(group, handle)
            bits = asked.setdefault((lease.part.topic, lease.part.broker_name), {})
            bits[lease.part.handle] = bits.get(lease.part.handle, 0) | 1 << lease.index
        for (topic, broker_name), bits in asked.items():
            request = ReleaseMessages(group, topic, tuple(bits.items()))
            await self._backend.call(topic, broker_name, request, deadline_ms=deadline_ms)

    @staticmethod
    def _lease(group: str, handle: str) -> Lease:
        """Raises HandleRefused."""
        receipt = LiteReceipt.parse(handle)
        if receipt is not None:
            if receipt.group != group:
                raise HandleRefused("of another group")
            until_ms = monotonic_ms() + LITE_TRY_MS  # the handle does not say for how long it is
            return Lease(LeasedPart(group, receipt.broker_name, receipt.topic, receipt.part, until_ms), receipt.index)
        of_all, index = split_index(handle)
        named = _read(of_all)
        if named.group != group:
            raise HandleRefused("of another group")
        until_ms = monotonic_ms() + named.pop_ms + named.invisible_ms - now_ms()
        return Lease(LeasedPart(group, named.broker_name, named.topic, of_all, until_ms), index)


@lru_cache(8192)
def _read(handle: str) -> ReceiptHandle:
    """Up to 32 messages have one in common. Raises HandleRefused."""
    return ReceiptHandle.read(handle)


def _nobody_waits() -> None:
    """AckSends tells that nothing is left."""
