"""Lines for brokers that take nothing: why is said while they are tried, and the end comes with the first that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from zenitmq import Message, Producer
from zenitmq.cli.commands.messages import produce
from zenitmq.cli.main import application
from zenitmq.model.errors import RequestTimeout, StoreNotWriteable
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

LINES: Final = 100_000  # far more than may be on their way
REFUSING: Final = tuple(f"store.disk_{ratio}_ratio=0" for ratio in ("clean", "force", "refuse"))


@pytest.fixture(scope="module")
def full() -> Iterator[LocalCluster]:
    """A cluster whose disk is too full, by its settings, from its first look at it on."""
    with LocalCluster(settings=(*SMALL_STORE, *REFUSING)) as cluster:
        cluster.create_topic("full", queues=2)
        with Producer("p", namesrv=cluster.namesrv) as producer:
            while is_taken(producer):
                time.sleep(0.1)
        yield cluster


def is_taken(producer: Producer) -> bool:
    """Whether the store takes a message."""
    try:
        producer.send(Message("full", b"x"), timeout=0.2)
    except StoreNotWriteable:
        return False
    except RequestTimeout:  # of a last try, for which little time was left
        pass
    return True


@pytest.mark.parametrize("delay", [(), ("--delay", "1h")])
def test_a_store_that_takes_nothing_is_told_and_ends_it(
    full: LocalCluster, delay: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenitmq.client.producer.Producer", partial(Producer, batch_timeout=3, timeout=3))
    monkeypatch.setattr(produce, "LOOK_S", 0.3)
    monkeypatch.setattr(produce, "REST_S", 0.3)
    (tmp_path / "lines").write_bytes(b"a line that is not short, for it is to fill batches\n" * LINES)
    arguments = ["produce", "full", "--file", str(tmp_path / "lines"), *delay, "--json", "--namesrv", full.namesrv]
    run = CliRunner().invoke(application(), arguments)
    told, *last = [line for line in run.stderr.splitlines() if line.startswith("zenit: ")]
    assert told.startswith("zenit: trying again: the store takes no writes: disk use is over"), run.stderr
    assert last[-1].startswith("zenit: stopped at line "), run.stderr
    summary = json.loads(run.stdout)
    assert (run.exit_code, summary["sent"]) == (1, 0)
    assert 0 < summary["failed"] < LINES
    assert summary["seconds"] < 10


def test_a_producer_knows_why_its_last_try_failed(full: LocalCluster) -> None:
    with Producer("p", namesrv=full.namesrv, batch_timeout=2) as producer:
        assert producer.last_failure == ""
        future = producer.send_async(Message("full", b"x"))
        with pytest.raises(StoreNotWriteable) as failed:
            future.result()
        assert producer.last_failure == str(failed.value)
