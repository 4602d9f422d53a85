"""Stores that RocketMQ wrote: those of its half messages are taken over that are not decided, each once."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from store_kit import StillClock, read_queue, unpack_golden
from transaction_kit import RULES, Scene

from zenitmq.model.handles.transaction import Resolution
from zenitmq.model.names import HALF_TOPIC
from zenitmq.store.opening.snapshot import read_snapshot

OPENED_MS = 1_795_250_000_000


@pytest.fixture(params=["file-clean", "file-killed"])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack_golden(request.param, tmp_path)


def undecided(golden: Path) -> list[str]:
    """Message ids of what its producer said nothing about."""
    lines = map(json.loads, (golden.parent / "expected.jsonl").read_text().splitlines())
    return sorted(line["msg_id"] for line in lines if line["kind"] == "transaction_unknown")


def waiting(scene: Scene) -> list[str]:
    """Message ids of what waits."""
    found = [scene.transactions.found_at(entry) for entry in scene.transactions.listed(0, 99)]
    return sorted(message[0].message_id for message in found if message is not None)


def set_offset(golden: Path, offset: int | None) -> None:
    """RocketMQ's record of how far it came with half messages; None: it wrote none."""
    path = golden / "config" / "consumerOffset.json"
    snapshot = read_snapshot(str(path))
    table = {} if snapshot is None else dict(snapshot.document["offsetTable"])
    table.pop(f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS", None)
    if offset is not None:
        table[f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS"] = {"0": offset}
    path.write_text(json.dumps({"offsetTable": table}))


def test_each_is_taken_over_once_and_decided(golden: Path) -> None:
    ids = undecided(golden)
    with Scene(golden, StillClock(OPENED_MS)) as scene:
        scene.queues["payments"] = 2
        assert waiting(scene) == ids
        scene.turn()
        assert sorted(which.message_id for _, which, _, _ in scene.asked) == ids
        first, second, _ = (which for _, which, _, _ in scene.asked)
        scene.end(first, group=None)
        scene.end(second, Resolution.ROLLBACK, group=None)
        assert len(waiting(scene)) == 1
    shutil.rmtree(golden / "halves")
    with Scene(golden, StillClock(OPENED_MS)) as scene:
        assert len(waiting(scene)) == 1


@pytest.mark.parametrize("offset", [None, 0, 3])
def test_what_rocketmq_asked_about_is_one_message_wherever_it_said_it_was(golden: Path, offset: int | None) -> None:
    """Killed, it has not written down how far it came since: at most five seconds."""
    set_offset(golden, offset)
    with Scene(golden, StillClock(OPENED_MS)) as scene:
        found = waiting(scene)
    ids = undecided(golden)
    assert found == (ids[-len(found) :] if offset == 3 else ids), "none twice, none lost"


def test_an_offset_that_anybody_commits_hides_none_of_ours(golden: Path) -> None:
    clock = StillClock(OPENED_MS)
    with Scene(golden, clock) as scene:
        halves = len(read_queue(scene.store, HALF_TOPIC, 0))
        which = scene.send(message_id="A1")
        scene.pass_ms(RULES.timeout_ms)
    set_offset(golden, halves + 99)
    shutil.rmtree(golden / "halves")
    with Scene(golden, clock) as scene:
        assert scene.end(which).queue_id == 2


def test_of_what_it_had_decided_nothing_is_kept_in_memory(tmp_path: Path) -> None:
    golden = unpack_golden("file-clean", tmp_path)
    with Scene(golden, StillClock(OPENED_MS)) as scene:
        assert not scene.halves.foreign_ends


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_replica_knows_what_rocketmq_had_decided(golden: Path, tmp_path: Path, *, is_restarted: bool) -> None:
    """It has the log alone. Once it led it asked about all of it, and what RocketMQ had committed was committed again."""
    clock = StillClock(OPENED_MS)
    with Scene(golden, clock) as master, ExitStack() as lives:
        slave = lives.enter_context(Scene(tmp_path / "slave", clock))
        slave.leads = False
        while slave.store.written < master.store.written:
            begin = slave.store.written
            if is_restarted:
                slave.index.persist()
                lives.close()
                slave = lives.enter_context(Scene(tmp_path / "slave", clock))
                slave.leads = False
            end = master.store.chunk_end(begin, 3000)
            chunk = master.store.chunk(begin, end - begin)
            slave.store.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
        slave.queues["payments"] = 2
        slave.leads = True
        for _ in range(9):
            slave.turn()
        assert sorted(which.message_id for _, which, _, _ in slave.asked) == undecided(golden)
        assert not slave.halves.foreign_ends
        assert slave.waiting == len(undecided(golden))
