"""A group goes over to `sync` and back while a replica's disk is full: what counts unflushed is told as that."""

from __future__ import annotations

from sim.schedule import MS
from sim.story import Stage

from zenitmq.model.groups.group import FlushMode


def test_what_was_settled_under_sync_says_nothing_about_the_async_that_follows() -> None:
    """The note that all is flushed waited for room, and was made when the next epoch counted unflushed bytes already."""
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.carry_all()
    b = stage.brokers["b"]
    b.store._latency_ms = 50
    stage.set_flush_mode(FlushMode.SYNC)
    stage.hear("a")
    stage.hear("b")
    assert b.member.files.ran_async, "not all is flushed yet"
    b.disk.is_brimful = True
    stage.set_flush_mode(FlushMode.ASYNC)
    stage.hear("b")
    stage.schedule.now_us += 100 * MS
    stage.settle()
    assert b.store.flushed == b.store.written
    b.disk.is_brimful = False
    stage.schedule.now_us += 300 * MS
    stage.settle()
    stage.tick("b")
    stage.hear("a")
    stage.carry_all()
    told = b.member.document()
    assert (told["epoch"], told["in_sync"]) == (stage.node.epoch, list(stage.node.in_sync))
    assert b.member.files.ran_async
