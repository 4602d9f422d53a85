"""`config/zenitScrub.json`, byte by byte: what the page shows is what is written and read."""

from __future__ import annotations

from pathlib import Path

from zenitmq.store.integrity.scrub_plan import ScrubPlan, ScrubRound
from zenitmq.store.opening.snapshot import parse_snapshot, write_snapshot

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "scrub.md"
ENTRY = "checksum/00000000000000000000 entry 1"
LAST = ScrubRound(2000, 0, 4096, 4096, True, 4000, 3900, 1, 200, 2, 3000, "", 2, 1, ENTRY)


def plan(document: dict[str, object], *, now_ms: int = 1000) -> ScrubPlan:
    return ScrubPlan(document, bytes_per_second=1, interval_ms=1, now_ms=now_ms)


def test_the_file_is_these_bytes(tmp_path) -> None:
    shown = PAGE.read_text(encoding="utf-8").split("```\n")[1].rstrip("\n")
    first = plan({})
    first.last = LAST
    write_snapshot(str(tmp_path / "f"), first.document(), 0)
    assert (tmp_path / "f").read_text() == shown
    snapshot = parse_snapshot(shown)
    assert snapshot is not None
    assert plan(snapshot.document, now_ms=LAST.ended_ms).last == LAST
