"""A shop whose orders are popped loses none, and hands out none twice, whatever happens to brokers and receivers."""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from sim.ledger import Violation
from sim.shop import Shop

from zenitmq.broker.state.pop_queue import PopQueue

SEEDS = 100
BLOCK = 10
STEPS = 250


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seed: int, directory: Path) -> Shop:
    shop = Shop(seed, directory / str(seed))
    shop.run(STEPS)
    shutil.rmtree(shop.directory)
    return shop


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_a_shop_handles_each_order_over_elections(tmp_path: Path, first: int) -> None:
    shops = [run(seed, tmp_path) for seed in range(first, first + BLOCK)]
    assert sum(shop.elections for shop in shops) > BLOCK
    assert sum(shop.lives for shop in shops) > BLOCK
    assert sum(len(shop.done) for shop in shops) > 10 * BLOCK
    assert sum(shop.again for shop in shops) > BLOCK


def test_a_snapshot_without_what_is_acknowledged_in_part_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = PopQueue.document
    monkeypatch.setattr(PopQueue, "document", lambda queue: {**document(queue), "handled": []})
    with pytest.raises(Violation):
        deque((run(seed, tmp_path) for seed in range(BLOCK)), maxlen=0)
