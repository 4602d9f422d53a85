"""Stories of a slave: B follows A in epoch 3. Its log ends at 100, of which 40 bytes are of epoch 2."""

from __future__ import annotations

import pytest

from zenitmq.broker.replication.effects import (
    Append,
    AskController,
    ClearIntent,
    CloseSession,
    ConfirmMoved,
    CutLog,
    DiskEffect,
    Effect,
    Halt,
    OpenSession,
    PersistEpochs,
    PersistIntent,
    SendFrame,
    StartAnew,
    Stopped,
    TellMasterGone,
)
from zenitmq.broker.replication.epochs import ROWS_MAX, EpochList
from zenitmq.broker.replication.frame_codec import decode, encode
from zenitmq.broker.replication.frames import (
    SESSION_MAX,
    Accepted,
    Ack,
    Chunk,
    Credit,
    Frame,
    Goodbye,
    Idle,
    Opening,
    RefusalReason,
    Refused,
    Side,
)
from zenitmq.broker.replication.replica_log import ReplicaLog
from zenitmq.broker.replication.slave import (
    NO_ROOM_RETRY_MS,
    OPEN_TIMEOUT_MS,
    PAUSE_MS,
    PAUSE_MS_MAX,
    SILENCE_MS,
    Phase,
    SlaveState,
)
from zenitmq.model.errors import CutRefused, SegmentsDiffer
from zenitmq.model.groups.group import Incarnation

KEY, EPOCH, CREDIT = 77, 3, 100
LIFE = Incarnation("store-B", 1)
ROWS = EpochList.of([(1, 0), (2, 60)])
MASTERS = EpochList.of([(1, 0), (3, 60)])


