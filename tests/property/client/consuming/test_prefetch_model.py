"""Whatever happens in whatever order, messages come once each, in order, and nothing is committable too early."""

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.consuming.prefetch import Prefetch
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Subscription
from zenitmq.record.kernel import encode_record
from zenitmq.remoting.commands import PullReply

QUEUE = MessageQueue("t", "x", 0)
RECORDS = [encode_record(topic=b"t", body=b"%d" % index, queue_offset=index) for index in range(64)]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("answer"), st.integers(1, 9)),
            st.tuples(st.just("error"), st.just(0)),
            st.tuples(st.just("take"), st.integers(1, 7)),
            st.tuples(st.just("take part"), st.integers(2, 9)),
            st.tuples(st.just("pause"), st.just(0)),
            st.tuples(st.just("resume"), st.just(0)),
            st.tuples(st.just("seek"), st.integers(0, 63)),
        ),
        max_size=60,
    )
)
def test_order_and_positions(steps: list[tuple[str, int]]) -> None:
    prefetch = Prefetch()
    prefetch.assign(QUEUE, 0, committed=-1, subscription=Subscription.parse("t"))
    now, expected = 0, 0
    flying = []
    for step, number in steps:
        now += 10_000
        flying += prefetch.due(now)
        if step == "answer" and flying:
            pull = flying.pop()
            part = RECORDS[pull.offset : pull.offset + number]
            status = GetStatus.FOUND if part else GetStatus.OFFSET_OVERFLOW_ONE
            reply = PullReply(int(status), pull.offset + len(part), 0, 64, len(part))
            prefetch.on_reply(pull, reply, b"".join(part), now)
        elif step == "error" and flying:
            prefetch.on_error(flying.pop(), now)
        elif step.startswith("take"):
            prefetch.settle()
            assert prefetch.uncommitted(handed=False).get(QUEUE, -1) == expected
            taken = prefetch.take(number)
            if taken is not None:
                queue, batch = taken
                assert [message.queue_offset for message in batch] == list(range(expected, expected + len(batch)))
                keep = len(batch)
                if step == "take part":
                    keep = (len(batch) + 1) // 2
                    prefetch.put_back(queue, batch.slice(keep, len(batch)), settled=expected + keep - 1)
                expected += keep
        elif step == "pause":
            prefetch.pause([QUEUE])
        elif step == "resume":
            prefetch.resume([QUEUE])
        elif step == "seek":
            prefetch.seek(QUEUE, number)
            expected = number
        assert prefetch.position(QUEUE) == expected
        assert prefetch.uncommitted(handed=True).get(QUEUE, -1) == expected
