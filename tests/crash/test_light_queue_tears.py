"""A log that was torn or whose power was cut: its light queues are those that the log alone would give."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from store_kit import kill, light, make_store, message, persist, put, read_queue, tear_places

from zenitmq.store.message_store import MessageStore

A, B = "%LMQ%a", "%LMQ%b"


def content(store: MessageStore) -> dict[str, list[tuple[int, bytes]]]:
    return {name: [(m.queue_offset, m.body) for m in read_queue(store, name, 0)] for name in (A, B)}


def expected(store: MessageStore) -> dict[str, list[tuple[int, bytes]]]:
    """By the records that the log has."""
    found: dict[str, list[tuple[int, bytes]]] = {A: [], B: []}
    for m in sorted(
        (m for queue_id in range(2) for m in read_queue(store, "t", queue_id)), key=lambda m: m.physical_offset
    ):
        names = m.properties.get("INNER_MULTI_DISPATCH", "")
        for name in names.split(",") if names else ():
            found[name].append((len(found[name]), m.body))
    return found


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("other_boot", "are_queues_ahead"), [(False, False), (True, False), (True, True)])
def test_units_of_records_that_are_gone_are_gone(tmp_path: Path, other_boot: bool, are_queues_ahead: bool) -> None:
    """Wherever the log was torn; its queues had all units, as after a loss of power, or those of what was before."""
    with make_store(tmp_path / "s") as store:
        for number in range(8):
            put(store, "t", number % 2, light("t", b"%d" % number, *([A, B] if number % 3 else [B])))
        persist(store, 1)
        begin = store.written
        queues = shutil.copytree(tmp_path / "s" / "consumequeue", tmp_path / "queues")
        put(store, "t", 0, light("t", b"8", A), message("t", b"x"), light("t", b"9", B, A))
        end = store.written
        left = kill(tmp_path / "s", tmp_path / "left")
    log = (left / "commitlog" / ("0" * 20)).read_bytes()
    for number, place in enumerate(tear_places(log, begin, end)):
        torn = shutil.copytree(left, tmp_path / f"torn{number}")
        (torn / "commitlog" / ("0" * 20)).write_bytes(log[:place].ljust(len(log), b"\0"))
        if not are_queues_ahead:
            shutil.rmtree(torn / "consumequeue")
            shutil.copytree(queues, torn / "consumequeue")
        if other_boot:
            (torn / "abort").write_text("7\nanother boot\n")
        with make_store(torn) as store:
            assert content(store) == expected(store)
            assert len(content(store)[B]) in (8, 9)
            put(store, "t", 1, light("t", b"new", A, B))
            assert content(store) == expected(store)
        os.rename(torn, tmp_path / "last")
        shutil.rmtree(tmp_path / "last")
