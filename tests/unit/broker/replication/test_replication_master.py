"""Stories of a master: A leads epoch 3 from offset 100; B and C follow. V and M name the model's counterexamples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.broker.replication.chunk_pacing import HELD_BYTES
from zenitmq.broker.replication.effects import (
    Acknowledge,
    CloseSession,
    ConfirmMoved,
    Effect,
    ProposeInSync,
    SendChunk,
    SendFrame,
    WritesAllowed,
)
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frames import (
    CHUNK_BYTES,
    Accepted,
    Ack,
    Credit,
    Goodbye,
    Idle,
    Opening,
    RefusalReason,
    Refused,
)
from zenitmq.broker.replication.in_sync import PROPOSE_AGAIN_MS
from zenitmq.broker.replication.master import CONFIRM_MS, HANGS_MS, IDLE_MS, SILENCE_MS, MasterState
from zenitmq.broker.replication.replica_log import ReplicaLog
from zenitmq.model.groups.group import (
    AckMode,
    FlushMode,
    GroupNode,
    GroupSettings,
    Incarnation,
    KnownGroup,
    Replica,
)

KEY, EPOCH, START = 77, 3, 100
LIFE = {name: Incarnation(f"store-{name}", 1) for name in "ABC"}
ROWS = EpochList.of([(1, 0), (3, START)])
FAR = 1 << 40


def news(version: int = 7, in_sync: str = "AB", epoch: int = EPOCH, **settings: object) -> KnownGroup:
    """The node: by default minimum 2, flush = async."""
    node = GroupNode(
        broker_name="broker-a",
        epoch=epoch,
        master="A",
        master_incarnation=LIFE["A"],
        in_sync=tuple(in_sync),
        settings=GroupSettings(**{"min_in_sync": 2, **settings}),  # type: ignore[arg-type]
        replicas=tuple(Replica(name, "", "", LIFE[name]) for name in "ABC"),
    )
    return KnownGroup(node, version)


def cut_at(begin: int, limit: int) -> int:
    """Records are ten bytes long."""
    return max(begin + 10, limit // 10 * 10)


class Master:
    """A MasterState and what a shell does around it, in few words."""

    def __init__(self, group: KnownGroup | None = None, *, begin: int = 0, end: int = START, confirm: int = 0) -> None:
        self.log = ReplicaLog(begin, end, end, confirm, ROWS)
        self.core = MasterState(
            "A",
            group_key=KEY,
            group=group or news(),
            log=self.log,
            segment_bytes=1 << 30,
            cut_at=cut_at,
            now_ms=0,
        )

    def open(
        self, name: str, session: int = 1, end: int = START, flushed: int = 0, now_ms: int = 0, rows: EpochList = ROWS
    ) -> list[Effect]:
        opening = Opening(KEY, EPOCH, session, name, LIFE[name], end, flushed, rows.recovered(end), False)
        return self.core.on_frame(name, opening, now_ms)

    def follow(self, name: str, now_ms: int = 0, credit: int = FAR) -> None:
        """A member that has all there is, and by default takes all that comes."""
        self.open(name, now_ms=now_ms)
        self.core.on_frame(name, Credit(KEY, EPOCH, 1, credit), now_ms)

    def ack(self, name: str, written: int, flushed: int = 0, session: int = 1, now_ms: int = 0) -> list[Effect]:
        return self.core.on_frame(name, Ack(KEY, EPOCH, session, written, flushed), now_ms)

    def write(self, end: int, flushed: int = 0, now_ms: int = 0) -> list[Effect]:
        self.log.on_position(end, max(self.log.flushed, flushed))
        return self.core.on_turn(now_ms)


def chunks(effects: list[Effect]) -> list[tuple[str, int, int, int]]:
    """(peer, epoch of the data, begin, end) of each chunk to be sent."""
    return [
        (effect.peer, effect.chunk.data_epoch, effect.chunk.begin, effect.chunk.end)
        for effect in effects
        if isinstance(effect, SendChunk)
    ]


def proposals(effects: list[Effect]) -> list[tuple[int, str]]:
    return [(effect.version, "".join(effect.names)) for effect in effects if isinstance(effect, ProposeInSync)]


def frames(effects: list[Effect]) -> list[object]:
    return [effect.frame for effect in effects if isinstance(effect, SendFrame)]


def closed(name: str, session: int) -> list[Effect]:
    """The slave is told, then the session is forgotten."""
    return [SendFrame(name, Refused(KEY, EPOCH, session, RefusalReason.CLOSED)), CloseSession(name, session)]


# ---- acknowledging


def test_a_send_is_acknowledged_once_every_member_has_it() -> None:
    master = Master()
    master.follow("B")
    assert chunks(master.write(150)) == [("B", 3, 100, 150)]
    assert master.log.confirm == 100  # what was inherited is on both
    assert master.ack("B", 150) == [ConfirmMoved(150), Acknowledge(150)]
    assert master.ack("B", 150) == []


def test_under_sync_only_flushed_bytes_count_here_and_there() -> None:
    master = Master(news(flush_mode=FlushMode.SYNC))
    master.follow("B")
    master.write(150)
    master.ack("B", 150, flushed=100)
    assert master.log.confirm == 100
    master.ack("B", 150, flushed=150)
    assert master.log.confirm == 100
    assert master.write(150, flushed=150) == [ConfirmMoved(150), Acknowledge(150)]


def test_v16a_an_opening_counts_what_was_flushed() -> None:
    master = Master(news(flush_mode=FlushMode.SYNC))
    master.open("B", end=100, flushed=60)
    assert master.log.confirm == 60
    asynchronous = Master()
    asynchronous.open("B", end=100, flushed=60)
    assert asynchronous.log.confirm == 100


def test_m_r8_a_majority_is_not_enough() -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.follow("C")
    master.write(150)
    assert master.ack("B", 150) == []
    assert master.ack("C", 140) == [ConfirmMoved(140), Acknowledge(140)]


def test_ack_master_acknowledges_its_own_and_shows_no_more_than_all_hold() -> None:
    master = Master(news(ack_mode=AckMode.MASTER))
    master.follow("B")
    assert Acknowledge(150) in master.write(150)
    assert master.log.confirm == 100


def test_v2_below_the_minimum_nothing_moves() -> None:
    master = Master(news(in_sync="A"))
    assert not master.core.takes_writes
    assert master.write(150) == []
    assert (master.log.confirm, master.core.acknowledged) == (0, 0)


def test_v20_the_minimum_is_the_nodes() -> None:
    """Its change takes effect when the master has read it."""
    master = Master(news(in_sync="A"))
    effects = master.core.on_group(news(version=8, in_sync="A", min_in_sync=1), 0)
    assert effects == [WritesAllowed(True), ConfirmMoved(100), Acknowledge(100)]
    assert master.core.on_group(news(version=9, in_sync="A"), 0) == [WritesAllowed(False)]


def test_the_confirm_offset_known_as_a_slave_stays_and_state_waits_for_the_start() -> None:
    """A new master knows nobody's position: what it inherited is brought to the union first (R3)."""
    master = Master(confirm=60)
    assert (master.log.confirm, master.core.serves_state) == (60, False)
    master.write(150)
    assert (master.log.confirm, master.core.acknowledged) == (60, 0)
    master.follow("B")
    assert (master.log.confirm, master.core.serves_state) == (100, True)