class Slave:
    """A SlaveState with a disk that carries out at once what it is asked to, unless `holds` is set."""

    def __init__(
        self,
        *,
        begin: int = 0,
        end: int = 100,
        flushed: int = 0,
        confirm: int = 0,
        rows: EpochList = ROWS,
        has_hole: bool = False,
        credit: int = CREDIT,
        segment_bytes: int = 1 << 30,
    ) -> None:
        self.log = ReplicaLog(begin, end, flushed, confirm, rows, has_hole=has_hole)
        self.core = SlaveState(
            "B",
            group=KEY,
            incarnation=LIFE,
            log=self.log,
            session=1 << 32,
            segment_bytes=segment_bytes,
            wants_lz4=True,
            credit_bytes=credit,
        )
        self.holds = False
        self.held: list[DiskEffect] = []
        self.opened = self.run(self.core.on_master("A", EPOCH, 0), 0)

    def run(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """All effects, in order, the disk's with what followed from them."""
        seen: list[Effect] = []
        for effect in effects:
            seen.append(effect)
            if isinstance(effect, DiskEffect):
                if self.holds:
                    self.held.append(effect)
                else:
                    seen += self.run(self.core.on_done(effect, now_ms), now_ms)
        return seen

    def done(self, now_ms: int = 0) -> list[Effect]:
        """The disk has carried out the oldest effect that it holds."""
        return self.run(self.core.on_done(self.held.pop(0), now_ms), now_ms)

    def hear(self, frame: Frame, now_ms: int = 0, data: bytes = b"") -> list[Effect]:
        return self.run(self.core.on_frame(frame, now_ms, data), now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        return self.run(self.core.on_tick(now_ms), now_ms)

    @property
    def stamp(self) -> tuple[int, int, int]:
        return KEY, EPOCH, self.core.session

    def accepted(self, at: int = 100) -> list[Effect]:
        return self.hear(Accepted(*self.stamp, at))

    def chunk(self, begin: int, end: int, *, epoch: int = EPOCH, confirm: int = 0, now_ms: int = 0) -> list[Effect]:
        return self.hear(Chunk(*self.stamp, epoch, begin, end, confirm, 0, False), now_ms, bytes(end - begin))


def frames(effects: list[Effect]) -> list[Frame]:
    return [effect.frame for effect in effects if isinstance(effect, SendFrame)]


def kinds(effects: list[Effect]) -> list[type[Effect]]:
    return [type(effect) for effect in effects]


def facts(effects: list[Effect]) -> tuple[object, ...] | None:
    """Why the slave halts, where that is the last effect."""
    last = effects[-1]
    return last.reason.args if isinstance(last, Halt) else None


def streaming(**log: object) -> Slave:
    slave = Slave(**log)  # type: ignore[arg-type]
    slave.accepted(slave.log.end)
    assert slave.core.phase is Phase.STREAMING
    return slave


# ---- opening


def test_it_opens_on_a_fresh_socket_with_what_it_has() -> None:
    slave = Slave(flushed=70)
    number = (1 << 32) + 1
    opening = Opening(KEY, EPOCH, number, "B", LIFE, 100, 70, ROWS, True)
    assert slave.opened == [OpenSession("A", number), SendFrame("A", opening)]


def test_accepted_where_it_ends_it_acknowledges_and_grants_credit() -> None:
    slave = Slave(flushed=70)
    assert frames(slave.accepted()) == [Ack(*slave.stamp, 100, 70), Credit(*slave.stamp, 200)]


def test_no_answer_is_tried_again_with_a_higher_number_later_and_later() -> None:
    slave = Slave()
    now_ms, pauses = 0, []
    for _ in range(7):
        number = slave.core.session
        assert slave.tick(now_ms + OPEN_TIMEOUT_MS - 1) == []
        now_ms += OPEN_TIMEOUT_MS
        assert slave.tick(now_ms) == [CloseSession("A", number)]
        pause = next(ms for ms in range(2_000) if slave.tick(now_ms + ms))
        pauses.append(pause)
        now_ms += pause
        assert slave.core.session == number + 1
    assert pauses == [50, 100, 200, 400, 800, PAUSE_MS_MAX, PAUSE_MS_MAX]


@pytest.mark.parametrize(
    "frame",
    [
        Accepted(KEY, EPOCH - 1, (1 << 32) + 1, 100),
        Accepted(KEY, EPOCH + 1, (1 << 32) + 1, 100),
        Accepted(KEY, EPOCH, (1 << 32) + 2, 100),
        Accepted(KEY + 1, EPOCH, (1 << 32) + 1, 100),
        Chunk(KEY, EPOCH, (1 << 32) + 1, 3, 100, 110, 0, 0, False),
        Idle(KEY, EPOCH, (1 << 32) + 1, 500, 500),
    ],
)
def test_what_is_not_an_answer_to_this_opening_is_dropped(frame: Frame) -> None:
    """M-R2: lower epochs are rejected; V14: an answer counts in the session that asked."""
    slave = Slave()
    assert slave.hear(frame, data=bytes(10)) == []
    assert slave.core.phase is Phase.OPENING


def test_v14_the_answer_to_an_opening_counts_once() -> None:
    """A doubled one must not cut what came since."""
    slave = streaming()
    slave.chunk(100, 110)
    assert slave.hear(Accepted(*slave.stamp, 100)) == []
    assert slave.log.end == 110


# ---- refusals


def test_another_epoch_is_a_question_to_the_controller() -> None:
    slave = Slave()
    effects = slave.hear(Refused(KEY, EPOCH + 1, slave.core.session, RefusalReason.OTHER_EPOCH))
    assert kinds(effects) == [CloseSession, AskController]
    assert slave.core.phase is Phase.PAUSING


def test_a_stale_number_is_gone_beyond() -> None:
    """A slave whose disk was wiped counts its starts from one again."""
    slave = Slave()
    stale = slave.core.session
    assert slave.hear(Refused(*slave.stamp, RefusalReason.STALE_SESSION, 9 << 32)) == [CloseSession("A", stale)]
    assert OpenSession("A", (9 << 32) + 1) in slave.tick(PAUSE_MS)


def test_a_refusal_that_comes_late_is_dropped() -> None:
    slave = streaming()
    assert slave.hear(Refused(*slave.stamp, RefusalReason.STALE_SESSION, slave.core.session)) == []


def test_behind_retention_it_starts_anew() -> None:
    slave = Slave(end=100, confirm=50)
    slave.holds = True
    refused = Refused(*slave.stamp, RefusalReason.BEHIND_RETENTION, 60, 1000, MASTERS)
    assert slave.hear(refused)[-1] == StartAnew(1000, MASTERS)
    assert slave.tick(10_000) == []  # not before the disk is ready
    slave.done(10_000)
    log = slave.log
    assert (log.begin, log.end, log.flushed, log.epochs) == (1000, 1000, 1000, MASTERS)
    (opening,) = frames(slave.tick(10_000))
    assert isinstance(opening, Opening)
    assert (opening.end, opening.epochs) == (1000, MASTERS)


def test_behind_retention_it_forgets_nothing_confirmed() -> None:
    slave = Slave(end=100, confirm=70)
    effects = slave.hear(Refused(*slave.stamp, RefusalReason.BEHIND_RETENTION, 60, 1000, MASTERS))
    assert facts(effects) == ("B", "A", EPOCH, 60, 0, 100, 70)
    assert slave.log.end == 100


# ---- cutting to where both agree


def test_the_order_of_a_cut() -> None:
    slave = Slave(flushed=90)
    effects = slave.accepted(60)
    below = EpochList.of([(1, 0)])
    assert effects[:4] == [PersistIntent(EPOCH, 60), CutLog(60), PersistEpochs(below), ClearIntent()]
    assert frames(effects) == [Ack(*slave.stamp, 60, 60), Credit(*slave.stamp, 160)]
    assert (slave.log.end, slave.log.flushed, slave.log.epochs) == (60, 60, below)


def test_each_step_of_a_cut_waits_for_the_one_before() -> None:
    slave = Slave()
    slave.holds = True
    slave.accepted(60)
    for step in (PersistIntent, CutLog, PersistEpochs):
        (effect,) = slave.held
        assert isinstance(effect, step)
        assert frames(slave.done()) == []
    assert kinds(slave.held) == [ClearIntent]
    assert len(frames(slave.done())) == 2


def test_an_empty_epoch_at_the_end_is_dropped_with_the_same_care() -> None:
    """Its row was written and the first byte never came: another master may begin that offset otherwise."""
    slave = Slave(rows=EpochList.of([(1, 0), (2, 100)]))
    assert kinds(slave.accepted(100))[:4] == [PersistIntent, CutLog, PersistEpochs, ClearIntent]
    assert slave.log.epochs == EpochList.of([(1, 0)])


@pytest.mark.parametrize(("confirm", "truncate_at", "halts"), [(61, 60, True), (60, 60, False), (500, 99, True)])
def test_it_never_cuts_below_its_guard(confirm: int, truncate_at: int, halts: bool) -> None:
    slave = Slave(confirm=confirm)
    effects = slave.accepted(truncate_at)
    assert (facts(effects) == ("B", "A", EPOCH, truncate_at, 0, 100, min(confirm, 100))) is halts
    assert (slave.log.end == 100) is halts
    if halts:
        assert slave.tick(1_000_000) == []


def test_a_cut_below_its_own_beginning_is_refused_before_it_is_intended() -> None:
    """After a forced election: the bytes that are to be sent again from there are no part of this log any more."""
    slave = Slave(begin=50, confirm=0)
    effects = slave.accepted(40)
    assert kinds(effects) == [CloseSession, Halt]
    assert facts(effects) == ("B", "A", EPOCH, 40, 50, 100, 0)
    assert (slave.log.begin, slave.log.end) == (50, 100)
    assert slave.tick(1_000_000) == []
    assert Slave(begin=50).accepted(50)[0] == PersistIntent(EPOCH, 50)


def test_what_is_refused_says_what_to_do() -> None:
    text = str(CutRefused("B", "A", EPOCH, 40, 50, 100, 70))
    for part in (
        "'A'",
        "epoch 3",
        "up to 40",
        "50 to 100",
        "up to 70",
        "move its store directory away",
        "--replica B --force",
    ):
        assert part in text


def test_v18_the_guard_is_the_lower_of_confirm_and_end() -> None:
    """A slave that lost its tail may know a confirm offset above its end; to keep all it has is no cut."""
    slave = Slave(confirm=500)
    slave.accepted(100)
    assert slave.core.phase is Phase.STREAMING


def test_more_than_was_offered_is_no_answer() -> None:
    slave = Slave()
    assert kinds(slave.accepted(101)) == [CloseSession]


def test_stopped_in_the_middle_of_a_cut_it_carries_it_through_first() -> None:
    slave = Slave()
    slave.holds = True
    slave.accepted(60)
    assert kinds(slave.run(slave.core.on_stop(), 0)) == [CloseSession]
    effects: list[Effect] = []
    while slave.held:
        effects += slave.done()
    assert kinds(effects) == [CutLog, PersistEpochs, ClearIntent, Stopped]
    assert slave.core.phase is Phase.IDLE
    assert slave.log.end == 60


# ---- appending


def test_a_chunk_is_appended_acknowledged_and_confirms() -> None:
    slave = streaming()
    effects = slave.chunk(100, 110, epoch=2, confirm=105)
    assert kinds(effects) == [Append, SendFrame, ConfirmMoved]
    assert frames(effects) == [Ack(*slave.stamp, 110, 0)]
    assert slave.log.confirm == 105


def test_the_row_of_an_epoch_is_durable_before_its_first_byte() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110)
    assert slave.held == [PersistEpochs(ROWS.with_row(3, 100))]
    assert slave.log.epochs == ROWS
    slave.chunk(110, 120)
    slave.done()
    assert [type(effect) for effect in slave.held] == [Append]
    assert slave.log.epochs == ROWS.with_row(3, 100)
    acks = frames(slave.done()) + frames(slave.done())
    assert [ack.written for ack in acks if isinstance(ack, Ack)] == [110, 120]


def test_a_full_list_of_epochs_halts_it() -> None:
    """A row that cannot be written down must not be left out: the bytes would count under another epoch."""
    rows = EpochList.of((number, number) for number in range(1, ROWS_MAX + 1))
    slave = Slave(end=ROWS_MAX + 1, rows=rows)
    slave.core.on_stop()
    slave.core.on_master("A", ROWS_MAX + 1, 0)
    stamp = KEY, ROWS_MAX + 1, slave.core.session
    slave.hear(Accepted(*stamp, ROWS_MAX + 1))
    effects = slave.hear(Chunk(*stamp, ROWS_MAX + 1, ROWS_MAX + 1, ROWS_MAX + 2, 0, 0, False), 0, b"x")
    assert kinds(effects) == [CloseSession, Halt]
    assert facts(effects) == (ROWS_MAX, ROWS_MAX)
    assert slave.log.end == ROWS_MAX + 1


def test_m_r5a_a_duplicate_is_dropped_and_a_gap_closes_the_session() -> None:
    slave = streaming()
    slave.chunk(100, 120)
    assert slave.chunk(100, 110) == []
    assert slave.chunk(100, 130) == []
    assert kinds(slave.chunk(130, 140)) == [CloseSession]
    assert slave.log.end == 120


def test_an_idle_frame_shows_a_lost_last_chunk() -> None:
    slave = streaming()
    assert frames(slave.hear(Idle(*slave.stamp, 100, 90))) == [Ack(*slave.stamp, 100, 0), Credit(*slave.stamp, 200)]
    assert slave.log.confirm == 90
    assert kinds(slave.hear(Idle(*slave.stamp, 110, 90))) == [CloseSession]


# ---- how long it is cut off


def test_a_slave_is_cut_off_from_the_last_word_of_its_master_on() -> None:
    slave = Slave()
    assert slave.core.cut_off_ms(900) == 900, "its opening has no answer"
    slave.hear(Refused(*slave.stamp, RefusalReason.OTHER_EPOCH), 950)
    assert slave.core.cut_off_ms(1000) == 50, "a refusal is an answer"
    slave.tick(1000)
    slave.hear(Accepted(*slave.stamp, 100), 1010)
    slave.hear(Idle(*slave.stamp, 100, 0), 1300)
    assert slave.core.cut_off_ms(1400) == 100
    slave.tick(1300 + SILENCE_MS)
    assert slave.core.phase is Phase.PAUSING
    assert slave.core.cut_off_ms(5000) == 3700


def test_a_slave_that_cuts_its_log_is_not_cut_off() -> None:
    slave = Slave()
    slave.holds = True
    slave.accepted(60)
    assert slave.core.phase is Phase.CUTTING
    assert slave.core.cut_off_ms(5000) == 0
    slave.holds = False
    while slave.held:
        slave.done(6000)
    assert slave.core.cut_off_ms(6100) == 100


# ---- a full disk


def refused(slave: Slave, now_ms: int = 0) -> list[Effect]:
    """The disk has no room for the oldest effect that it holds."""
    follows = slave.core.on_no_room(slave.held.pop(0), now_ms)
    assert follows is not None
    return slave.run(follows, now_ms)


def test_a_chunk_waits_for_room_and_the_master_hears_nothing_until_it_is_there() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110, epoch=2)
    assert refused(slave) == []
    assert slave.core.is_quiet
    assert slave.hear(Idle(*slave.stamp, 110, 0), 100) == [], "no ack: the master must not wait for who cannot follow"
    assert slave.chunk(110, 120, epoch=2, now_ms=100) == []
    assert slave.tick(NO_ROOM_RETRY_MS - 1) == []
    assert kinds(slave.tick(NO_ROOM_RETRY_MS)) == [Append]
    assert refused(slave, NO_ROOM_RETRY_MS) == []
    assert kinds(slave.tick(2 * NO_ROOM_RETRY_MS)) == [Append]
    acks = frames(slave.done(500)) + frames(slave.done(500))
    assert [ack.written for ack in acks if isinstance(ack, Ack)] == [110, 120]


