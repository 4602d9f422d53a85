"""Half messages that were just stored are kept decoded, within bounds, and only as long as the log surely has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_kit import StillClock
from transaction_kit import BROKER, Scene, plain

from zenitmq.broker.transaction import half_cache
from zenitmq.broker.transaction.half_records import half_record
from zenitmq.model.handles.transaction import Resolution, TransactionId

BLOCK = 16


def send_block(scene: Scene, number: int) -> list[TransactionId]:
    """Half messages of 1 KiB that are one block of the log."""
    names = [f"A{number}-{index}" for index in range(BLOCK)]
    records = [half_record(plain(bytes(1024), name), "t", 2, "g", 8) for name in names]
    places = scene.transactions.stage_halves(records, [], block_bytes=1 << 20, flags=0)
    scene.store.commit()
    return [TransactionId(BROKER, "t", place.physical_offset, name) for place, name in zip(places, names, strict=True)]


def test_the_block_of_one_that_nobody_decides_counts_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_cache, "RECENT_BYTES_MAX", 4 * BLOCK * 1536)
    with Scene(tmp_path, StillClock(), segment_bytes=1 << 20) as scene:
        recent = scene.transactions._recent
        undecided = []
        for number in range(20):
            first, *others = send_block(scene, number)
            undecided.append(first)
            for which in others:
                scene.end(which)
        blocks = {id(block): block.size_bytes for _, block in recent._found.values()}
        assert sum(blocks.values()) == recent._size_bytes <= 4 * BLOCK * 1536
        assert 4 <= len(recent._found) <= 6, "the latest are kept"
        for which in undecided:
            scene.end(which)
        assert not scene.waiting
        assert not recent._found
        assert not recent._size_bytes


def test_no_more_are_kept_than_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_cache, "RECENT_MAX", BLOCK + 3)
    with Scene(tmp_path, StillClock(), segment_bytes=1 << 20) as scene:
        sent = [which for number in range(3) for which in send_block(scene, number)]
        assert len(scene.transactions._recent._found) == BLOCK + 3
        for which in sent:
            scene.end(which, Resolution.ROLLBACK)
        assert not scene.waiting


def test_who_does_not_lead_keeps_none_and_who_is_deposed_forgets_them(tmp_path: Path) -> None:
    with Scene(tmp_path, StillClock(), segment_bytes=1 << 20) as scene:
        send_block(scene, 0)
        scene.leads = False
        scene.transactions.on_deposed()
        recent = scene.transactions._recent
        assert not recent._found
        assert not recent._size_bytes
        send_block(scene, 1)
        assert not recent._found
