"""Real stores over real sockets: a slave's log is its master's, and nothing counts before those in sync have it."""

from __future__ import annotations

import os
from pathlib import Path

from store_kit import message

from zenitmq.bench.works.frames import ready_batches
from zenitmq.record.kernel import decode_batch

from .group_of_nodes import SEGMENT_BYTES, Node, eventually, group

BATCHES = ready_batches("t", size=500, batch=50, keys=1, tags=True, count=8)


def log_bytes(node: Node) -> bytes:
    """What the log holds, from where it begins."""
    files = sorted((Path(node.config.store_dir) / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files)[: node.store.written - int(files[0].name)]


def test_a_slave_s_log_is_its_master_s_byte_for_byte(tmp_path: Path) -> None:
    """Over several segments, to a slave that was there from the start and to one that has to catch up."""
    with group(tmp_path, min_in_sync=2) as running:
        a, b, c = running.nodes.values()
        running.elect("a", in_sync="ab", tell="ab")
        assert eventually(lambda: a.roles == [0] and b.roles == [2])
        for number in range(120):
            a.put(BATCHES[number % 8], 50, queue_id=number % 2)
        end = a.written()
        assert end > 3 * SEGMENT_BYTES
        assert eventually(lambda: a.acknowledged() == end and b.bodies(0) == b.bodies(1) == 3000)
        running.elect("a", in_sync="ab")  # a new term of the same master; the third hears of it too
        assert eventually(lambda: c.bodies(1) == 3000 and running.known.node.in_sync == ("a", "b", "c"))
        running.stop()
        assert log_bytes(b) == log_bytes(c) == log_bytes(a)
        running.nodes = {}


def test_nothing_is_acknowledged_or_shown_that_one_in_sync_does_not_have(tmp_path: Path) -> None:
    with group(tmp_path, "ab", min_in_sync=2) as running:
        a, b = running.nodes.values()
        running.elect("a", in_sync="ab", tell="a")
        assert eventually(lambda: a.roles == [0])
        a.put(BATCHES[0], 50)
        assert not eventually(lambda: a.acknowledged() > 0 or a.bodies() > 0, within_s=0.5)
        running.nodes["b"].loop.post(lambda: b.member.on_group(running.known))
        assert eventually(lambda: a.acknowledged() == a.written() and a.bodies() == 50 and b.bodies() == 50)


def test_what_only_the_old_master_has_is_cut_off(tmp_path: Path) -> None:
    """The old master goes on alone; the new one's log counts, and the old one asks to be opened anew for the cut."""
    with group(tmp_path, min_in_sync=2) as running:
        a, b, c = running.nodes.values()
        running.elect("a", in_sync="abc")
        assert eventually(lambda: a.roles == [0])
        a.put(BATCHES[0], 50)
        assert eventually(lambda: b.bodies() == c.bodies() == 50)
        shared = a.written()
        running.elect("b", in_sync="bc", tell="bc")
        assert eventually(lambda: b.roles[-1] == 0)
        a.put(BATCHES[1], 50)
        b.put(BATCHES[2], 50)
        assert eventually(lambda: b.acknowledged() == b.written())
        assert a.acknowledged() <= shared
        running.nodes["a"].loop.post(lambda: a.member.on_group(running.known))
        assert eventually(lambda: a.cuts == 1)
        assert a.member.files.intent == (2, shared)
        assert a.roles[-2:] == [None, 1]


def test_a_slave_says_when_its_master_is_gone(tmp_path: Path) -> None:
    with group(tmp_path, "ab") as running:
        a, b = running.nodes.values()
        running.elect("a", in_sync="ab")
        assert eventually(lambda: a.roles == [0])
        a.put(BATCHES[0], 50)
        assert eventually(lambda: b.bodies() == 50)
        running.nodes.pop("a").stop()
        assert eventually(lambda: b.gone[:1] == [("a", 1)])


def test_a_slave_behind_retention_begins_anew(tmp_path: Path) -> None:
    """What it needs has expired: it takes the master's state, begins where the master's log does, and goes on."""
    with group(tmp_path, "ab", min_in_sync=1, store={"retention_bytes": SEGMENT_BYTES}) as running:
        a, b = running.nodes.values()
        running.elect("a", in_sync="a", tell="a")
        assert eventually(lambda: a.roles == [0])
        for number in range(120):
            a.put(BATCHES[number % 8], 50)
        assert eventually(lambda: a.acknowledged() == a.written())
        assert eventually(lambda: a.expire() >= SEGMENT_BYTES)
        b.loop.post(lambda: b.member.on_group(running.known))
        assert eventually(lambda: b.cuts == 1)
        b = running.restart("b")
        begin = int(b.store.begin)
        assert begin > 0
        assert begin % SEGMENT_BYTES == 0
        assert eventually(lambda: b.bodies() == 6000)
        assert b.on_loop(lambda: b.store.min_offset("t", 0)) == a.on_loop(lambda: a.store.min_offset("t", 0)) > 0
        assert eventually(lambda: running.known.node.in_sync == ("a", "b"))
        running.stop()
        assert log_bytes(b) == log_bytes(a)[-len(log_bytes(b)) :]
        running.nodes = {}


def test_a_slave_that_begins_anew_gets_what_only_compacted_files_have(tmp_path: Path) -> None:
    """The newest of each key is older than its master's log: it has them before it counts, in place of its own old ones."""
    with group(tmp_path, "ab", min_in_sync=1, store={"retention_bytes": SEGMENT_BYTES}) as running:
        a, b = running.nodes.values()
        for node in (a, b):
            node.store.compaction.begin(lambda: [("t", 0)])
        running.elect("a", in_sync="ab")
        assert eventually(lambda: a.roles == [0])
        a.put(b"".join(message("t", b"old%d" % n, keys=f"k{n}") for n in range(9)), 9)
        assert eventually(lambda: b.bodies() == 9)
        b.on_loop(lambda: b.store.compaction.ask_for("t"))
        assert eventually(lambda: b.expire() == 0 and ("t", 0) in b.store.compacted.manifests)
        running.nodes.pop("b").stop()
        running.elect("a", in_sync="a", tell="a")
        a.put(b"".join(message("t", b"new%d" % n, keys=f"k{n}") for n in range(1, 9)), 8)
        for number in range(120):
            a.put(BATCHES[number % 8], 50, queue_id=1)
        assert eventually(lambda: a.acknowledged() == a.written())
        assert eventually(lambda: a.expire() >= SEGMENT_BYTES)
        assert a.on_loop(lambda: len(a.store.compacted.manifests["t", 0].files)) > 0
        b = running.nodes["b"] = running._start("b")
        assert b.on_loop(lambda: b.store.compacted.manifests["t", 0].covered) == 9
        running.restart("b")
        b = running.nodes["b"]
        assert eventually(lambda: b.cuts == 1)
        b = running.restart("b")
        assert not (Path(b.config.store_dir) / "compactedincoming").exists()

        def values() -> dict[str, bytes]:
            found = b.on_loop(lambda: b.store.get_messages("t", 0, 0, max_messages=99, max_bytes=1 << 20))
            messages = [one for part in found.slices for one in decode_batch(bytes(part))]
            return {one.keys[0]: one.body for one in messages}

        assert eventually(lambda: b.bodies(1) == 6000)
        assert values() == {"k0": b"old0", **{f"k{n}": b"new%d" % n for n in range(1, 9)}}
        assert eventually(lambda: running.known.node.in_sync == ("a", "b"))


def test_the_longest_record_a_store_takes_reaches_the_slaves(tmp_path: Path) -> None:
    """And what is left of a segment where a batch of three such did not fit counts for nothing."""
    store = {
        "segment_bytes": 64 << 20,
        "body_bytes_max": 16 << 20,
        "record_bytes_max": 17 << 20,
        "frame_bytes_max": 64 << 20,
        "preallocate_segments": 1,
    }
    with group(tmp_path, "ab", min_in_sync=2, store=store) as running:
        a, b = running.nodes.values()
        running.elect("a", in_sync="ab")
        assert eventually(lambda: a.roles == [0])
        record = message("t", os.urandom(1 << 20) * 16)
        a.put(record, 1)
        a.put(record * 2, 2)
        a.put(record * 3, 3)  # rolls: the rest of the segment, 16 MiB, stays empty
        end = a.written()
        assert end > store["segment_bytes"]
        assert eventually(lambda: b.written() == end and a.acknowledged() == end, within_s=60)
        assert eventually(lambda: b.bodies() == 6)
        running.stop()
        assert log_bytes(b) == log_bytes(a)
        running.nodes = {}


def test_who_comes_back_alone_shows_what_was_confirmed(tmp_path: Path) -> None:
    """All were stopped, one is there again: too few to confirm anything, and reads go on where they were."""
    with group(tmp_path, min_in_sync=2) as running:
        a = running.nodes["a"]
        running.elect("a", in_sync="abc")
        assert eventually(lambda: a.roles == [0])
        a.put(BATCHES[0], 50)
        assert eventually(lambda: all(node.bodies() == 50 for node in running.nodes.values()))
        for name in "ab":
            running.nodes.pop(name).stop()
        c = running.restart("c")
        assert c.bodies() == 50  # before it hears of anybody
        running.elect("c", in_sync="abc", tell="c")
        assert eventually(lambda: c.roles[-1:] == [0])
        assert c.on_loop(c.member.leads)
        c.put(BATCHES[1], 50)
        assert not eventually(lambda: c.bodies() > 50, within_s=0.5)


def test_who_has_what_a_forced_election_gave_up_keeps_it_and_says_so(tmp_path: Path) -> None:
    """Over restarts: it may be the last copy."""
    with group(tmp_path, min_in_sync=1) as running:
        a, b = running.nodes["a"], running.nodes["b"]
        running.elect("a", in_sync="ab", tell="ab")
        assert eventually(lambda: a.roles == [0])
        a.put(BATCHES[0], 50)
        assert eventually(lambda: b.bodies() == 50)
        end = b.written()
        running.nodes.pop("a").stop()
        running.elect("c", in_sync="c")
        for _ in range(2):
            assert eventually(
                lambda: running.nodes["b"].on_loop(running.nodes["b"].member.document)["halted"] is not None
            )
            b = running.nodes["b"]
            assert "--replica b --force" in b.on_loop(b.member.document)["halted"]
            assert (b.written(), b.bodies(), b.cuts) == (end, 50, 0)
            running.restart("b")
        assert running.nodes["c"].on_loop(running.nodes["c"].member.document)["halted"] is None
