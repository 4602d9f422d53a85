"""Whatever the ranges, the chunks of a replay hold each of their offsets once, each queue's in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.pipeline.jobs.archives.replay_plan import Replay, decode_replay, encode_replay
from zenitmq.pipeline.reading.offsets import QueueKey, QueueRange

RANGES = st.lists(
    st.builds(
        lambda queue_id, start, rows: QueueRange("t", "a", queue_id, start, start + rows),
        st.integers(0, 3),
        st.integers(0, 30),
        st.integers(1, 12),
    ),
    max_size=8,
)


@given(RANGES, st.integers(1, 9))
def test_chunks_hold_each_offset_once_in_order(ranges: list[QueueRange], share: int) -> None:
    replay = Replay("i", "d", tuple(ranges), share, 1)
    wanted = {(each.key, offset) for each in ranges for offset in range(each.start, each.end)}
    sent: dict[QueueKey, list[int]] = {}
    for number in range(replay.chunks):
        chunk = replay.chunk(number)
        assert chunk
        assert replay.left == len(wanted) - sum(map(len, sent.values()))
        for each in chunk:
            sent.setdefault(each.key, []).extend(range(each.start, each.end))
        replay = replay.done(0)
    assert {(key, offset) for key, offsets in sent.items() for offset in offsets} == wanted
    assert all(offsets == sorted(set(offsets)) for offsets in sent.values())
    assert replay.left == 0
    assert decode_replay(encode_replay(replay), "x") == replay
