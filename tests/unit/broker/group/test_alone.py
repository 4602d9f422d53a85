"""A broker without replicas is its own master from its start, under an epoch of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.alone import Alone, prepare_alone
from zenitmq.broker.group.epoch_file import read_epochs
from zenitmq.model.errors import FlushTimeout, InvalidParameter, UnknownRequest
from zenitmq.remoting import commands as c
from zenitmq.remoting.commands import REQUESTS
from zenitmq.remoting.request_rows import row


def part(directory: Path, *, flush_mode: str = "async", flushed: int = 0) -> tuple[Alone, list[str]]:
    """Of a new life on an empty store; and what its broker was told."""
    told: list[str] = []
    config: Any = BrokerConfig(store_dir=str(directory))
    damage = SimpleNamespace(take_holes=lambda: told.append("holes are taken"))
    ground: Any = SimpleNamespace(
        config=SimpleNamespace(store_dir=str(directory), store=SimpleNamespace(flush_mode=flush_mode)),
        store=SimpleNamespace(begin=0, written=0, flushed=flushed, damage=damage),
        host=SimpleNamespace(
            on_acknowledged=lambda: told.append("acknowledged"), on_drained=lambda: told.append("drained")
        ),
    )
    return prepare_alone(config)(ground), told


def test_it_is_master_under_the_next_epoch_at_each_start(tmp_path: Path) -> None:
    first, told = part(tmp_path)
    second, _ = part(tmp_path)
    assert (first.first_role, second.first_role) == ((0, 1), (0, 2))
    assert [epoch.number for epoch in read_epochs(str(tmp_path))][-1] == 2
    assert (first.is_master, first.leads(), first.read_from(True, 3)) == (True, True, 0)
    assert told == ["holes are taken"]


@pytest.mark.parametrize(("flush_mode", "promised"), [("async", None), ("sync", 70)])
def test_it_promises_what_is_on_its_own_disk(tmp_path: Path, flush_mode: str, promised: int | None) -> None:
    alone, told = part(tmp_path, flush_mode=flush_mode, flushed=70)
    assert (alone.promised and alone.promised()) == promised
    assert alone.late is FlushTimeout
    alone.on_flushed()
    assert told == ["holes are taken", "acknowledged"]


def test_every_request_is_its_own_to_answer(tmp_path: Path) -> None:
    alone, _ = part(tmp_path)
    for cls in REQUESTS.values():
        alone.check(cls)
        assert alone.guarded(row(cls, lambda _: c.Done()))(None) == c.Done()  # type: ignore[arg-type]


def test_it_answers_nothing_that_only_another_replica_asks(tmp_path: Path) -> None:
    alone, _ = part(tmp_path)
    workers: Any = None
    rows = [one for one in alone.serve_replicas(workers, lambda: None) if one.request_class is not c.DrainBroker]
    assert {one.request_class for one in rows} == {
        c.FlushLog,
        c.GetBeginning,
        c.GetCompactedFiles,
        c.GetCompactedRange,
        c.GetCompactedRecord,
        c.GetLogRange,
    }
    for one in rows:
        call: Any = SimpleNamespace(request=one.request_class)
        with pytest.raises(UnknownRequest):
            one.handler(call)
    assert alone.document() == {}


def test_it_has_nobody_to_hand_over_to(tmp_path: Path) -> None:
    """It ends at once, and cannot stay without leading."""
    alone, told = part(tmp_path)
    workers: Any = None
    drain = next(one for one in alone.serve_replicas(workers, lambda: None) if one.request_class is c.DrainBroker)
    stays: Any = SimpleNamespace(request=c.DrainBroker())
    with pytest.raises(InvalidParameter, match="without replicas"):
        drain.handler(stays)
    alone.drain(ends=False)
    assert (told, alone.drains) == (["holes are taken"], False)
    ends: Any = SimpleNamespace(request=c.DrainBroker(ends=True))
    assert drain.handler(ends) == c.Done()
    alone.drain(ends=True)
    assert told[1:] == ["drained", "drained"]