def test_the_row_of_an_epoch_waits_for_room_too() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110)
    assert refused(slave) == []
    assert slave.tick(NO_ROOM_RETRY_MS) == [PersistEpochs(ROWS.with_row(3, 100))]
    slave.done()
    assert kinds(list(slave.held)) == [Append]


def test_following_ends_while_a_chunk_waits_for_room() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110, epoch=2)
    refused(slave)
    assert kinds(slave.run(slave.core.on_stop(), 0)) == [CloseSession, Stopped]
    assert slave.tick(10_000) == [], "it is not tried again"
    assert slave.log.end == 100


def test_a_chunk_for_which_there_was_no_room_is_forgotten_with_its_session() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110, epoch=2)
    slave.run(slave.core.on_socket_closed(slave.core.session, 0), 0)
    assert refused(slave) == [], "given to the disk before the session ended"
    slave.tick(PAUSE_MS)
    slave.accepted(100)
    assert slave.tick(PAUSE_MS + NO_ROOM_RETRY_MS) == []
    assert kinds(slave.chunk(100, 120, epoch=2)) == [Append]


def test_a_cut_is_not_given_up_for_want_of_room() -> None:
    slave = Slave()
    slave.holds = True
    slave.accepted(60)
    assert slave.core.on_no_room(slave.held[0], 0) is None


