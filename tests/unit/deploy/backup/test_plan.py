"""What is uploaded next, what does not belong together, and what a target may forget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from zenitmq.broker.replication.epochs import EpochList
from zenitmq.deploy.backup.manifest import BackupManifest, LogObject, StatePoint, Stretch
from zenitmq.deploy.backup.plan import (
    POINTS_MAX,
    SourceFacts,
    begun_at,
    forgotten,
    next_ranges,
    point_begin,
    refusal,
    thinned,
)

SEGMENT = 100
FACTS = SourceFacts("cluster", "group", SEGMENT, 2, EpochList.of([(1, 0), (2, 150)]), 0, 350)
EMPTY = BackupManifest("cluster", "a", "group", SEGMENT)


def uploaded(begin: int, end: int, at_ms: int = 0) -> LogObject:
    return LogObject(f"log/{begin}-1-{end}", begin, end, min(end - begin, 90), "a" * 64, 1, at_ms)


def point(begin: int, needs_end: int | None = None) -> StatePoint:
    return StatePoint(f"state/{begin}-1-a", begin, begin if needs_end is None else needs_end, 10, "a" * 64, 0)


def of(*stretches: Stretch, epochs: EpochList = FACTS.epochs) -> BackupManifest:
    return replace(EMPTY, stretches=stretches, epochs=epochs)


def ranges(manifest: BackupManifest, facts: SourceFacts = FACTS, *, with_tail: bool = True) -> list[tuple[int, int]]:
    return list(next_ranges(manifest, facts, with_tail=with_tail))


class TestRanges:
    def test_closed_segments_then_the_tail(self) -> None:
        begun, gap = begun_at(EMPTY, FACTS)
        assert gap is None
        assert ranges(begun) == [(0, 100), (100, 200), (200, 300), (300, 350)]
        assert ranges(begun, with_tail=False) == [(0, 100), (100, 200), (200, 300)]

    def test_a_tail_is_uploaded_anew_from_its_segments_begin(self) -> None:
        manifest = of(Stretch(0, (uploaded(0, 100), uploaded(100, 130))))
        assert ranges(manifest) == [(100, 200), (200, 300), (300, 350)]
        assert ranges(of(Stretch(300, (uploaded(300, 340),)))) == [(300, 350)]

    def test_nothing_new(self) -> None:
        assert ranges(of(Stretch(300, (uploaded(300, 350),)))) == []
        assert ranges(of(Stretch(300, (uploaded(300, 400),)))) == []  # the store is behind


class TestGaps:
    def test_retention_was_faster(self) -> None:
        manifest = of(Stretch(0, (uploaded(0, 100), uploaded(100, 130))))
        begun, gap = begun_at(manifest, replace(FACTS, begin=200))
        assert gap == (130, 200)
        assert [stretch.begin for stretch in begun.stretches] == [0, 200]
        assert ranges(begun, replace(FACTS, begin=200)) == [(200, 300), (300, 350)]

    def test_what_is_still_there_is_no_gap(self) -> None:
        manifest = of(Stretch(0, (uploaded(0, 100), uploaded(100, 130))))
        assert begun_at(manifest, replace(FACTS, begin=100)) == (manifest, None)
        assert begun_at(of(Stretch(0, (uploaded(0, 100),))), replace(FACTS, begin=100))[1] is None

    def test_a_store_that_is_behind_makes_none(self) -> None:
        manifest = of(Stretch(0, (uploaded(0, 100),)))
        assert begun_at(manifest, replace(FACTS, begin=0, end=50)) == (manifest, None)

    def test_a_stretch_without_log_is_replaced(self) -> None:
        begun, gap = begun_at(of(Stretch(0)), replace(FACTS, begin=200))
        assert (begun.stretches, gap) == ((Stretch(200),), (0, 200))


class TestLineage:
    MANIFEST = of(Stretch(0, (uploaded(0, 100), uploaded(100, 200), uploaded(200, 300))))

    def test_the_same_log_goes_on(self) -> None:
        assert refusal(self.MANIFEST, FACTS) == ""
        assert refusal(EMPTY, FACTS) == ""
        later = EpochList.of([(1, 0), (2, 150), (5, 340)])
        assert refusal(self.MANIFEST, replace(FACTS, epochs=later)) == ""

    def test_a_replica_that_is_behind_is_the_same_log(self) -> None:
        assert refusal(self.MANIFEST, replace(FACTS, end=120, epochs=EpochList.of([(1, 0)]))) == ""

    def test_a_replica_that_has_dropped_old_rows(self) -> None:
        assert refusal(self.MANIFEST, replace(FACTS, begin=200, epochs=EpochList.of([(2, 150)]))) == ""

    @pytest.mark.parametrize(
        ("facts", "said"),
        [
            (replace(FACTS, cluster_id="other"), "cluster with the id cluster, the store is of other"),
            (replace(FACTS, group_id=""), r"group with the id group, the store is of \(none\)"),
            (replace(FACTS, segment_bytes=50), "files of 100 bytes, the store's of 50"),
            (replace(FACTS, epochs=EpochList.of([(1, 0), (3, 150)])), "part at byte 150"),
            (replace(FACTS, epochs=EpochList.of([(1, 0), (2, 120)])), "part at byte 120"),
            (replace(FACTS, epochs=EpochList.of([(7, 0)])), "part at byte 0"),
        ],
    )
    def test_another_log_is_refused(self, facts: SourceFacts, said: str) -> None:
        why = refusal(self.MANIFEST, facts)
        assert said.replace("\\", "") in why
        assert "name another target" in why


class TestForgetting:
    STRETCH = Stretch(
        0,
        tuple(uploaded(begin, begin + 100, begin) for begin in range(0, 500, 100)),
        (point(0), point(200), point(400, 450), point(400, 9000)),
    )

    def test_all_stays_without_a_rule(self) -> None:
        assert forgotten(of(self.STRETCH), now_ms=1 << 50) == of(self.STRETCH)

    def test_by_age_up_to_a_point(self) -> None:
        kept = forgotten(of(self.STRETCH), now_ms=1050, keep_ms=1000).newest
        assert kept is not None
        assert kept.begin == 0  # what is before the next point is not all so old
        kept = forgotten(of(self.STRETCH), now_ms=1150, keep_ms=1000).newest
        assert kept is not None
        assert (kept.begin, [each.begin for each in kept.objects]) == (200, [200, 300, 400])
        assert [each.begin for each in kept.points] == [200, 400, 400]

    def test_the_newest_usable_point_stays(self) -> None:
        kept = forgotten(of(self.STRETCH), now_ms=1 << 50, keep_ms=0, keep_bytes=0).newest
        assert kept is not None
        assert kept.begin == 400

    def test_by_size(self) -> None:
        kept = forgotten(of(self.STRETCH), now_ms=0, keep_bytes=300).newest
        assert kept is not None
        assert kept.begin == 200

    def test_a_stretch_before_a_gap_goes_only_if_a_store_can_begin_behind_it(self) -> None:
        old = Stretch(0, (uploaded(0, 100),), (point(0),))
        kept = forgotten(of(old, replace(self.STRETCH, begin=200)), now_ms=1 << 50, keep_ms=1)
        assert len(kept.stretches) == 1
        without = of(old, Stretch(200, (uploaded(200, 300),), ()))
        assert forgotten(without, now_ms=1 << 50, keep_ms=1) == without


def test_points_are_thinned_evenly() -> None:
    stretch = Stretch(0, (), tuple(point(begin) for begin in range(0, 100 * (POINTS_MAX + 8), 100)))
    kept = thinned(stretch).points
    assert len(kept) == POINTS_MAX
    assert (kept[0], kept[-1]) == (stretch.points[0], stretch.points[-1])
    assert max(b.begin - a.begin for a, b in pairwise(kept)) <= 200


def test_a_store_begins_at_a_segment() -> None:
    assert point_begin(100, 0, 250) == 200
    assert point_begin(100, 300, 250) == 300
