"""Chunks of a replay, and what is written down of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.model.errors import ArchiveDamaged, ReplayChanged, ReplayElsewhere
from zenitmq.pipeline.jobs.archives import replay_plan
from zenitmq.pipeline.jobs.archives.replay_plan import (
    CHUNK_ROWS,
    Replay,
    decode_replay,
    digest_of,
    encode_replay,
    new_replay,
    part,
)
from zenitmq.pipeline.reading.offsets import QueueRange

RANGES = (QueueRange("t", "a", 0, 0, 5), QueueRange("t", "a", 0, 7, 9), QueueRange("t", "a", 1, 2, 4))
REPLAY = Replay("id", "digest", RANGES, share=3, partitions=2)


def test_a_chunk_takes_the_next_of_each_queue() -> None:
    assert REPLAY.chunks == 3
    assert [REPLAY.chunk(number) for number in range(3)] == [
        [QueueRange("t", "a", 0, 0, 3), QueueRange("t", "a", 1, 2, 4)],
        [QueueRange("t", "a", 0, 3, 5), QueueRange("t", "a", 0, 7, 8)],
        [QueueRange("t", "a", 0, 8, 9)],
    ]
    assert (REPLAY.rows, REPLAY.left) == (9, 9)
    after = REPLAY.done(5)
    assert (after.next_chunk, after.sent, after.left) == (1, 5, 4)


def test_it_knows_which_life_of_the_topic_it_is_of() -> None:
    ranges = tuple(QueueRange("t", "a", queue_id, 0, 5, 17) for queue_id in range(2))
    replay = decode_replay(encode_replay(Replay("id", "digest", ranges, share=3, partitions=2)), "x")
    assert replay.ranges == ranges
    assert {each.incarnation for number in range(replay.chunks) for each in replay.chunk(number)} == {17}


def test_the_state_of_an_older_version_says_no_life() -> None:
    document = json.loads(encode_replay(REPLAY))
    document["ranges"] = [row[:5] for row in document["ranges"]]
    assert decode_replay(json.dumps(document).encode(), "x") == REPLAY


def test_a_part_of_a_set() -> None:
    assert part(((0, 5), (7, 9)), 0, 0) == ()
    assert part(((0, 5), (7, 9)), 5, 9) == ((7, 9),)
    assert part(((0, 5), (7, 9)), 9, 9) == ()


def test_chunks_are_as_large_as_some_seconds_of_the_rate() -> None:
    assert new_replay("i", "d", RANGES, rows_per_second=0).share == CHUNK_ROWS // 2
    assert new_replay("i", "d", RANGES, rows_per_second=2).share == 5
    assert new_replay("i", "d", RANGES, rows_per_second=0.01).share == 1
    empty = new_replay("i", "d", [QueueRange("t", "a", 0, 4, 4)], rows_per_second=0)
    assert (empty.ranges, empty.chunks, empty.rows) == ((), 0, 0)


def test_a_digest_is_of_all_that_was_told() -> None:
    assert digest_of({"a": 1, "b": ("x",)}) == digest_of({"b": ["x"], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_a_replay_goes_on_with_its_own_cluster_and_options_only() -> None:
    """The chunks that are done were sent there: another cluster would never have them."""
    begun = new_replay("i", "d", RANGES, rows_per_second=0, cluster_id="one")
    begun = decode_replay(encode_replay(begun), "x")
    begun.check("r", "x", digest="d", cluster_id="one")
    begun.check("r", "x", digest="d", cluster_id="")
    with pytest.raises(ReplayElsewhere, match=r"one.* two"):
        begun.check("r", "x", digest="d", cluster_id="two")
    with pytest.raises(ReplayChanged):
        begun.check("r", "x", digest="e", cluster_id="one")


def test_a_state_that_names_no_cluster_is_of_whichever_answers() -> None:
    document = json.loads(encode_replay(REPLAY))
    del document["cluster_id"]
    decode_replay(json.dumps(document).encode(), "x").check("r", "x", digest="digest", cluster_id="two")


def test_a_replay_comes_back_from_its_bytes() -> None:
    assert decode_replay(encode_replay(REPLAY.done(7)), "x") == REPLAY.done(7)


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(encode_replay(REPLAY)) | changes).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"{}",
        changed(version=2),
        changed(more=1),
        changed(share=0),
        changed(partitions=0),
        changed(sent=-1),
        changed(next_chunk="1"),
        changed(identity=7),
        changed(ranges={}),
        changed(ranges=[["t", "a", 0, 5]]),
        changed(ranges=[["t", "a", 0, 5, 4]]),
        changed(ranges=[["t", "a", 0, -5, 4]]),
        changed(ranges=[["t", 7, 0, 0, 4]]),
        changed(ranges=[7]),
    ],
)
def test_what_is_no_replay_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveDamaged, match="no replay"):
        decode_replay(data, "x")


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_plan, "STATE_BYTES_MAX", 10)
    with pytest.raises(ArchiveDamaged, match="more than 10 bytes"):
        decode_replay(encode_replay(REPLAY), "x")