def test_a_chunk_of_an_epoch_before_the_newest_is_foreign() -> None:
    slave = streaming()
    assert kinds(slave.chunk(100, 110, epoch=1)) == [CloseSession]


def test_a_chunk_beyond_the_credit_is_not_taken() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 200)
    assert kinds(slave.chunk(200, 210)) == [CloseSession]


def test_credit_grows_by_halves() -> None:
    slave = streaming()
    granted = []
    for begin in range(100, 300, 10):
        granted += [frame.up_to for frame in frames(slave.chunk(begin, begin + 10)) if isinstance(frame, Credit)]
    assert granted == [250, 300, 350, 400]


def test_confirm_is_what_was_heard_and_held_and_never_goes_back() -> None:
    slave = streaming(confirm=50)
    slave.hear(Idle(*slave.stamp, 100, 40))
    assert slave.log.confirm == 50
    slave.hear(Idle(*slave.stamp, 100, 500))
    assert slave.log.confirm == 100
    slave.chunk(100, 110, confirm=0)
    assert slave.log.confirm == 110


def test_a_confirm_offset_heard_in_a_session_ends_with_it() -> None:
    """What one master confirmed says nothing of bytes another sends."""
    slave = streaming()
    slave.hear(Idle(*slave.stamp, 100, 500))
    slave.hear(Goodbye(*slave.stamp))
    slave.tick(PAUSE_MS)
    slave.accepted()
    slave.chunk(100, 110)
    assert slave.log.confirm == 100


