"""A signal's handler raises at each place of a call of a simple consumer: everything works afterwards, and what came for a
`receive` that did not return is given back, which is no attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interrupt_kit import NAMESRV, TOPIC, Interrupted, Interrupter, Stage, on

from zenitmq import SimpleConsumer, StoredMessage
from zenitmq.client.connection import program_end
from zenitmq.client.consuming.simple.ack_queue import LOST_MS
from zenitmq.record.kernel import encode_record
from zenitmq.remoting import commands as c

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

MESSAGES = 8
EARLIER = 3  # received and not acknowledged before the call that is interrupted


class PopStage(Stage):
    """The broker's side of pops on one queue. Leases have no end here."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.waiting: dict[int, tuple[c.PopMessages, Callable[..., None]]] = {}
        self.answered: dict[int, str] = {}
        self.leases: dict[str, list[int]] = {}
        self.free = list(range(count))
        self.acked: set[int] = set()
        self.attempts = dict.fromkeys(range(count), 0)

    def leased(self) -> set[int]:
        return {offset for offsets in self.leases.values() for offset in offsets} - self.acked - set(self.free)

    def oneway(self, _address: str, request: c.Request, _payload: Any = None) -> bool:
        assert isinstance(request, c.CancelPop)
        _, on_reply = self.waiting.pop(request.pop_id, (None, None))
        if on_reply is not None:
            self.at(1, lambda: on_reply(c.PopReply((), 0), b"", None))
        elif request.pop_id in self.answered:
            leased = self.leases[self.answered.pop(request.pop_id)]
            self.free += [at for at in leased if at not in self.acked and at not in self.free]
        return True

    def send_nowait(
        self, address: str, request: c.Request, payload: Any, *, timeout_ms: int, on_reply: Callable[..., None]
    ) -> None:
        if not isinstance(request, c.PopMessages) or self.closed:
            super().send_nowait(address, request, payload, timeout_ms=timeout_ms, on_reply=on_reply)
            return
        self.waiting[request.pop_id] = request, on_reply
        self.at(1, lambda: self._answer(request.pop_id, is_over=False))
        self.at(request.wait_ms + 1, lambda: self._answer(request.pop_id, is_over=True))

    def _answer(self, pop_id: int, *, is_over: bool) -> None:
        if pop_id not in self.waiting or not (self.free or is_over):
            return
        request, on_reply = self.waiting.pop(pop_id)
        on_reply(*self._pop(request), None)

    def _pop(self, request: c.PopMessages) -> tuple[c.PopReply, bytes]:
        taken, self.free = self.free[: request.max_messages], self.free[request.max_messages :]
        if not taken:
            return c.PopReply((), 0), b""
        handle = self.answered[request.pop_id] = f"h{request.pop_id}.s"
        self.leases[handle] = taken
        records = [encode_record(topic=TOPIC.encode(), body=b"%d" % at, queue_offset=at) for at in taken]
        attempts = tuple(self.attempts[at] for at in taken)
        return c.PopReply(((0, len(taken), handle, attempts),), 0), b"".join(map(bytes, records))

    def _serve(self, request: c.Request, payload: Any) -> tuple[Any, bytes]:
        if isinstance(request, c.PopMessages):
            return self._pop(request)
        if isinstance(request, c.AckMessages | c.ReleaseMessages):
            for handle, bits in request.acks:
                for index, at in enumerate(self.leases[handle]):
                    if bits >> index & 1 and at not in self.acked and at not in self.free:
                        if isinstance(request, c.AckMessages):
                            self.acked.add(at)
                        else:
                            self.free.append(at)
            for pop_id in list(self.waiting):
                self._answer(pop_id, is_over=False)
            return c.AckReply(((0, ""),) * len(request.acks)), b""
        if isinstance(request, c.ChangeInvisible):
            at = self.leases[request.handle][request.index]
            self.leases[f"c{self.now_ms}.s"] = [at]
            return c.ChangedReply(f"c{self.now_ms}.s", 0), b""
        return super()._serve(request, payload)


Calls = Callable[[SimpleConsumer, list[StoredMessage]], object]

CALLS: dict[str, Calls] = {
    "receive": lambda consumer, _: consumer.receive(2),
    "receive what there is": lambda consumer, _: [consumer.receive(2), consumer.receive(2)],
    "receive what there was": lambda consumer, _: [consumer.receive(5), consumer.receive(5, wait=1)],
    "receive more than there are": lambda consumer, _: consumer.receive(40),
    "receive by several requests": lambda consumer, _: [consumer.receive(1), consumer.receive(40)],
    "ack": lambda consumer, held: consumer.ack(held[1]),
    "ack and wait": lambda consumer, held: consumer.ack(held[1], wait=True),
    "ack_batch": lambda consumer, held: consumer.ack_batch(held),
    "change_invisible": lambda consumer, held: consumer.change_invisible(held[0], 20),
    "close": lambda consumer, held: [consumer.ack(held[0]), consumer.close()],
}


def check_call(name: str, at: int) -> bool:
    """One run, interrupted at the `at`-th place; False where there are not so many."""
    stage = PopStage(MESSAGES)
    with on(stage):
        consumer = SimpleConsumer("g", namesrv=NAMESRV)
        consumer.subscribe(TOPIC)
        held = consumer.receive(EARLIER)
        interrupter = Interrupter(at)
        try:
            with interrupter.at_work():
                CALLS[name](consumer, held)
        except Interrupted:
            pass
        else:
            consumer.close()
            return False
        hint = f"{name}: interrupted at place {at}, {interrupter.where}"
        assert not stage.held_locks(), hint
        handed = consumer.statistics().received - EARLIER
        stage.pump(LOST_MS + 5_000)
        if name != "close":
            assert len(stage.leased() - {message.queue_offset for message in held}) <= max(0, handed), hint
            consumer.ack_batch(held, wait=True)
            bodies: list[bytes] = []
            while messages := consumer.receive(wait=1):
                assert not any(message.reconsume_times for message in messages), hint
                bodies += [message.body for message in messages]
                consumer.ack_batch(messages)
            assert len(bodies) >= MESSAGES - EARLIER - handed, hint
            assert len(set(bodies)) == len(bodies), hint
        consumer.close()
        assert stage.closed, f"{hint}: the connection is still open"
        assert not stage.members, f"{hint}: still a member"
        assert not program_end._open, hint
        assert not stage.held_locks(), hint
    return True


@pytest.mark.parametrize("name", CALLS)
def test_a_simple_consumer_goes_on(name: str) -> None:
    at = 1
    while check_call(name, at):
        at += 1
    assert at > 3
