"""What a pull consumer asks for, hands out and may commit, step by step without a socket."""

import pytest

from zenitmq.client.consuming.prefetch import EMPTY_PAUSE_MS, MessagesLost, Prefetch, Pull, wanted_runs
from zenitmq.model.errors import CorruptRecordError, DamageAwaited
from zenitmq.model.get_status import GetStatus
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Sql, Subscription
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.remoting.commands import PullReply

A, B = MessageQueue("t", "x", 0), MessageQueue("t", "x", 1)
EVERYTHING = Subscription.parse("t")
KIB = 1024


def record(offset: int, tags: str = "", size: int = 10) -> bytes:
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    return encode_record(topic=b"t", body=bytes(size), properties=properties, queue_offset=offset)


def run(begin: int, end: int, size: int = 10) -> bytes:
    return b"".join(record(offset, size=size) for offset in range(begin, end))


def found(following: int, count: int = 1) -> PullReply:
    return PullReply(int(GetStatus.FOUND), following, 0, 1000, count)


def prefetch_of(*queues: MessageQueue, offset: int = 0, bound: int = 1 << 20, pull: int = 256 * KIB) -> Prefetch:
    prefetch = Prefetch(bound, pull)
    for queue in queues:
        prefetch.assign(queue, offset, committed=-1, subscription=EVERYTHING)
    return prefetch


def test_each_queue_has_one_pull_in_flight_and_the_next_follows_its_answer() -> None:
    prefetch = prefetch_of(A, B)
    first, second = prefetch.due(0)
    assert (first.queue, second.queue) == (A, B)
    assert prefetch.due(0) == []
    prefetch.on_reply(first, found(5), run(0, 5), 1)
    (following,) = prefetch.due(1)
    assert (following.queue, following.offset) == (A, 5)


def test_a_full_share_stops_pulling_until_something_is_taken() -> None:
    prefetch = prefetch_of(A, bound=128 * KIB, pull=64 * KIB)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(1), record(0, size=60 * KIB), 0)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(2), record(1, size=60 * KIB), 0)
    assert prefetch.due(0) == []
    assert prefetch.take(10) is not None
    assert len(prefetch.due(0)) == 1


def test_queues_take_turns() -> None:
    prefetch = prefetch_of(A, B)
    for pull in prefetch.due(0):
        prefetch.on_reply(pull, found(2), run(0, 2), 0)
    for pull in prefetch.due(0):
        prefetch.on_reply(pull, found(4), run(2, 4), 0)
    assert [prefetch.take(10)[0] for _ in range(4)] == [A, B, A, B]
    assert prefetch.take(10) is None


def test_only_what_was_handed_out_counts_and_only_what_is_settled_by_itself() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(10), run(0, 10), 0)
    assert prefetch.uncommitted(handed=True) == {A: 0}
    _, batch = prefetch.take(4)
    assert len(batch) == 4
    assert prefetch.uncommitted(handed=True) == {A: 4}
    assert prefetch.uncommitted(handed=False) == {A: 0}
    prefetch.settle()
    assert prefetch.uncommitted(handed=False) == {A: 4}
    prefetch.on_committed([(A, 4)])
    assert prefetch.uncommitted(handed=True) == {}


def test_what_is_put_back_comes_first_again() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(10), run(0, 10), 0)
    queue, batch = prefetch.take(6)
    prefetch.put_back(queue, batch.slice(2, 6), settled=1)
    assert prefetch.position(A) == 2
    assert prefetch.uncommitted(handed=False) == {A: 1}
    assert [message.queue_offset for message in prefetch.take(100)[1]] == [2, 3, 4, 5]
    assert [message.queue_offset for message in prefetch.take(100)[1]] == [6, 7, 8, 9]
    assert prefetch.position(A) == 10


def test_an_answer_to_a_pull_before_a_seek_counts_for_nothing() -> None:
    prefetch = prefetch_of(A)
    (old,) = prefetch.due(0)
    assert prefetch.seek(A, 50)
    (new,) = prefetch.due(0)
    assert prefetch.on_reply(old, found(10), run(0, 10), 0) is None
    assert prefetch.take(10) is None
    prefetch.on_reply(new, found(52), run(50, 52), 0)
    assert [message.queue_offset for message in prefetch.take(10)[1]] == [50, 51]
    assert not prefetch.seek(B, 0)


