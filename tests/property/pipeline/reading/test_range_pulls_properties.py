"""However a broker answers, a range is handed out once, in order, whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.errors import ConnectionLost
from zenitmq.model.get_status import GetStatus
from zenitmq.pipeline.reading.range_pulls import NextPull, PullLimits, RangePulls
from zenitmq.remoting.commands import PullReply

PATIENT = PullLimits(bytes_max=1 << 20, timeout_ms=10**12, retries=10**6, fail_on_data_loss=True)


@given(
    data=st.data(),
    begin=st.integers(0, 50),
    rows=st.integers(1, 4000),
    row_bytes=st.integers(91, 5000),
    is_filtered=st.booleans(),
    is_replica_good=st.booleans(),
)
def test_every_message_is_handed_out_once_and_in_order(
    data: st.DataObject, begin: int, rows: int, row_bytes: int, is_filtered: bool, is_replica_good: bool
) -> None:
    """With a filter every third message matches; the others are never in an answer."""
    end = begin + rows
    reading = RangePulls("q", begin, end, PATIENT, is_filtered=is_filtered, is_replica_good=is_replica_good)
    in_flight: list[NextPull] = []
    handed: list[int] = []
    position, now_ms, steps = begin, 0, 0
    while not reading.is_done:
        steps += 1
        now_ms += 5_000
        in_flight += reading.asks(now_ms)
        assert len({ask.strip for ask in in_flight}) == len(in_flight) <= 3
        while (taken := reading.take()) is not None:
            assert (taken.begin, taken.missing) == (position, 0)
            assert taken.end > taken.begin
            position = taken.end
            handed += [int(text) for text in taken.payload.split(b",") if text and int(text) < taken.end]
        if in_flight:
            ask = in_flight.pop(data.draw(st.integers(0, len(in_flight) - 1)) if steps < 60 else 0)
            if steps < 60 and data.draw(st.booleans()):
                reading.on_error(ask, ConnectionLost("a:1"), now_ms)
                continue
            borne = max(1, min(ask.messages_max, PATIENT.bytes_max // row_bytes))
            if steps < 60:
                borne = data.draw(st.integers(1, borne))
            answered = min(end + 10, ask.offset + borne)
            offsets = [n for n in range(ask.offset, answered) if not is_filtered or n % 3 == 0]
            status = GetStatus.FOUND if offsets else GetStatus.NO_MATCHED_MESSAGE
            payload = b",".join(b"%d" % n for n in offsets)
            reading.on_reply(ask, PullReply(status, answered, 0, end, len(offsets)), payload, now_ms)
    assert position == end
    assert handed == [n for n in range(begin, end) if not is_filtered or n % 3 == 0]
