"""SIGTERM while a broker opens itself anew, to have its log cut: it ends as after any other, and the cut is whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.clock import SystemClock
from zenitmq.model.ids import HostAddress
from zenitmq.record.new_record import NewRecord
from zenitmq.store.message_store import MessageStore

from .conftest import SMALL
from .test_static_master import StaticGroup, answers, await_that

pytestmark = pytest.mark.timeout(120)

SLAVE = """
import os, signal, sys
from zenitmq.broker.group import in_group

carry_through = in_group.carry_through_cut

def interrupted(files, config):
    is_cut = files.intent is not None
    carry_through(files, config)
    if is_cut:
        os.kill(os.getpid(), signal.SIGTERM)  # the broker that was is closed, the next one is not made yet

in_group.carry_through_cut = interrupted
sys.argv = ["zenit", "broker", *sys.argv[1:]]
from zenitmq.cli.main import run
run()
"""


def append_alone(broker: Any, body: bytes) -> int:
    """A record that only this closed store has; returns where its log ends then."""
    config = broker.config
    store = MessageStore(
        config.store_dir,
        config.store,
        store_host=HostAddress.parse("127.0.0.1", 1),
        clock=SystemClock(),
        on_flushed=lambda: None,
        on_poisoned=lambda _: None,
    )
    with store:
        store.stage_record(NewRecord(topic="t", queue_id=0, body=body))
        store.commit()
        return int(store.written)


def test_a_broker_that_is_opened_anew_heeds_a_signal(serve: Callable[..., Any], record: Callable[..., bytes]) -> None:
    group = StaticGroup(serve, record)
    master, slave = group.serve("m"), group.serve("a")
    await_that(lambda: answers(master))
    master.create("t")
    group.send(master, b"1", b"2")
    await_that(lambda: len(slave.pull("t")[1]) == 2)
    slave.stop()
    end = master.written()
    assert append_alone(slave, b"nobody has acknowledged this") > end

    settings = {f"store.{key}": value for key, value in SMALL.items()}
    settings |= {"store_dir": slave.config.store_dir, "replica": "a", "port": 0, "replication_port": 0}
    settings |= {"static_master": f"127.0.0.1:{group.port}", "namesrv": "127.0.0.1:1"}
    arguments = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
    done = subprocess.run(
        [sys.executable, "-c", SLAVE, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the log is cut" in done.stderr
    assert "Traceback" not in done.stderr

    slave.start()
    await_that(lambda: answers(slave) and slave.written() == end)
    await_that(lambda: [one.body for one in slave.pull("t")[1]] == [b"1", b"2"])