def test_another_subscription_counts_from_the_position_on_and_settles_nothing() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(10), run(0, 10), 0)
    assert len(prefetch.take(4)[1]) == 4
    (before,) = prefetch.due(0)
    prefetch.resubscribe(A, EVERYTHING)
    assert prefetch.due(0) == []
    prefetch.resubscribe(A, Subscription.parse("t", Sql("n > 1")))
    assert prefetch.take(10) is None
    (pull,) = prefetch.due(0)
    assert (pull.offset, pull.sql) == (4, "n > 1")
    assert prefetch.on_reply(before, found(20), run(10, 20), 0) is None
    assert prefetch.uncommitted(handed=True) == {A: 4}
    assert prefetch.uncommitted(handed=False) == {A: 0}
    prefetch.on_reply(pull, found(20), run(12, 20), 0)
    assert prefetch.take(10)[1][0].queue_offset == 12


def test_an_answer_to_a_revoked_queue_counts_for_nothing() -> None:
    prefetch = prefetch_of(A)
    (old,) = prefetch.due(0)
    prefetch.revoke(A)
    prefetch.assign(A, 7, committed=7, subscription=EVERYTHING)
    prefetch.on_reply(old, found(10), run(0, 10), 0)
    assert prefetch.take(10) is None
    assert not prefetch.on_error(old, 0)
    assert prefetch.position(A) == 7


@pytest.mark.parametrize(
    ("status", "following", "moves"),
    [
        (GetStatus.OFFSET_TOO_SMALL, 20, True),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 3, True),
        (GetStatus.OFFSET_FOUND_NULL, 30, True),
        (GetStatus.NO_MESSAGE_IN_QUEUE, 0, True),
        (GetStatus.OFFSET_OVERFLOW_ONE, 10, False),
        (GetStatus.NO_MATCHED_MESSAGE, 15, False),
    ],
)
def test_empty_answers_say_where_to_go_on(status: GetStatus, following: int, moves: bool) -> None:
    prefetch = prefetch_of(A, offset=10)
    (pull,) = prefetch.due(0)
    moved = prefetch.on_reply(pull, PullReply(int(status), following, 0, 0, 0), b"", 1000)
    assert (moved is not None) == moves
    assert prefetch.position(A) == following
    assert prefetch.uncommitted(handed=False) == {A: following}
    assert [pull.offset for pull in prefetch.due(1000)] == [following]


def test_a_wait_before_damage_is_told_apart_from_the_end_of_a_queue() -> None:
    prefetch = prefetch_of(A, offset=10)
    for max_offset, is_awaited in ((10, False), (11, True), (9, False)):
        (pull,) = prefetch.due(0)
        reply = PullReply(int(GetStatus.OFFSET_OVERFLOW_ONE), 10, 0, max_offset, 0)
        event = prefetch.on_reply(pull, reply, b"", 1000)
        assert isinstance(event, DamageAwaited) == is_awaited
        assert prefetch.position(A) == 10
    assert prefetch.on_reply(pull, reply, b"", 1000) is None  # it was answered already


def test_a_broker_that_answers_emptily_at_once_is_not_hammered() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, PullReply(int(GetStatus.NO_MESSAGE_IN_QUEUE), 0, 0, 0, 0), b"", 1)
    assert prefetch.due(1) == []
    assert prefetch.next_due_ms() == 1 + EMPTY_PAUSE_MS
    assert len(prefetch.due(1 + EMPTY_PAUSE_MS)) == 1


def test_pauses_after_errors_grow_and_end_with_an_answer() -> None:
    prefetch = prefetch_of(A)
    now = 0
    pauses = []
    for _ in range(7):
        (pull,) = prefetch.due(now)
        assert prefetch.on_error(pull, now)
        pauses.append(prefetch.next_due_ms() - now)
        now = prefetch.next_due_ms()
    assert pauses == [100, 200, 400, 800, 1600, 2000, 2000]
    (pull,) = prefetch.due(now)
    prefetch.on_reply(pull, found(1), record(0), now)
    (pull,) = prefetch.due(now)
    prefetch.on_error(pull, now)
    assert prefetch.next_due_ms() == now + 100


