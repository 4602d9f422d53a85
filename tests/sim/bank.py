"""A bank on transactional messages: the shipped stores, indexes and decisions of three replicas under one seeded schedule.

Each transfer is a row in a database and a message. Masters are killed, cut off and elected, answers are lost, producers die
between two steps, clocks jump. In the end there is one message for each row, and no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store_kit import StillClock, read_queue
from transaction_kit import Scene

from zenitmq.broker.transaction.half_rules import HalfRules
from zenitmq.broker.transaction.transactions import Outcome, Question
from zenitmq.model.errors import BrokerBusy, TransactionDecided, TransactionNotFound
from zenitmq.model.handles.transaction import Resolution, TransactionId, TransactionState
from zenitmq.record.kernel import StoredMessage

from .ledger import Violation
from .trio import REPLICAS, SEGMENT, Trio

RULES: Final = HalfRules(timeout_ms=6000, interval_ms=30_000, checks_max=10_000)
HOUR_MS: Final = 3_600_000
HEAL_ROUNDS: Final = 200
TRIES: Final = 3


@dataclass
class Transfer:
    """`which`: None until the producer knows that its half message is stored. `is_open`: its producer is about to decide."""

    name: str
    which: TransactionId | None = None
    is_open: bool = True


class Node(Scene):
    """One life of a replica. `waiting_for`: (end in the log, callback) of answers, which go out once that is confirmed."""

    def __init__(self, directory: Path, clock: StillClock, confirm: int) -> None:
        self.questions: list[Question] = []
        self.waiting_for: list[tuple[int, Callable[[], None]]] = []
        self.directory = directory
        super().__init__(directory, clock, rules=RULES, segment_bytes=SEGMENT)
        self.leads = False
        self.is_master = False
        self.start = 0
        self.store.confirm(confirm)

    def on_ask(self, question: Question) -> None:
        """It goes out once it is confirmed."""
        self.questions.append(question)

    def confirm(self, offset: int) -> None:
        """What two hold may be read and answered."""
        self.store.confirm(offset)
        self.leads = self.is_master and offset >= self.start
        due = [callback for end, callback in self.waiting_for if end <= offset]
        self.waiting_for = [one for one in self.waiting_for if one[0] > offset]
        for callback in due:
            callback()

    def depose(self) -> None:
        """Nobody is answered any more."""
        self.leads = self.is_master = False
        self.waiting_for.clear()
        self.questions.clear()
        self.transactions.on_deposed()

    def log(self) -> bytes:
        """All of it."""
        files = sorted((Path(self.directory) / "commitlog").iterdir())
        return b"".join(file.read_bytes() for file in files)[: self.store.written]


class Bank(Trio[Node]):
    """`run()` raises Violation."""

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory)
        self.clock = StillClock()
        self.latest_ms = 0
        self.database: set[str] = set()
        self.transfers: dict[str, Transfer] = {}
        self.answered: dict[str, Outcome] = {}
        self.checks = 0

    def new_node(self, directory: Path, confirm: int) -> Node:
        """Opens a replica."""
        return Node(directory, self.clock, confirm)

    # ---- the run

    def run(self, steps: int) -> None:
        """Faults, then healing, then the count."""
        try:
            with ExitStack() as closing:
                closing.callback(self.close)
                self.begin()
                for _ in range(steps):
                    self.rng.choices(*self._choices)[0]()
                self._heal()
                self._count()
        except (AssertionError, ValueError) as error:
            error.add_note(f"bank, seed {self.seed}")
            raise

    @property
    def _choices(self) -> tuple[list[Callable[[], None]], list[int]]:
        table: list[tuple[Callable[[], None], int]] = [
            (self._transfer, 30),
            (self.replicate, 60),
            (self._turn, 25),
            (self._answer_questions, 20),
            (self._persist, 5),
            (self._retention, 3),
            (self.kill, 3),
            (self.start, 6),
            (self.isolate, 2),
            (self.fail_over, 5),
            (self.reconnect, 4),
            (self._jump, 2),
        ]
        return [action for action, _ in table], [weight for _, weight in table]

    # ---- clients

    def _transfer(self) -> None:
        """The next transfer begins: its half message is sent."""
        node = self.leader()
        if node is None:
            return
        transfer = Transfer(f"T{len(self.transfers)}")
        self.transfers[transfer.name] = transfer
        which = node.send(transfer.name.encode(), message_id=transfer.name)

        def on_stored() -> None:
            if self.rng.random() < 0.05:  # the answer is lost: `execute` is not run
                transfer.is_open = False
            else:
                transfer.which = which
                self._execute(transfer)

        node.waiting_for.append((int(node.store.written), on_stored))

    def _execute(self, transfer: Transfer) -> None:
        """The local transaction, its producer's decision, or the death of the producer before, between or behind."""
        how = self.rng.randrange(8)
        transfer.is_open = False
        if how == 0:
            return
        if how != 1:
            self.database.add(transfer.name)
        if how != 2:
            self._end(transfer, -1)

    def _end(self, transfer: Transfer, hint: int, tries: int = TRIES) -> None:
        """Tells the broker what the database says, again where no answer comes; who gives up is asked later."""
        assert transfer.which is not None
        resolution = Resolution.COMMIT if transfer.name in self.database else Resolution.ROLLBACK
        node = self.leader()
        if node is None or not node.leads or self.rng.random() < 0.15:
            return
        try:
            outcome = node.end(transfer.which, resolution, hint=hint)
        except BrokerBusy:
            return
        except TransactionNotFound:
            if node is self.nodes[self.master]:
                raise
            return  # who was cut off does not know what it lacks
        except TransactionDecided as error:
            raise Violation(f"{transfer.name} is {error.state}, and the database says {resolution}") from error
        if self.rng.random() < 0.15 and tries > 1:
            self._end(transfer, hint, tries - 1)

        def on_ended() -> None:
            before = self.answered.setdefault(transfer.name, outcome)
            if (before.state, before.physical_offset) != (outcome.state, outcome.physical_offset):
                raise Violation(f"{transfer.name} was {before}, and is {outcome}")

        node.waiting_for.append((outcome.end, on_ended))

    def _answer_questions(self) -> None:
        """Questions that are confirmed reach a producer, as far as they are not lost."""
        for node in self.nodes:
            if node is not None:
                confirmed = [one for one in node.questions if one.end <= node.store.confirm_offset]
                node.questions = [one for one in node.questions if one.end > node.store.confirm_offset]
                for question in confirmed:
                    self._check(question)

    def _check(self, question: Question) -> None:
        transfer = self.transfers[question.which.message_id]
        if transfer.is_open or self.rng.random() < 0.2:
            return  # its own send is under way, or nobody hears it
        self.checks += 1
        transfer.which = transfer.which or question.which
        if transfer.which != question.which:
            raise Violation(f"{transfer.name} has two names")
        self._end(transfer, question.half_offset)

    # ---- brokers

    def _turn(self) -> None:
        self.clock.time_ms += self.rng.choice((0, 50, 1000, RULES.timeout_ms, RULES.interval_ms))
        for node in self.nodes:
            if node is not None:
                node.turn()

    def _jump(self) -> None:
        """The clock is set: an hour on, or back."""
        self.latest_ms = max(self.latest_ms, self.clock.time_ms)
        self.clock.time_ms += self.rng.choice((HOUR_MS, -HOUR_MS))

    def _persist(self) -> None:
        node = self.rng.choice(self.nodes)
        if node is not None:
            node.index.persist_confirmed(node.store.confirm_offset)

    def _retention(self) -> None:
        node = self.nodes[self.master]
        if node is not None and node.leads:
            node.transactions.clear_below(self.rng.randrange(int(node.store.confirm_offset) + 1))

    # ---- the end

    def _heal(self) -> None:
        for transfer in self.transfers.values():
            transfer.is_open = False
        self.clock.time_ms = max(self.latest_ms, self.clock.time_ms)
        for _ in range(HEAL_ROUNDS):
            self.reconnect()
            for _ in range(REPLICAS):
                self.start()
            self.fail_over()
            self.replicate()
            self._answer_questions()
            self.replicate()
            self.clock.time_ms += RULES.interval_ms
            for node in self.nodes:
                if node is not None:
                    node.turn()
            master = self.nodes[self.master]
            assert master is not None
            if not master.waiting and len({node.log() for node in self.nodes if node is not None}) == 1:
                self.replicate()
                return
        raise Violation("some are not decided")

    def _count(self) -> None:
        for node in self.nodes:
            assert node is not None
            found = read_queue(node.store, "t", 2)
            counted = Counter(message.message_id for message in found)
            if twice := [name for name, count in counted.items() if count > 1]:
                raise Violation(f"twice: {twice}")
            if set(counted) != self.database:
                raise Violation(f"lost {self.database - set(counted)}, too many {set(counted) - self.database}")
            self._check_answers({message.message_id: message for message in found})

    def _check_answers(self, found: dict[str, StoredMessage]) -> None:
        for name, outcome in self.answered.items():
            message = found.get(name)
            if outcome.state is TransactionState.COMMITTED:
                if message is None or message.physical_offset != outcome.physical_offset:
                    raise Violation(f"{name} was said to be at {outcome}")
            elif message is not None:
                raise Violation(f"{name} was said to be rolled back")
