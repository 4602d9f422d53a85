"""A backup that goes on: segments as they close, what fails is told and tried again, what an operator must solve ends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backup_kit import GROUP, FailingTarget, back_up, backup_of, bodies_of, grow, restored

from zenitmq.deploy.backup import following as module
from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.deploy.backup.following import NOTHING_YET, Following
from zenitmq.model.errors import BackupConflict, BackupTargetFailed
from zenitmq.model.events.telling import kept_by


class Clock:
    """Passes only while `Following` waits; does each piece of work when its time has come."""

    def __init__(self) -> None:
        self.ms = 1_000
        self.work: list[tuple[int, Callable[[], object]]] = []

    def monotonic_ms(self) -> int:
        return self.ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.ms += duration_ms
        while self.work and self.work[0][0] <= self.ms:
            self.work.pop(0)[1]()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic_ms", clock.monotonic_ms)
    monkeypatch.setattr(module, "sleep_ms", clock.sleep_ms)
    return clock


def following_of(store: Path, target: Any) -> Following:
    return Following(backup_of(store, target), cluster="c", group=GROUP, target="t", tail_ms=60_000)


def value_of(following: Following, name: str) -> float:
    ((_, number),) = next(samples for family, samples in following.readings() if family.name == name)
    return float(number)  # type: ignore[arg-type]


def test_closed_segments_go_up_within_a_second_and_the_tail_later(tmp_path: Path, clock: Clock) -> None:
    store, place = tmp_path / "store", tmp_path / "target"
    place.mkdir()
    grow(store, 5)
    following = following_of(store, DirectoryTarget(str(place)))
    assert following.readiness().reasons == (NOTHING_YET,)
    ends: list[float] = []
    clock.work = [
        (3_000, lambda: ends.append(value_of(following, "zenit_backup_end_offset"))),  # the tail of the begin
        (3_000, lambda: grow(store, 20, first=5)),
        (6_000, lambda: ends.append(value_of(following, "zenit_backup_end_offset"))),
        (80_000, lambda: ends.append(value_of(following, "zenit_backup_end_offset"))),
        (80_000, lambda: grow(store, 1, first=25)),
        (82_000, following.stop),
    ]
    following.run()
    assert 0 < ends[0] < 4096
    assert ends[1] == 2 * 4096
    assert ends[2] > 2 * 4096
    assert value_of(following, "zenit_backup_lag_bytes") == 0
    assert following.readiness().is_ready
    restored(place, tmp_path / "made")
    assert len(bodies_of(tmp_path / "made")) == 26  # what was written last went up at the end


def test_what_fails_is_told_and_tried_again(tmp_path: Path, clock: Clock) -> None:
    store, place = tmp_path / "store", tmp_path / "target"
    place.mkdir()
    grow(store, 20)
    target = FailingTarget(DirectoryTarget(str(place)), lambda: BackupTargetFailed("t", "no route"))
    target.at = 2
    following = following_of(store, target)
    told: list[str] = []
    clock.work = [(20_000, following.stop)]
    with kept_by(lambda event: told.append(event.kind.name)):
        following.run()
    assert told == ["backup_failed"]
    assert value_of(following, "zenit_backup_failed_total") == 1
    assert value_of(following, "zenit_backup_lag_bytes") == 0


def test_a_second_writer_ends_it(tmp_path: Path, clock: Clock) -> None:
    store, place = tmp_path / "store", tmp_path / "target"
    place.mkdir()
    grow(store, 5)
    following = following_of(store, DirectoryTarget(str(place)))

    def other_writes() -> None:
        grow(store, 20, first=5)
        back_up(store, place)
        grow(store, 20, first=25)

    clock.work = [(3_000, other_writes), (9_000, following.stop)]
    with pytest.raises(BackupConflict):
        following.run()