def test_a_flush_is_acknowledged() -> None:
    slave = streaming()
    slave.log.on_flushed(100)
    assert frames(slave.core.on_flushed()) == [Ack(*slave.stamp, 100, 100)]


# ---- ends of sessions


def test_a_closed_socket_is_reported_at_once_and_tried_again() -> None:
    slave = streaming()
    number = slave.core.session
    effects = slave.run(slave.core.on_socket_closed(number, 10), 10)
    assert effects == [TellMasterGone("A", EPOCH), CloseSession("A", number)]
    assert slave.core.on_socket_closed(number, 11) == []
    assert OpenSession("A", number + 1) in slave.tick(10 + PAUSE_MS)
    assert slave.core.on_socket_closed(number, 12) == []  # late word of the old one


def test_silence_is_answered_by_a_fresh_socket() -> None:
    slave = streaming()
    slave.hear(Idle(*slave.stamp, 100, 0), now_ms=1000)
    assert slave.tick(1000 + SILENCE_MS - 1) == []
    assert kinds(slave.tick(1000 + SILENCE_MS)) == [CloseSession]


def test_a_session_that_the_master_closed_is_opened_anew() -> None:
    slave = streaming()
    assert slave.hear(Refused(*slave.stamp, RefusalReason.CLOSED)) == [CloseSession("A", slave.core.session)]
    assert kinds(slave.tick(PAUSE_MS))[0] is OpenSession


