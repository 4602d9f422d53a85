"""Whatever happens in whatever order: no message is lost, none is handled after its queue is gone, no commit passes an
unfinished message, and an ordered queue has one handler at a time, in order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zenitmq.client.consuming.push.process_queue import FlowLimits
from zenitmq.client.consuming.push.queues import Delivery, Failure, PushQueues, PushRules, Return
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Subscription
from zenitmq.record.kernel import encode_record
from zenitmq.remoting.commands import PullReply

QUEUES = [MessageQueue("t", "x", index) for index in range(2)]
LENGTH = 40
RECORDS = [encode_record(topic=b"t", body=b"%d" % index, queue_offset=index) for index in range(LENGTH)]
NAMES = st.sampled_from(QUEUES)
LEASE_MS = 5_000


class PushHistory(RuleBasedStateMachine):
    """The broker, the handlers and the operator of one consumer; `done`: what each queue's handlers or returns finished."""

    @initialize(
        is_ordered=st.booleans(),
        batch_size=st.integers(1, 3),
        limits=st.sampled_from([FlowLimits(), FlowLimits(messages=3), FlowLimits(span=4)]),
        timeout_ms=st.sampled_from([0, 700]),
        attempts=st.sampled_from([0, 2]),
    )
    def begin(self, is_ordered: bool, batch_size: int, limits: FlowLimits, timeout_ms: int, attempts: int) -> None:
        self.now = 0
        self.is_ordered = is_ordered
        self.queues = PushQueues(
            PushRules(
                limits=limits,
                batch_size=batch_size,
                is_ordered=is_ordered,
                max_attempts=attempts,
                suspend_ms=100,
                consume_timeout_ms=timeout_ms,
            )
        )
        self.pulls: list[object] = []
        self.running: list[Delivery] = []
        self.returns: list[Return] = []
        self.done: dict[MessageQueue, set[int]] = {name: set() for name in QUEUES}
        self.committed: dict[MessageQueue, int] = dict.fromkeys(QUEUES, 0)
        self.current: dict[MessageQueue, object] = {}

    @rule(name=NAMES)
    def assign(self, name: MessageQueue) -> None:
        if name not in self.queues.queues():
            self.queues.assign(
                name,
                self.committed[name],
                committed=self.committed[name],
                subscription=Subscription.parse("t"),
                now_ms=self.now,
                leased_until_ms=self.now + LEASE_MS,
            )

    @rule(name=NAMES)
    def leave(self, name: MessageQueue) -> None:
        if name in self.queues.queues():
            self.queues.leave(name)

    @rule(name=NAMES)
    def stay(self, name: MessageQueue) -> None:
        if name in self.queues.queues() and self.queues.is_leaving(name):
            self.queues.stay(name)

    @rule(name=NAMES)
    def revoke(self, name: MessageQueue) -> None:
        self.commit()
        self.queues.revoke(name)

    @rule(name=NAMES)
    def lease(self, name: MessageQueue) -> None:
        self.queues.on_leased(name, self.now + LEASE_MS)

    @rule(count=st.integers(0, 5), fails=st.booleans())
    def answer(self, count: int, fails: bool) -> None:
        self.pulls += self.queues.due(self.now)
        if not self.pulls:
            return
        pull = self.pulls.pop(0)
        part = RECORDS[pull.offset : pull.offset + count]  # type: ignore[attr-defined]
        if fails:
            self.queues.on_error(pull, self.now)  # type: ignore[arg-type]
            return
        status = GetStatus.FOUND if part else GetStatus.OFFSET_OVERFLOW_ONE
        reply = PullReply(int(status), pull.offset + len(part), 0, LENGTH, len(part))  # type: ignore[attr-defined]
        self.queues.on_reply(pull, reply, b"".join(part), self.now)  # type: ignore[arg-type]

    @rule()
    def take(self) -> None:
        delivery = self.queues.next_delivery(self.now)
        if delivery is None:
            return
        name = delivery.process.name
        assert name in self.queues.queues()
        assert not self.queues.is_leaving(name)
        assert not delivery.process.is_gone
        if self.is_ordered:
            assert self.now < delivery.process.leased_until_ms
            assert all(other.process is not delivery.process for other in self.running)
            first = delivery.messages[0].queue_offset
            assert set(range(self.committed[name], first)) <= self.done[name], "an earlier message was skipped"
        self.running.append(delivery)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), outcome=st.sampled_from([None, Failure("no"), Failure("never", is_final=True)]))
    def end(self, data: st.DataObject, outcome: Failure | None) -> None:
        delivery = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        counts = self.queues.is_running(delivery) and not delivery.process.is_gone
        self.returns += self.queues.on_handled(delivery, outcome, self.now)
        if counts and outcome is None:
            self.done[delivery.process.name] |= {message.queue_offset for message in delivery.messages}

    @precondition(lambda self: self.returns)
    @rule(data=st.data(), is_settled=st.booleans())
    def returned(self, data: st.DataObject, is_settled: bool) -> None:
        item = self.returns.pop(data.draw(st.integers(0, len(self.returns) - 1)))
        if is_settled:
            self.done[item.process.name].add(item.message[0].queue_offset)
        self.queues.on_returned(item, self.now, is_settled=is_settled)

    @rule(pause_ms=st.sampled_from([10, 500, 6_000, 130_000]))
    def wait(self, pause_ms: int) -> None:
        self.now += pause_ms
        tick = self.queues.on_tick(self.now)
        self.returns += tick.returns
        for name in tick.lost:
            self.queues.revoke(name)

    @rule()
    def commit(self) -> None:
        offsets = self.queues.uncommitted()
        for name, offset in offsets.items():
            self.committed[name] = offset
        self.queues.on_committed(offsets.items())

    @invariant()
    def no_commit_passes_an_unfinished_message(self) -> None:
        for name, offset in self.queues.uncommitted().items():
            assert set(range(offset)) <= self.done[name]

    def teardown(self) -> None:
        """All that is still to be handled is, once handlers and broker are well again."""
        for name in QUEUES:
            self.assign(name)
            if self.queues.is_leaving(name):
                self.queues.stay(name)
        for _ in range(LENGTH * 6):
            for name in QUEUES:
                self.lease(name)
            while self.running:
                delivery = self.running.pop()
                counts = self.queues.is_running(delivery) and not delivery.process.is_gone
                assert self.queues.on_handled(delivery, None, self.now) == ()
                if counts:
                    self.done[delivery.process.name] |= {message.queue_offset for message in delivery.messages}
            while self.returns:
                item = self.returns.pop()
                self.done[item.process.name].add(item.message[0].queue_offset)
                self.queues.on_returned(item, self.now, is_settled=True)
            self.answer(5, fails=False)
            self.take()
            self.now += 300
            self.returns += self.queues.on_tick(self.now).returns
        assert all(done == set(range(LENGTH)) for done in self.done.values())
        self.commit()
        assert all(offset == LENGTH for offset in self.committed.values())


TestPushHistory = PushHistory.TestCase
TestPushHistory.settings = settings(max_examples=80, stateful_step_count=60)
