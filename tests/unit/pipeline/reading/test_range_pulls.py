"""Reading a range by pulls: what is asked for, in which pieces, and what each kind of answer leads to."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import (
    ConnectionLost,
    DataLost,
    OffsetOutOfRange,
    RangeUnread,
    RemoteProtocolError,
    TopicNotFound,
)
from zenitmq.model.get_status import GetStatus
from zenitmq.pipeline.reading.range_pulls import (
    ANSWER_BYTES,
    PAUSE_MS,
    PAUSE_MS_MAX,
    READY_MAX,
    ROW_BYTES,
    STRIPS_MAX,
    Lost,
    NextPull,
    PullLimits,
    RangePulls,
    Taken,
)
from zenitmq.remoting.commands import PullReply

LIMITS = PullLimits(bytes_max=4 << 20, timeout_ms=30_000, retries=3, fail_on_data_loss=True)
LENIENT = PullLimits(bytes_max=4 << 20, timeout_ms=30_000, retries=3, fail_on_data_loss=False)
STRIP = ANSWER_BYTES * 15 // 16 // ROW_BYTES


def pulls(end: int = 10, begin: int = 0, limits: PullLimits = LIMITS, *, filtered: bool = False, replica: bool = False):
    return RangePulls("q", begin, end, limits, is_filtered=filtered, is_replica_good=replica)


def found(ask: NextPull, end: int, *, count: int | None = None) -> tuple[PullReply, bytes]:
    number = end - ask.offset if count is None else count
    return PullReply(GetStatus.FOUND, end, 0, 1 << 40, number), bytes(ROW_BYTES) * number


def other(status: GetStatus, next_offset: int) -> PullReply:
    return PullReply(status, next_offset, 2, 8, 0)


def test_a_short_range_is_one_pull() -> None:
    reading = pulls(end=10, begin=4)
    assert reading.asks(0) == [NextPull(1, 4, 10, 6, False)]
    assert reading.asks(0) == []
    assert reading.take() is None
    assert not reading.is_done
    reading.on_reply(NextPull(1, 4, 10, 6, False), *found(NextPull(1, 4, 10, 6, False), 10), 0)
    assert reading.take() == Taken(bytes(6 * ROW_BYTES), 4, 10, 0, 6)
    assert reading.take() is None
    assert reading.is_done


def test_a_long_range_is_asked_for_in_several_strips_at_once_and_handed_out_in_order() -> None:
    reading = pulls(end=10 * STRIP)
    asks = reading.asks(0)
    assert [(ask.offset, ask.messages_max) for ask in asks] == [(n * STRIP, STRIP) for n in range(STRIPS_MAX)]
    for ask in reversed(asks):
        reading.on_reply(ask, *found(ask, ask.end), 0)
    assert [reading.take().begin for _ in asks] == [ask.offset for ask in asks]
    assert reading.take() is None
    assert [ask.offset for ask in reading.asks(0)] == [asks[-1].end + n * _grown() for n in range(STRIPS_MAX)]


def _grown() -> int:
    """The length of a strip after so many answers that bore all that was asked for."""
    size = ANSWER_BYTES
    for _ in range(STRIPS_MAX):
        size = min(4 << 20, size * 9 // 8)
    return size * 15 // 16 // ROW_BYTES


def test_the_rest_of_a_strip_is_asked_for_before_the_next_is_handed_out() -> None:
    reading = pulls(end=2 * STRIP)
    first, second = reading.asks(0)
    reading.on_reply(second, *found(second, second.end), 0)
    reading.on_reply(first, *found(first, 10), 0)
    taken = reading.take()
    assert (taken.begin, taken.end) == (0, 10)
    assert reading.take() is None
    (rest,) = reading.asks(0)
    assert (rest.offset, rest.end, rest.messages_max) == (10, STRIP, STRIP - 10)
    reading.on_reply(rest, *found(rest, rest.end), 0)
    assert [reading.take().begin for _ in range(2)] == [10, STRIP]
    assert reading.take() is None
    assert reading.is_done


def test_strips_become_as_long_as_answers_are() -> None:
    """Each answer bears a quarter of what the first strips were made for."""
    reading = pulls(end=100 * STRIP)
    asked: list[NextPull] = []
    for _ in range(20):
        while reading.take() is not None:
            pass
        asked = reading.asks(0)
        for ask in asked:
            reading.on_reply(ask, *found(ask, min(ask.end, ask.offset + STRIP // 4)), 0)
    assert min(ask.offset for ask in asked) > STRIPS_MAX * STRIP
    assert max(ask.messages_max for ask in asked) <= STRIP // 3


def test_of_a_strip_only_so_many_answers_wait_to_be_taken() -> None:
    reading = pulls(end=1000, filtered=True)
    for number in range(READY_MAX):
        (ask,) = reading.asks(0)
        reading.on_reply(ask, *found(ask, 10 * (number + 1), count=1), 0)
    assert reading.asks(0) == []
    assert reading.take() == Taken(bytes(ROW_BYTES), 0, 10, 0, 1)
    assert [ask.offset for ask in reading.asks(0)] == [10 * READY_MAX]


def test_with_a_filter_there_is_one_strip_and_nothing_is_missing() -> None:
    reading = pulls(end=1000, filtered=True)
    (ask,) = reading.asks(0)
    assert ask.end == 1000
    assert reading.on_reply(ask, other(GetStatus.NO_MATCHED_MESSAGE, 700), b"", 0) is None
    (ask,) = reading.asks(0)
    assert ask.offset == 700
    reading.on_reply(ask, *found(ask, 1200, count=2), 0)
    assert reading.take() == Taken(b"", 0, 700, 0, 0)
    assert reading.take() == Taken(bytes(2 * ROW_BYTES), 700, 1000, 0, 2)
    assert reading.take() is None
    assert reading.is_done


def test_offsets_without_a_record_are_counted() -> None:
    """The broker passes over what it knows to be damaged."""
    reading = pulls(end=10)
    (ask,) = reading.asks(0)
    reading.on_reply(ask, *found(ask, 6, count=4), 0)
    (ask,) = reading.asks(0)
    reading.on_reply(ask, other(GetStatus.NO_MATCHED_MESSAGE, 10), b"", 0)
    assert [reading.take().missing, reading.take().missing] == [2, 4]


def test_what_expired_is_an_error() -> None:
    reading = pulls()
    (ask,) = reading.asks(0)
    with pytest.raises(DataLost) as raised:
        reading.on_reply(ask, other(GetStatus.OFFSET_TOO_SMALL, 4), b"", 0)
    assert raised.value.args == ("q", 0, 4)


@pytest.mark.parametrize(("minimum", "lost_end"), [(4, 4), (40, 10)])
def test_what_expired_is_passed_over_where_that_was_said(minimum: int, lost_end: int) -> None:
    reading = pulls(limits=LENIENT)
    (ask,) = reading.asks(0)
    assert reading.on_reply(ask, other(GetStatus.OFFSET_TOO_SMALL, minimum), b"", 0) == Lost(0, lost_end)
    assert [ask.offset for ask in reading.asks(0)] == ([4] if lost_end == 4 else [])
    assert reading.take() is None
    assert reading.is_done == (lost_end == 10)


def test_a_queue_that_ends_too_early_is_asked_again_then_an_error() -> None:
    """It may be a replica that has just become master, and is about to confirm."""
    reading = pulls()
    now_ms = 0
    for pause_ms in (PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS):
        (ask,) = reading.asks(now_ms)
        assert reading.on_reply(ask, other(GetStatus.OFFSET_OVERFLOW_BADLY, 8), b"", now_ms) is None
        assert reading.asks(now_ms + pause_ms - 1) == []
        assert reading.next_due_ms() == now_ms + pause_ms
        now_ms += pause_ms
    (ask,) = reading.asks(now_ms)
    with pytest.raises(OffsetOutOfRange) as raised:
        reading.on_reply(ask, other(GetStatus.OFFSET_OVERFLOW_BADLY, 8), b"", now_ms)
    assert raised.value.args == ("q", 0, 2, 8)


def test_a_queue_that_ends_too_early_is_read_to_its_end_where_that_was_said() -> None:
    reading = pulls(limits=PullLimits(1 << 20, 1000, 0, fail_on_data_loss=False))
    (ask,) = reading.asks(0)
    assert reading.on_reply(ask, other(GetStatus.NO_MESSAGE_IN_QUEUE, 0), b"", 0) == Lost(0, 10)
    assert reading.take() is None
    assert reading.is_done


def test_an_answer_that_moves_nothing_counts_as_a_try_that_brought_nothing() -> None:
    reading = pulls(filtered=True)
    (ask,) = reading.asks(0)
    reading.on_reply(ask, other(GetStatus.NO_MATCHED_MESSAGE, 0), b"", 0)
    assert reading.asks(0) == []
    assert reading.asks(PAUSE_MS) != []


@pytest.mark.parametrize(("end", "count"), [(0, 1), (3, 0)])
def test_an_answer_against_the_rules_is_refused(end: int, count: int) -> None:
    reading = pulls()
    (ask,) = reading.asks(0)
    with pytest.raises(RemoteProtocolError):
        reading.on_reply(ask, PullReply(GetStatus.FOUND, end, 0, 10, count), b"x", 0)


def test_what_cannot_be_helped_is_raised_at_once() -> None:
    reading = pulls()
    (ask,) = reading.asks(0)
    with pytest.raises(TopicNotFound):
        reading.on_error(ask, TopicNotFound("t"), 0)


def test_a_failed_pull_is_sent_again_after_a_pause() -> None:
    reading = pulls()
    (ask,) = reading.asks(0)
    reading.on_error(ask, ConnectionLost("a:1"), 5)
    assert reading.next_due_ms() == 5 + PAUSE_MS
    assert reading.asks(5 + PAUSE_MS) == [ask]


def test_after_too_many_failures_it_says_why() -> None:
    reading = pulls()
    for now_ms in (1000, 2000, 3000):
        (ask,) = reading.asks(now_ms)
        reading.on_error(ask, ConnectionLost("a:1"), now_ms)
    (ask,) = reading.asks(4000)
    with pytest.raises(RangeUnread) as raised:
        reading.on_error(ask, ConnectionLost("a:1"), 4000)
    assert raised.value.args == ("q", 0, 3000, str(ConnectionLost("a:1")))


def test_after_too_long_a_time_it_says_why_however_few_the_failures() -> None:
    reading = pulls(limits=PullLimits(1 << 20, 500, 1000, fail_on_data_loss=True))
    (ask,) = reading.asks(0)
    reading.on_error(ask, ConnectionLost("a:1"), 10_000)  # however long the answer took
    (ask,) = reading.asks(10_400)
    with pytest.raises(RangeUnread):
        reading.on_error(ask, ConnectionLost("a:1"), 10_500)


def test_a_success_makes_it_patient_again() -> None:
    reading = pulls(end=100)
    for now_ms in (1000, 2000, 3000):
        (ask,) = reading.asks(now_ms)
        reading.on_error(ask, ConnectionLost("a:1"), now_ms)
    (ask,) = reading.asks(4000)
    reading.on_reply(ask, *found(ask, 50), 4000)
    (ask,) = reading.asks(4000)
    reading.on_error(ask, ConnectionLost("a:1"), 100_000)
    assert reading.next_due_ms() == 100_000 + PAUSE_MS


def test_pauses_do_not_grow_for_ever() -> None:
    reading = pulls(limits=PullLimits(1 << 20, 10**9, 1000, fail_on_data_loss=True))
    now_ms = 0
    for _ in range(40):
        (ask,) = reading.asks(now_ms)
        reading.on_error(ask, ConnectionLost("a:1"), now_ms)
        due_ms = reading.next_due_ms()
        assert due_ms is not None
        assert now_ms < due_ms <= now_ms + PAUSE_MS_MAX
        now_ms = due_ms


def test_nothing_is_due_by_time_while_an_answer_is_awaited() -> None:
    reading = pulls()
    reading.asks(0)
    assert reading.next_due_ms() is None


@pytest.mark.parametrize("status", [GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_TOO_SMALL])
def test_where_a_replica_has_not_what_is_asked_for_the_master_is_asked_at_once(status: GetStatus) -> None:
    reading = pulls(end=3 * STRIP, replica=True)
    asks = reading.asks(0)
    assert all(ask.is_replica_good for ask in asks)
    for ask in asks:
        assert reading.on_reply(ask, other(status, 4), b"", 0) is None
    assert [(ask.offset, ask.is_replica_good) for ask in reading.asks(0)] == [(ask.offset, False) for ask in asks]


def test_a_restart_drops_what_was_asked_for_beyond() -> None:
    reading = pulls(end=3 * STRIP)
    asks = reading.asks(0)
    reading.restart(17)
    for ask in asks:
        reading.on_reply(ask, *found(ask, ask.end), 0)
        reading.on_error(ask, TopicNotFound("t"), 0)
    assert reading.take() is None
    assert not reading.is_done
    assert reading.asks(0)[0].offset == 17


def test_batches_that_reach_beyond_their_strips_are_asked_for_once() -> None:
    """The first strips all lie in one batch; from then on one request follows the other, and no batch comes twice."""
    reading = pulls(end=40 * STRIP)
    asks = reading.asks(0)
    for ask in asks:
        reading.on_reply(ask, *found(ask, 10 * STRIP), 0)
    taken = [reading.take() for _ in asks]
    assert [(one.begin, one.end, one.missing) for one in taken] == [
        (0, STRIP, 0), (STRIP, 2 * STRIP, 0), (2 * STRIP, 10 * STRIP, 0),
    ]  # fmt: skip
    for begin in (10, 20, 30):
        (ask,) = reading.asks(0)
        assert (ask.offset, ask.end) == (begin * STRIP, 40 * STRIP)
        reading.on_reply(ask, *found(ask, (begin + 10) * STRIP), 0)
        assert (reading.take().end, reading.take()) == ((begin + 10) * STRIP, None)
    assert reading.is_done


def compacted(status: GetStatus, end: int, count: int) -> PullReply:
    return PullReply(status, end, 0, 1 << 40, count, is_compacted=True)


def test_gaps_of_compacted_topics_are_no_damage_and_passed_in_one_go() -> None:
    reading = pulls(end=1_000_000)
    for ask in reading.asks(0):
        reading.on_reply(ask, compacted(GetStatus.FOUND, 900_000, 2), bytes(10), 0)
    taken = [reading.take() for _ in range(STRIPS_MAX)]
    assert [(one.missing, one.count) for one in taken] == [(0, 2)] * STRIPS_MAX
    assert taken[-1].end == 900_000
    (ask,) = reading.asks(0)
    reading.on_reply(ask, compacted(GetStatus.NO_MATCHED_MESSAGE, 999_000, 0), b"", 0)
    (ask,) = reading.asks(0)
    reading.on_reply(ask, *found(ask, 1_000_000, count=999), 0)  # what the log has is without gaps
    assert [reading.take().missing for _ in range(2)] == [0, 1]
    assert reading.take() is None
    assert reading.is_done


def lost(begin: int, end: int) -> PullReply:
    return PullReply(GetStatus.MESSAGES_LOST, end, 0, 100, 0, 0, begin, 4096, 5000)


def test_messages_that_are_lost_by_damage_are_passed_over_and_told() -> None:
    reading = pulls(end=10)
    [ask] = reading.asks(0)
    reading.on_reply(ask, *found(ask, 4), 0)
    [ask] = reading.asks(0)
    assert reading.on_reply(ask, lost(4, 6), b"", 0) == Lost(4, 6, is_damage=True)
    [ask] = reading.asks(0)
    assert ask.offset == 6
    assert reading.on_reply(ask, lost(6, 20), b"", 0) == Lost(6, 10, is_damage=True)
    assert reading.take() == Taken(bytes(4 * ROW_BYTES), 0, 4, 0, 4)
    assert reading.take() is None
    assert reading.is_done


def test_a_filtered_read_knows_what_came_before_the_lost_messages() -> None:
    reading = pulls(end=10, filtered=True)
    [ask] = reading.asks(0)
    assert reading.on_reply(ask, lost(3, 5), b"", 0) == Lost(3, 5, is_damage=True)
    assert reading.take() == Taken(b"", 0, 3, 0, 0)
    [ask] = reading.asks(0)
    assert ask.offset == 5
    assert reading.on_reply(ask, lost(12, 15), b"", 0) is None
    assert reading.take() == Taken(b"", 5, 10, 0, 0)
    assert reading.take() is None
    assert reading.is_done


def test_what_was_damaged_is_asked_for_once_more_in_doubt_and_of_the_master() -> None:
    reading = pulls(end=10, replica=True)
    [ask] = reading.asks(0)
    reading.on_reply(ask, *found(ask, 10), 0)
    reading.restart(4, is_doubted=True)
    [ask] = reading.asks(0)
    assert (ask.offset, ask.is_doubted, ask.is_replica_good) == (4, True, False)
    reading.on_reply(ask, *found(ask, 7), 0)
    [ask] = reading.asks(0)
    assert (ask.offset, ask.is_doubted, ask.is_replica_good) == (7, False, True)
    reading.restart(7)
    assert [ask.is_doubted for ask in reading.asks(0)] == [False]
