"""A bank on transactional messages keeps its sum, whatever happens to brokers, producers and clocks."""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from sim.bank import Bank
from sim.ledger import Violation

from zenitmq.broker.transaction import half_index
from zenitmq.broker.waiting.ends import TRANSACTION_TOPICS

SEEDS = 18
BLOCK = 6
STEPS = 400


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seed: int, directory: Path) -> Bank:
    bank = Bank(seed, directory / str(seed))
    bank.run(STEPS)
    shutil.rmtree(bank.directory)
    return bank


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_a_bank_keeps_its_sum_over_elections(tmp_path: Path, first: int) -> None:
    banks = [run(seed, tmp_path) for seed in range(first, first + BLOCK)]
    assert sum(bank.elections for bank in banks) > 2 * BLOCK
    assert sum(bank.lives for bank in banks) > 0
    assert sum(bank.checks for bank in banks) > 5 * BLOCK
    assert sum(len(bank.database) for bank in banks) > 10 * BLOCK


def test_a_commit_that_does_not_end_its_half_message_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_index, "ends_half", lambda topic, _: topic in TRANSACTION_TOPICS)
    with pytest.raises(Violation):
        deque((run(seed, tmp_path) for seed in range(BLOCK)), maxlen=0)