def test_damaged_bytes_end_the_session() -> None:
    slave = streaming()
    assert kinds(slave.core.on_bad_frame(slave.core.session - 1, 0)) == []
    assert kinds(slave.core.on_bad_frame(slave.core.session, 0)) == [CloseSession]


def test_no_session_is_opened_while_an_append_is_under_way() -> None:
    """The opening tells where the log ends: that must not move behind its back."""
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110, epoch=2)
    slave.hear(Goodbye(*slave.stamp))
    assert slave.tick(PAUSE_MS) == []
    assert frames(slave.done(PAUSE_MS)) == []
    (opening,) = frames(slave.tick(PAUSE_MS))
    assert isinstance(opening, Opening)
    assert opening.end == 110


def test_it_says_goodbye() -> None:
    slave = streaming()
    assert frames(slave.core.on_goodbye()) == [Goodbye(*slave.stamp)]
    assert kinds(slave.core.on_stop()) == [CloseSession, Stopped]
    assert slave.core.on_goodbye() == []


def test_stopped_it_waits_for_the_append_and_forgets_the_rest() -> None:
    slave = streaming()
    slave.holds = True
    slave.chunk(100, 110, epoch=2)
    slave.chunk(110, 120, epoch=2)
    assert kinds(slave.run(slave.core.on_stop(), 0)) == [CloseSession]
    assert kinds(slave.done()) == [Stopped]
    assert (slave.log.end, slave.held) == (110, [])


def test_what_lies_behind_a_hole_is_cut_though_it_was_not_offered() -> None:
    """The log ends at its hole: rows behind it are not offered, and nothing is appended over what is there."""
    rows = EpochList.of([(1, 0), (2, 60), (3, 140)])
    slave = Slave(rows=rows, has_hole=True)
    opening = frames(slave.opened)[0]
    assert isinstance(opening, Opening)
    assert (opening.end, opening.epochs) == (100, ROWS)
    effects = slave.accepted(100)
    assert kinds(effects)[:4] == [PersistIntent, CutLog, PersistEpochs, ClearIntent]
    assert (slave.core.phase, slave.log.has_hole, slave.log.epochs) == (Phase.STREAMING, False, ROWS)


def test_the_highest_number_that_a_master_may_have_seen_leaves_one_to_open_with() -> None:
    """A stranger had opened a session in this replica's name with the last number there is: the next one ended the process."""
    slave = Slave()
    highest = decode(encode(Refused(*slave.stamp, RefusalReason.STALE_SESSION, SESSION_MAX)), Side.SLAVE)
    slave.hear(highest)
    opened = [effect.frame for effect in slave.tick(PAUSE_MS) if isinstance(effect, SendFrame)]
    assert [frame.session for frame in opened] == [SESSION_MAX + 1]
    assert encode(opened[0])


@pytest.mark.parametrize(
    ("begin", "end", "size_bytes"),
    [(100, 300, 200), (100, 200, 60), (200, 300, 60)],
    ids=["goes on over our end", "ends before it", "ends behind it"],
)
def test_a_master_whose_files_are_of_another_size_is_not_followed_and_the_reason_says_what_to_do(
    begin: int, end: int, size_bytes: int
) -> None:
    slave = Slave(end=begin, credit=1000, segment_bytes=256)
    slave.accepted(begin)
    found = slave.hear(Chunk(*slave.stamp, EPOCH, begin, end, 0, 0, False), 0, bytes(size_bytes))
    halt = found[-1]
    assert isinstance(halt, Halt)
    assert isinstance(halt.reason, SegmentsDiffer)
    assert "store.segment_bytes" in str(halt.reason)
    assert slave.core.phase is Phase.HALTED
    assert slave.log.end == begin


def test_a_chunk_that_ends_a_file_where_ours_ends_is_taken() -> None:
    slave = Slave(credit=1000, segment_bytes=256)
    slave.accepted()
    slave.hear(Chunk(*slave.stamp, EPOCH, 100, 256, 0, 0, False), 0, bytes(40))
    slave.hear(Chunk(*slave.stamp, EPOCH, 256, 300, 0, 0, False), 0, bytes(44))
    assert slave.log.end == 300