# ---- a member's disk that hangs


@pytest.mark.parametrize("mode", list(FlushMode))
def test_under_sync_a_member_that_flushes_nothing_leaves_the_set(mode: FlushMode) -> None:
    master = Master(news(in_sync="ABC", flush_mode=mode))
    for name in "BC":
        master.follow(name)
        master.ack(name, 100, flushed=100)
    master.write(150, flushed=150)
    proposed = []
    for now_ms in range(250, HANGS_MS + 1, 250):
        effects = master.ack("B", 150, flushed=150, now_ms=now_ms) + master.ack("C", 150, flushed=100, now_ms=now_ms)
        proposed += proposals(effects + master.core.on_tick(now_ms))
    assert proposed == ([(7, "AB")] if mode is FlushMode.SYNC else [])


def test_a_member_that_flushes_slowly_stays() -> None:
    master = Master(news(in_sync="AB", flush_mode=FlushMode.SYNC))
    master.follow("B")
    master.write(1000, flushed=1000)
    proposed = []
    for now_ms in range(0, 4 * HANGS_MS, 250):
        effects = master.ack("B", 1000, flushed=100 + now_ms // 1000, now_ms=now_ms)
        proposed += proposals(effects + master.core.on_tick(now_ms))
    assert proposed == []


# ---- how long it is cut off


def test_a_master_is_cut_off_while_fewer_than_the_minimum_acknowledge() -> None:
    master = Master(news(in_sync="AB"))
    master.follow("B")
    master.follow("C")
    master.ack("B", 100, now_ms=500)
    master.ack("C", 100, now_ms=800)
    assert master.core.cut_off_ms(900) == 100, "one slave is enough"
    assert Master(news(min_in_sync=3)).core.cut_off_ms(900) == 900
    assert Master(news(min_in_sync=1, in_sync="A")).core.cut_off_ms(900) == 0, "it is enough by itself"
    assert Master(news(min_in_sync=4)).core.cut_off_ms(900) == 0, "nobody has so many"


def test_openings_alone_do_not_tell_that_a_slave_hears_its_master() -> None:
    master = Master()
    for number in range(1, 10):
        master.open("B", session=number, now_ms=300 * number)
    assert master.core.cut_off_ms(2800) == 2800


def test_what_a_stopped_master_did_not_hear_does_not_count() -> None:
    master = Master()
    master.follow("B")
    for now_ms in range(0, 1000, 50):
        master.core.on_tick(now_ms)
    master.core.on_tick(9000)
    assert master.core.cut_off_ms(9000) < 1000


# ---- the in-sync set


def test_v1_a_proposed_member_is_waited_for_and_does_not_count() -> None:
    master = Master(news(in_sync="A"))
    assert proposals(master.open("C") + master.core.on_tick(1)) == [(7, "AC")]
    assert not master.core.takes_writes
    assert (master.log.confirm, master.core.acknowledged) == (0, 0)
    assert WritesAllowed(True) in master.core.on_group(news(version=8, in_sync="AC"), 2)
    assert (master.log.confirm, master.core.acknowledged) == (100, 100)


def test_m_r6_a_proposed_member_holds_the_confirm_offset_until_a_newer_version_settles_it() -> None:
    """V5: the same version again, or a lost answer, settles nothing; it is proposed again."""
    master = Master()
    master.follow("B")
    master.open("C")
    assert proposals(master.core.on_tick(1)) == [(7, "ABC")]
    master.core.on_frame("C", Goodbye(KEY, EPOCH, 1), 2)
    master.write(150)
    assert master.core.on_group(news(version=7), 3) == []
    assert master.ack("B", 150) == []
    assert proposals(master.core.on_tick(PROPOSE_AGAIN_MS)) == []
    assert proposals(master.core.on_tick(1 + PROPOSE_AGAIN_MS)) == [(7, "ABC")]
    assert master.core.on_group(news(version=8), 600) == [ConfirmMoved(150), Acknowledge(150)]


def test_r7_a_member_that_says_goodbye_counts_until_the_controller_has_written() -> None:
    """So no send waits for that write; and it does not come back before it opens another session."""
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.follow("C")
    assert proposals(master.core.on_frame("C", Goodbye(KEY, EPOCH, 1), 2)) == [(7, "AB")]
    master.write(150)
    assert master.ack("B", 150) == []
    assert master.ack("C", 150) == [ConfirmMoved(150), Acknowledge(150)]
    master.core.on_group(news(version=8, in_sync="AB"), 3)
    master.write(200)
    assert proposals(master.ack("C", 200)) == []
    assert proposals(master.core.on_tick(5)) == []
    assert master.ack("B", 200) == [ConfirmMoved(200), Acknowledge(200)]
    master.open("C", session=2, end=200)
    assert proposals(master.core.on_tick(6)) == [(8, "ABC")]


def test_a_master_that_hands_over_takes_nothing_new_and_confirms_what_it_has() -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.follow("C")
    master.write(150)
    assert (master.core.takes_writes, master.core.is_confirmed) == (True, False)
    master.core.hand_over(is_begun=True)
    assert (master.core.takes_writes, master.core.serves_state) == (False, False)
    assert master.core.on_group(news(version=8, in_sync="ABC"), 1) == []
    assert not master.core.takes_writes
    master.ack("B", 150)
    assert master.ack("C", 150) == [ConfirmMoved(150), Acknowledge(150)]
    assert master.core.is_confirmed
    master.core.hand_over(is_begun=False)
    assert (master.core.takes_writes, master.core.serves_state) == (True, True)
    master.core.on_group(news(version=9, in_sync="A"), 2)
    master.write(200)
    assert master.core.is_confirmed, "it cannot be: too few are in sync"


def test_v6_an_older_version_is_not_adopted() -> None:
    master = Master(news(version=9, in_sync="ABC"))
    master.follow("B")
    master.write(150)
    master.ack("B", 150)
    assert master.core.on_group(news(version=8, in_sync="AB"), 1) == []
    assert master.log.confirm == 0


def test_v7_a_member_joins_at_the_start_of_the_epoch_not_before() -> None:
    """The confirm offset may lag behind the start: what is below the start may be acknowledged."""
    master = Master(news(in_sync="A"), confirm=50)
    master.open("C", end=90)
    master.core.on_frame("C", Credit(KEY, EPOCH, 1, FAR), 0)
    assert proposals(master.core.on_tick(1)) == []
    assert proposals(master.ack("C", 100)) == [(7, "AC")]


def test_m_join_a_member_joins_at_the_confirm_offset() -> None:
    master = Master()
    master.follow("B")
    master.write(150)
    master.ack("B", 150)
    master.open("C", end=100)
    master.core.on_frame("C", Credit(KEY, EPOCH, 1, FAR), 0)
    assert proposals(master.core.on_tick(1) + master.ack("C", 140)) == []
    assert proposals(master.ack("C", 150)) == [(7, "ABC")]


def test_v10_a_member_of_another_life_than_the_node_names_does_not_join() -> None:
    master = Master()
    opening = Opening(KEY, EPOCH, 1, "C", Incarnation("store-C", 2), START, 0, ROWS, False)
    master.core.on_frame("C", opening, 0)
    assert proposals(master.core.on_tick(1)) == []
    known = news(version=8)
    replicas = (*known.node.replicas[:2], replace(known.node.replicas[2], incarnation=Incarnation("store-C", 2)))
    assert proposals(master.core.on_group(KnownGroup(replace(known.node, replicas=replicas), 8), 2)) == [(8, "ABC")]


def test_m_r7b_a_member_leaves_the_union_after_the_controller_has_written() -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.open("C")
    assert proposals(master.core.on_unreachable("C", 1, 5)) == [(7, "AB")]
    master.write(150)
    assert master.ack("B", 150) == []
    assert master.core.on_group(news(version=8), 6) == [ConfirmMoved(150), Acknowledge(150)]


def test_a_member_that_says_nothing_leaves() -> None:
    """Whether it came and fell silent, or never came."""
    for comes in (True, False):
        master = Master()
        if comes:
            master.follow("B")
        assert [proposals(master.core.on_tick(ms)) for ms in range(100, SILENCE_MS, 100)] == [[]] * 14
        assert proposals(master.core.on_tick(SILENCE_MS)) == [(7, "A")]


def test_a_master_that_was_stopped_does_not_call_the_others_silent() -> None:
    master = Master()
    master.follow("B")
    master.core.on_tick(100)
    assert proposals(master.core.on_tick(60_000)) == []
    quiet = [proposals(master.core.on_tick(60_000 + ms)) for ms in range(100, SILENCE_MS, 100)]
    assert quiet == [[]] * 13 + [[(7, "A")]]


def tick_second(master: Master, second: int) -> list[tuple[int, str]]:
    """Ten ticks, the first at the full second."""
    times = range(second * 1000, second * 1000 + 1000, 100)
    return [proposal for now_ms in times for proposal in proposals(master.core.on_tick(now_ms))]


def test_a_member_that_lags_leaves_and_one_that_is_at_the_end_never_does() -> None:
    """B acknowledges something every second, but ever less of what there is."""
    master = Master(news(in_sync="ABC", lag_ms_max=5_000))
    master.follow("B")
    master.follow("C")
    proposed: list[tuple[int, str]] = []
    for second in range(9):
        now_ms = second * 1000
        end = START + second * 1000
        master.write(end, now_ms=now_ms)
        master.ack("C", end, now_ms=now_ms)
        master.ack("B", START + second * 10, now_ms=now_ms)
        proposed += tick_second(master, second)
        if proposed:
            break
    assert (second, set(proposed)) == (6, {(7, "AC")})


def test_a_member_one_second_behind_for_ever_stays() -> None:
    master = Master(news(lag_ms_max=5_000))
    master.follow("B")
    for second in range(1, 60):
        master.write(START + second * 1000, now_ms=second * 1000)
        master.ack("B", START + (second - 1) * 1000, now_ms=second * 1000)
        assert tick_second(master, second) == []


def test_one_dies_while_another_joins() -> None:
    """Both changes are proposed on the version known; the one that joins stays in until that is settled."""
    master = Master()
    master.follow("B")
    master.open("C")
    assert proposals(master.core.on_tick(1)) == [(7, "ABC")]
    assert proposals(master.core.on_unreachable("B", 1, 2)) == [(7, "AC")]
    assert proposals(master.core.on_unreachable("C", 1, 3)) == []
    assert proposals(master.core.on_tick(2 + PROPOSE_AGAIN_MS)) == [(7, "AC")]
    assert proposals(master.core.on_group(news(version=8, in_sync="AC"), 600)) == [(8, "A")]


def test_the_last_one_out_is_never_the_master() -> None:
    master = Master(news(in_sync="A", min_in_sync=1))
    assert proposals(master.core.on_tick(100_000)) == []


# ---- sessions


def test_an_opening_is_answered_with_the_truncation_point_and_credit_lets_chunks_flow() -> None:
    """Never two epochs in one chunk (M-R5b)."""
    master = Master(end=150)
    effects = master.open("B", end=80, rows=EpochList.of([(1, 0)]))
    assert frames(effects) == [Accepted(KEY, EPOCH, 1, 80)]
    assert chunks(effects) == []
    first = master.core.on_frame("B", Credit(KEY, EPOCH, 1, FAR), 0)
    assert chunks(first) == [("B", 1, 80, 100)]
    assert master.core.has_more
    assert chunks(master.core.on_turn(1)) == [("B", 3, 100, 150)]
    assert not master.core.has_more
    assert chunks(master.core.on_turn(2)) == []


def test_chunks_keep_to_credit_segment_and_size() -> None:
    master = Master(end=3 * CHUNK_BYTES)
    master.core._pacing._segment_bytes = CHUNK_BYTES + 40  # a segment ends just behind the first chunk
    master.open("B", end=100)
    effects = master.core.on_frame("B", Credit(KEY, EPOCH, 1, 135), 0)
    assert chunks(effects) == [("B", 3, 100, 130)]
    assert chunks(master.core.on_frame("B", Credit(KEY, EPOCH, 1, 131), 0)) == [("B", 3, 130, 140)]
    assert chunks(master.core.on_frame("B", Credit(KEY, EPOCH, 1, 120), 0)) == []
    sent = chunks(master.core.on_frame("B", Credit(KEY, EPOCH, 1, FAR), 0))
    assert sent == [("B", 3, 140, CHUNK_BYTES + 40)]
    sent = chunks(master.core.on_turn(0))
    assert sent == [("B", 3, CHUNK_BYTES + 40, (2 * CHUNK_BYTES + 40) // 10 * 10)]


def test_each_turn_gives_each_session_one_chunk() -> None:
    """One that catches up does not keep the others waiting."""
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.open("C", end=0, rows=EpochList())
    master.core.on_frame("C", Credit(KEY, EPOCH, 1, FAR), 0)
    assert chunks(master.write(150)) == [("B", 3, 100, 150), ("C", 3, 100, 150)]


def test_what_comes_behind_much_that_is_on_its_way_is_sent_in_larger_chunks() -> None:
    """Held back until as much waits as is on its way, or the slave has acknowledged: never behind little."""
    master = Master()
    master.follow("B")
    turn = HELD_BYTES
    assert chunks(master.write(START + 10)) == [("B", 3, START, START + 10)]
    assert chunks(master.write(START + turn)) == [("B", 3, START + 10, START + turn)], "little is on its way"
    assert chunks(master.write(START + turn + 10)) == []
    assert not master.core.has_more
    assert chunks(master.write(START + 2 * turn)) == [("B", 3, START + turn, START + 2 * turn)]
    assert chunks(master.write(START + 3 * turn)) == []
    sent = chunks(master.ack("B", START + turn + 10))
    assert sent == [("B", 3, START + 2 * turn, START + 3 * turn)], "an ack lets go what waits"


def test_who_comes_behind_gets_the_chunks_that_another_got() -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.follow("C")
    turn = HELD_BYTES
    first = START + turn + 10
    assert [sent[2:] for sent in chunks(master.write(first))] == [(START, first)] * 2
    second = first + turn
    master.ack("C", first)
    assert chunks(master.write(second)) == [("C", 3, first, second)], "much is on its way to B"
    third = second + turn
    master.ack("C", second)
    assert chunks(master.write(third)) == [("B", 3, first, second), ("C", 3, second, third)]
    assert chunks(master.ack("B", first)) == [("B", 3, second, third)]


def test_what_another_got_in_small_pieces_goes_out_in_one() -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.follow("C")
    begin = START + HELD_BYTES
    master.write(begin)
    master.ack("C", begin)
    for end in range(begin + 10, begin + 50, 10):
        assert chunks(master.write(end)) == [("C", 3, end - 10, end)]
        master.ack("C", end)
    assert chunks(master.ack("B", begin)) == [("B", 3, begin, begin + 40)]


def test_what_another_got_goes_out_within_the_credit_only() -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.follow("C", credit=START + HELD_BYTES)
    end = START + HELD_BYTES + 10
    assert chunks(master.write(end)) == [("B", 3, START, end), ("C", 3, START, cut_at(START, START + HELD_BYTES))]


def test_a_credit_that_has_little_room_left_is_not_used_up_in_small_pieces() -> None:
    master = Master()
    master.follow("B", credit=START + HELD_BYTES + 50)
    end = START + 3 * HELD_BYTES
    assert chunks(master.write(START + HELD_BYTES)) == [("B", 3, START, START + HELD_BYTES)]
    assert chunks(master.write(end)) == []
    assert chunks(master.ack("B", START + 10)) == [("B", 3, START + HELD_BYTES, cut_at(START, START + HELD_BYTES + 50))]


def test_a_whole_chunk_is_never_held_back() -> None:
    master = Master()
    master.follow("B")
    begin = START
    for _ in range(3):
        sent = chunks(master.write(begin + CHUNK_BYTES))
        assert sent == [("B", 3, begin, sent[0][3])]
        begin = sent[0][3]
    assert begin > START + 2 * CHUNK_BYTES


def test_v13_an_ack_of_an_earlier_session_counts_for_nothing() -> None:
    master = Master()
    master.follow("B")
    master.write(150)
    effects = master.open("B", session=2, end=100)
    assert CloseSession("B", 1) in effects
    assert master.ack("B", 150, session=1) == []
    assert master.log.confirm == 100


def test_v15_a_closed_session_does_not_forget_its_number() -> None:
    master = Master()
    master.open("B", session=5)
    master.core.on_frame("B", Ack(KEY, EPOCH, 5, 1, 0), 0)  # goes back: closes it
    for number in (4, 5):
        (refused,) = frames(master.open("B", session=number))
        assert refused == Refused(KEY, EPOCH, number, RefusalReason.STALE_SESSION, 5)
    assert frames(master.open("B", session=6)) == [Accepted(KEY, EPOCH, 6, 100)]


@pytest.mark.parametrize(
    ("written", "flushed"),
    [
        pytest.param(151, 10, id="more than was sent"),
        pytest.param(119, 10, id="less than before"),
        pytest.param(130, 9, id="flushed less than before"),
    ],
)
def test_m_r14_an_ack_out_of_bounds_closes_the_session(written: int, flushed: int) -> None:
    master = Master(news(in_sync="ABC"))
    master.follow("B")
    master.write(150)
    master.ack("B", 120, 10)
    assert master.ack("B", written, flushed) == closed("B", 1)
    assert master.ack("B", 150, 150) == []
    assert chunks(master.write(160)) == []


@pytest.mark.parametrize(
    ("peer", "opening", "reason"),
    [
        ("B", Opening(KEY, EPOCH - 1, 1, "B", LIFE["B"], 0, 0, EpochList(), False), RefusalReason.OTHER_EPOCH),
        ("B", Opening(KEY, EPOCH + 1, 1, "B", LIFE["B"], 0, 0, EpochList(), False), RefusalReason.OTHER_EPOCH),
        ("D", Opening(KEY, EPOCH, 1, "D", LIFE["B"], 0, 0, EpochList(), False), RefusalReason.NOT_A_MEMBER),
        ("A", Opening(KEY, EPOCH, 1, "A", LIFE["A"], 0, 0, EpochList(), False), RefusalReason.NOT_A_MEMBER),
        ("B", Opening(KEY, EPOCH, 1, "B", LIFE["C"], 0, 0, EpochList(), False), RefusalReason.NOT_A_MEMBER),
    ],
)
def test_who_is_refused(peer: str, opening: Opening, reason: RefusalReason) -> None:
    master = Master()
    (refused,) = frames(master.core.on_frame(peer, opening, 0))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.epoch, refused.session) == (reason, EPOCH, 1)


def test_a_later_life_of_a_member_s_store_is_let_in_before_the_node_tells_of_it() -> None:
    master = Master()
    later = Incarnation(LIFE["B"].store_id, 2)
    (accepted,) = frames(master.core.on_frame("B", Opening(KEY, EPOCH, 1, "B", later, 0, 0, EpochList(), False), 0))
    assert isinstance(accepted, Accepted)


def test_one_that_gives_anothers_name_gets_no_answer() -> None:
    master = Master()
    assert master.core.on_frame("B", Opening(KEY, EPOCH, 9, "C", LIFE["C"], 0, 0, EpochList(), False), 0) == []
    assert frames(master.open("C", session=1)) == [Accepted(KEY, EPOCH, 1, 100)]


def test_a_member_in_sync_of_whom_the_node_says_no_more_is_waited_for() -> None:
    known = news(version=8)
    node = replace(known.node, replicas=known.node.replicas[:1])
    master = Master()
    master.follow("B")
    master.core.on_group(KnownGroup(node, 8), 1)
    master.write(150)
    assert master.log.confirm == 100
    (refused,) = frames(master.open("B", session=2))
    assert isinstance(refused, Refused)
    assert refused.reason is RefusalReason.NOT_A_MEMBER


def test_another_groups_frames_are_dropped() -> None:
    master = Master()
    master.follow("B")
    master.write(150)
    assert master.core.on_frame("B", Ack(KEY + 1, EPOCH, 1, 150, 0), 0) == []
    assert master.core.on_frame("B", Ack(KEY, EPOCH - 1, 1, 150, 0), 0) == []
    assert master.log.confirm == 100


def test_a_slave_behind_retention_is_told_where_to_start_anew() -> None:
    master = Master(begin=50)
    (refused,) = frames(master.open("C", end=40, rows=EpochList.of([(1, 0)])))
    assert refused == Refused(KEY, EPOCH, 1, RefusalReason.BEHIND_RETENTION, 40, 50, EpochList.of([(1, 0)]))
    fresh = master.open("C", session=2, end=50, rows=EpochList.of([(1, 0)]))
    assert frames(fresh) == [Accepted(KEY, EPOCH, 2, 50)]


def test_who_shares_no_row_that_is_left_starts_anew_too() -> None:
    """Rows went with their bytes: what the slave shares lies below the first one, and is gone here."""
    master = Master(begin=50)
    master.log.epochs = EpochList.of([(2, 30), *((row.number, row.begin) for row in master.log.epochs.rows[1:])])
    rows = EpochList.of([(1, 0)])
    for session, (end, offset) in enumerate(((20, 20), (90, 30)), 1):
        (refused,) = frames(master.open("C", session=session, end=end, rows=rows))
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.offset, refused.log_begin) == (RefusalReason.BEHIND_RETENTION, offset, 50)


def test_retention_ends_the_sessions_that_it_overtakes() -> None:
    master = Master()
    master.follow("B")
    master.open("C", end=20)
    master.log.begin = 50
    assert master.core.on_log_begin() == closed("C", 1)


def test_an_idle_session_hears_where_the_master_is() -> None:
    master = Master()
    master.follow("B")
    told = frames(master.core.on_tick(CONFIRM_MS))
    assert told == [Idle(KEY, EPOCH, 1, 100, 100)]  # the confirm offset has moved
    assert frames(master.core.on_tick(CONFIRM_MS + IDLE_MS - 1)) == []
    assert frames(master.core.on_tick(CONFIRM_MS + IDLE_MS)) == told


def test_a_chunk_carries_the_confirm_offset() -> None:
    master = Master()
    master.follow("B")
    (effect,) = (effect for effect in master.write(150) if isinstance(effect, SendChunk))
    assert (effect.chunk.confirm, effect.chunk.epoch, effect.chunk.session) == (100, EPOCH, 1)


def test_a_late_word_of_an_old_socket_does_no_harm() -> None:
    master = Master()
    master.open("B", session=1)
    master.open("B", session=2)
    assert master.core.on_unreachable("B", 1, 5) == []
    assert master.core.on_bad_frame("B", 1) == []
    assert master.core.on_bad_frame("B", 2) == closed("B", 2)


def test_news_of_another_epoch_are_not_for_this_term() -> None:
    master = Master()
    assert master.core.on_group(news(version=8, in_sync="A", epoch=EPOCH + 1), 0) == []
    assert master.core.takes_writes


# ---- damage in the master's log


def test_a_session_waits_before_damage_and_goes_on_once_it_is_whole() -> None:
    master = Master(end=START + 1000)
    master.follow("C")
    master.log.damaged = ((START + 500, START + 600),)
    master.open("B")
    [(_, _, begin, end)] = chunks(master.core.on_frame("B", Credit(KEY, EPOCH, 1, FAR), 0))
    assert (begin, end) == (START, START + 500)
    assert not master.core.has_more
    assert chunks(master.ack("B", START + 500)) == []
    assert chunks(master.write(START + 2000)) == [("C", EPOCH, START + 1000, START + 2000)]
    assert START + 500 in [frame.sent for frame in frames(master.core.on_tick(IDLE_MS)) if isinstance(frame, Idle)]
    master.log.damaged = ()
    assert chunks(master.core.on_turn(0)) == [("B", EPOCH, START + 500, START + 2000)]


def test_a_chunk_that_was_not_sent_is_sent_later() -> None:
    """It was found to be damaged only when it was read."""
    master = Master(end=START + 1000)
    master.open("B", end=50)
    assert chunks(master.core.on_frame("B", Credit(KEY, EPOCH, 1, FAR), 0)) == [("B", 1, 50, START)]
    assert master.core.has_more
    master.core.on_turn(0)
    master.core.on_unsent("B", 1, 50)
    master.core.on_unsent("B", 2, 0)  # of a session that is over
    master.log.damaged = ((60, 70),)
    assert chunks(master.core.on_turn(0)) == [("B", 1, 50, 60)]
    master.log.damaged = ()
    assert chunks(master.core.on_turn(0)) == [("B", 1, 60, START)]


def test_where_a_chunk_ends_is_looked_up_anew_once_damaged_bytes_are_back() -> None:
    """Before damage no record's end is known, and the chunk is not sent. What was guessed then was kept, and sent once the
    bytes were back: a piece of a record, at which the slave ended, at each of its starts."""
    master = Master()
    master.follow("B")
    guesses = [True]
    master.core._pacing._cut_at = lambda begin, limit: limit if guesses else cut_at(begin, limit)
    assert chunks(master.write(START + 3 * CHUNK_BYTES)) == [("B", EPOCH, START, START + CHUNK_BYTES)]
    master.core.on_unsent("B", 1, START)
    guesses.clear()
    whole = cut_at(START, START + CHUNK_BYTES)
    assert whole < START + CHUNK_BYTES
    assert chunks(master.core.on_turn(25)) == [("B", EPOCH, START, whole)]