def test_paused_queues_hand_out_nothing_and_ask_for_nothing() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    prefetch.pause([A])
    prefetch.on_reply(pull, found(1), record(0), 0)
    assert prefetch.take(1) is None
    assert prefetch.due(0) == []
    prefetch.resume([A])
    assert len(prefetch.due(0)) == 1
    assert prefetch.take(1) is not None


def test_messages_whose_tags_only_collide_are_skipped_and_passed() -> None:
    prefetch = Prefetch()
    prefetch.assign(A, 0, committed=-1, subscription=Subscription.parse("t", "Aa"))
    (pull,) = prefetch.due(0)
    assert pull == Pull(A, 0, pull.generation, pull.max_bytes, (2112,))
    prefetch.on_reply(pull, found(4), record(0, "Aa") + record(1, "BB") + record(2, "Aa") + record(3, "BB"), 0)
    assert [message.queue_offset for message in prefetch.take(9)[1]] == [0]
    assert [message.queue_offset for message in prefetch.take(9)[1]] == [2]
    assert prefetch.take(9) is None
    assert prefetch.position(A) == 4


def test_runs_of_wanted_messages() -> None:
    batch = decode_batch(b"".join(record(i, tag) for i, tag in enumerate(["x", "y", "y", "x", "", "y"])))
    runs = wanted_runs(batch, Subscription.parse("t", "y"))
    assert [[message.queue_offset for message in part] for part in runs] == [[1, 2], [5]]
    assert wanted_runs(batch, EVERYTHING) == [batch]


def test_an_answer_that_cannot_be_decoded_is_told_and_can_be_passed() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(1), b"nonsense" * 20, 0)
    assert prefetch.take(1) is None
    (pull,) = prefetch.due(0)
    assert (pull.offset, pull.is_doubted) == (0, True), "the broker is to look at its log first"
    prefetch.on_reply(pull, found(1), b"nonsense" * 20, 0)
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            prefetch.take(1)
    prefetch.seek(A, 1)
    assert prefetch.take(1) is None
    assert [pull.offset for pull in prefetch.due(0)] == [1]


def test_a_doubt_ends_with_an_answer_that_can_be_decoded() -> None:
    prefetch = prefetch_of(A, B)
    for pull in prefetch.due(0):
        prefetch.on_reply(pull, found(2), run(0, 2) if pull.queue == B else b"nonsense" * 20, 0)
    assert len((prefetch.take(9) or (B, b""))[1]) == 2
    (doubted,) = [pull for pull in prefetch.due(0) if pull.queue == A]
    prefetch.on_reply(doubted, found(2), run(0, 2), 0)
    assert len((prefetch.take(9) or (A, b""))[1]) == 2
    assert [(pull.offset, pull.is_doubted) for pull in prefetch.due(0) if pull.queue == A] == [(2, False)]


def test_a_body_that_has_not_its_checksum_is_asked_for_once_more() -> None:
    """The broker looks at its log. Where it answers the same again the reader of the body is told, and others are not kept."""
    prefetch = prefetch_of(A)
    damaged = bytearray(run(0, 3))
    damaged[len(record(0)) + 90] ^= 1
    (pull,) = prefetch.due(0)
    prefetch.on_reply(pull, found(3, 3), bytes(damaged), 0)
    assert prefetch.take(9) is None
    (pull,) = prefetch.due(0)
    assert (pull.offset, pull.is_doubted) == (0, True)
    prefetch.on_reply(pull, found(3, 3), bytes(damaged), 0)
    taken = prefetch.take(9)
    assert taken is not None
    assert [message.body_crc_matches for message in taken[1]] == [True, False, True]
    assert [(pull.offset, pull.is_doubted) for pull in prefetch.due(0)] == [(3, False)]


def test_lost_messages_are_told_and_reading_goes_on_behind_them() -> None:
    prefetch = prefetch_of(A)
    (pull,) = prefetch.due(0)
    assert prefetch.on_reply(pull, found(5), run(0, 5), 0) is None
    (pull,) = prefetch.due(0)
    lost = PullReply(int(GetStatus.MESSAGES_LOST), 9, 0, 1000, 0, 0, 7, 4096, 4900)
    assert prefetch.on_reply(pull, lost, b"", 0) == MessagesLost(A, 7, 9, (4096, 4900))
    (pull,) = prefetch.due(0)
    assert pull.offset == 9
    taken = prefetch.take(10)
    assert taken is not None
    assert (len(taken[1]), prefetch.position(A)) == (5, 9)
