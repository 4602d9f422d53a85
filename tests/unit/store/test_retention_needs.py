"""Who needs how much of the log, found out in slices: never too high, whoever comes, goes back or moves on meanwhile."""

import random

import pytest

from zenitmq.store.retention_needs import Budget, FixedNeeds, LogHolds, NeedSurvey


class Queues:
    """Records of many queues in one log: the n-th byte of it is a record of queue `of[n]`."""

    def __init__(self, of: list[int]) -> None:
        self.of = of
        self.places: dict[int, list[int]] = {}
        for at, queue_id in enumerate(of):
            self.places.setdefault(queue_id, []).append(at)
        self.looked: list[int] = []

    def position_of(self, topic: str, queue_id: int, offset: int, budget: Budget) -> int | None:
        budget.left -= 1
        self.looked.append(queue_id)
        places = self.places.get(queue_id, [])
        return places[offset] if offset < len(places) else None


class Readers:
    """Offsets of readers, each of one queue."""

    def __init__(self) -> None:
        self.revision = 0
        self.offsets: dict[int, int] = {}  # by reader; reader r reads queue r % 7
        self._lowered: dict[int, int] = {}

    def move(self, reader: int, offset: int) -> None:
        if reader not in self.offsets or offset < self.offsets[reader]:
            self.revision += 1
            self._lowered[reader] = self.revision
        self.offsets[reader] = offset

    def leave(self, reader: int) -> None:
        self.offsets.pop(reader, None)
        self._lowered.pop(reader, None)

    def since(self, revision):
        for reader in [r for r in self.offsets if revision is None or self._lowered[r] > revision]:
            if reader in self.offsets:
                yield "t", reader % 7, self.offsets[reader]

    def first(self, topic: str, queue_id: int):
        return min((offset for reader, offset in self.offsets.items() if reader % 7 == queue_id), default=None)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_goes_that_somebody_needs(seed: int) -> None:
    chosen = random.Random(seed)
    queues, readers = Queues([chosen.randrange(7) for _ in range(400)]), Readers()
    survey = NeedSurvey(readers, queues.position_of)
    end, told = 300, 0  # the rest of the log comes meanwhile
    first_end = 10
    for _ in range(600):
        reader = chosen.randrange(30)
        step = chosen.random()
        if step < 0.1:
            readers.move(reader, 0 if step < 0.02 else chosen.randrange(60))
        elif step < 0.15:
            readers.leave(reader)
        elif step < 0.5 and reader in readers.offsets:
            readers.move(reader, readers.offsets[reader] + 1)
        end = min(400, end + chosen.randrange(2))
        looked = len(queues.looked)
        floor = survey.floor(first_end, end, Budget(chosen.choice((1, 3, 40))))
        assert len(queues.looked) - looked <= 41, f"seed={seed}"
        positions = [queues.position_of(*need, Budget(9)) for need in readers.since(None)]
        lowest = min((at for at in positions if at is not None), default=end)
        if floor is not None and floor >= first_end:
            told += 1
            assert floor <= max(lowest, first_end - 1), f"seed={seed}"
            assert lowest >= first_end, f"seed={seed}"
            first_end = min(first_end + 10, end)
        elif floor is not None:
            assert lowest < first_end, f"seed={seed}"
    for reader in list(readers.offsets):
        readers.move(reader, 1000)
    for _ in range(60):
        floor = survey.floor(end, end, Budget(5))
    assert floor == end, f"seed={seed}"
    assert told > 0, f"seed={seed}"


def test_while_one_holds_all_the_others_are_not_looked_at() -> None:
    queues = Queues([n % 100 for n in range(1000)])
    survey = NeedSurvey(FixedNeeds({("t", q): 5 if q != 60 else 0 for q in range(100)}), queues.position_of)
    assert survey.floor(100, 1000, Budget(1000)) == 60
    queues.looked.clear()
    assert survey.floor(100, 1000, Budget(1000)) == 60
    assert queues.looked == [60]


def test_what_was_found_out_once_counts_for_the_next_segments_too() -> None:
    queues = Queues([n % 100 for n in range(1000)])
    survey = NeedSurvey(FixedNeeds({("t", q): 5 for q in range(100)}), queues.position_of)
    for first_end in (100, 200, 500):
        assert survey.floor(first_end, 1000, Budget(1000)) == 500
    assert len(queues.looked) == 100
    assert survey.floor(501, 1000, Budget(1000)) == 500
    assert len(queues.looked) == 101


def test_losses_are_those_below_one_place_however_long_it_takes() -> None:
    queues = Queues([n % 10 for n in range(100)])
    survey = NeedSurvey(FixedNeeds({("t", q): q for q in range(10)}), queues.position_of)
    slices = 0
    while (found := survey.losses(30 + slices, 100, Budget(3))) is None:  # more expires meanwhile
        slices += 1
    assert slices == 3
    assert (found.below, found.first) == (30, {("t", 0): 0, ("t", 1): 1, ("t", 2): 2})
    assert survey.floor(1, 100, Budget(100)) == 0
    assert survey.floor(0, 100, Budget(100)) == 0


def test_a_holder_of_the_log_keeps_it_until_its_lease_is_over() -> None:
    holds = LogHolds()
    assert holds.floor(0) is None
    holds.take("b", 4096, 100)
    holds.take("c", 8192, 200)
    assert holds.floor(99) == 4096
    holds.renew("b", 150)
    holds.renew("nobody", 1_000)
    assert (holds.floor(149), holds.floor(150), holds.floor(200)) == (4096, 8192, None)
    holds.renew("c", 1_000)
    assert holds.floor(201) is None, "it has ended"


def test_who_begins_anew_again_holds_from_its_new_begin() -> None:
    holds = LogHolds()
    holds.take("b", 4096, 100)
    holds.take("b", 12288, 200)
    assert holds.floor(50) == 12288
