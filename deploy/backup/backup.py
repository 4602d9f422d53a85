"""One process that backs up one store: what is new goes up, and then the manifest says so.

    object uploaded, whole -> manifest that names it -> what it replaces is deleted

A crash between any two of these leaves a manifest that is true, and at worst an object that nobody names: a later run deletes
it once it is a day old. The next run goes on where the manifest ends. A manifest that somebody else has changed meanwhile is
not replaced (BackupConflict).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...broker.replication.epochs import EpochList
from ...model.clock import now_ms
from ...model.errors import BackupRefused, StoreFormatError
from ...model.events.table import BACKUP_GAP, BACKUP_HELD_BY_DAMAGE
from ...model.events.telling import tell
from .log_source import SAMPLE_BYTES, BackupSource, DamageFound, SegmentGone
from .manifest import MANIFEST, MANIFEST_BYTES_MAX, BackupManifest, StatePoint, decode_manifest
from .plan import SourceFacts, begun_at, forgotten, next_ranges, refusal, thinned
from .target import BackupTarget
from .uploads import BackupFigures, Uploads, compacted_names, read_point
from .verify import find_damage

log = logging.getLogger(__name__)

FOLDERS: Final = ("log/", "state/", "compacted/")
TRIES_MAX: Final = 1_000
"""Of one run: each is another segment that retention has deleted, or another damaged one."""
UNNAMED_MS: Final = 24 * 3_600_000
"""How old an object must be that no manifest names before it is deleted: longer than an upload takes."""

Report = Callable[[int, int], None]
"""Told (bytes of the log uploaded, of how many)."""


def ignore_progress(_done: int, _total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRules:
    """`keep_ms`, `keep_bytes`: what the target keeps of the log, None = all. `point_ms`: how often the state is uploaded.
    `is_past_damage`: leave out a segment that is damaged. `is_mending`: upload anew what the target has lost."""

    keep_ms: int | None = None
    keep_bytes: int | None = None
    point_ms: int = 6 * 3_600_000
    is_past_damage: bool = False
    is_mending: bool = False


class Backup:
    """The backup of one store in a target, under the name of its group. One thread."""

    def __init__(self, source: BackupSource, target: BackupTarget, group: str, rules: BackupRules) -> None:
        self._source = source
        self._target = target
        self._prefix = f"{group}/"
        self._group = group
        self._rules = rules
        self._where = f"{target.name}: group {group}"
        self._manifest: BackupManifest | None = None
        self._version: str | None = None
        self._swept_ms = 0
        self.figures = BackupFigures()
        self._uploads = Uploads(source, target, self._prefix, self.figures)

    def run(self, *, with_tail: bool, report: Report = ignore_progress) -> BackupFigures:
        """Uploads what is new, up to a tail if that is wanted, and forgets what is too old.

        Raises BackupRefused (this log does not continue that backup), BackupConflict, BackupTargetFailed, BackupDamaged,
        StoreFormatError, OSError. After any of these it may be called again.
        """
        try:
            return self._run(with_tail=with_tail, report=report)
        except BaseException:
            self._manifest = None  # what the target has is read again
            raise

    def _run(self, *, with_tail: bool, report: Report) -> BackupFigures:
        facts = self._source.look()
        manifest = self._begun(facts)
        self.figures.stopped_at = None
        for _ in range(TRIES_MAX):
            try:
                manifest = self._with_point(manifest, facts)
                return self._ended(self._uploaded(manifest, facts, with_tail=with_tail, report=report), facts)
            except SegmentGone:
                facts = self._source.look()
            except DamageFound as damage:
                facts = self._held_up(damage, facts)
            assert self._manifest is not None
            manifest = self._continued(self._manifest, facts)
        raise StoreFormatError(
            self._source.directory, "its files go as fast as they are read; raise store.retention_ms"
        )

    def _ended(self, manifest: BackupManifest, facts: SourceFacts) -> BackupFigures:
        manifest = self._without_old(manifest)
        self._sweep(manifest)
        figures = self.figures
        figures.end, figures.ended_ms = manifest.end, now_ms()
        figures.lag_bytes = max(0, facts.end - manifest.end)
        return figures

    # ---- the manifest

    def _begun(self, facts: SourceFacts) -> BackupManifest:
        """The manifest, checked against the store; a new one where there is none."""
        if self._manifest is None:
            found = self._target.read(self._prefix + MANIFEST)
            self._version = None if found is None else found[1]
            if found is None:
                self._manifest = BackupManifest(facts.cluster_id, self._group, facts.group_id, facts.segment_bytes)
            else:
                self._manifest = decode_manifest(found[0], self._where, self._group)
                damaged = self._damaged(self._manifest) if self._rules.is_mending else frozenset()
                self._check_lineage(self._manifest, facts, damaged)
                if damaged:
                    self._mend(self._manifest, facts, damaged)
        elif why := refusal(self._manifest, facts):
            raise BackupRefused(self._where, why)
        return self._continued(self._manifest, facts)

    def _check_lineage(self, manifest: BackupManifest, facts: SourceFacts, damaged: frozenset[str]) -> None:
        """The store continues that backup: by its names and epochs, and as the last bytes that both have are equal: brokers
        alone all count their epochs from 1 on. `damaged`: objects that tell nothing. Raises BackupRefused."""
        if why := refusal(manifest, facts):
            raise BackupRefused(self._where, why)
        common = min(manifest.end, facts.end)
        objects = () if manifest.newest is None else manifest.newest.objects
        last = next((each for each in reversed(objects) if each.begin < common and each.name not in damaged), None)
        if last is None:
            return
        end = min(common, last.begin + last.size_bytes)
        begin = max(last.begin, end - SAMPLE_BYTES)
        ours = self._source.sample(begin, end)
        if ours is None or ours == self._target.get(self._prefix + last.name, begin - last.begin, end - last.begin):
            return
        raise BackupRefused(
            self._where,
            f"its bytes {begin} to {end} of the log are not the store's: it is another store's, or one of the two is damaged"
            " (zenit backup verify, zenit store verify); name another target, or another --group",
        )

    def _continued(self, manifest: BackupManifest, facts: SourceFacts) -> BackupManifest:
        """With a stretch that this log continues; tells what was lost before it."""
        manifest, gap = begun_at(manifest, facts)
        if gap is not None:
            manifest = self._put_manifest(manifest, facts)
            self.figures.gaps.append(gap)
            self.figures.missed_bytes += gap[1] - gap[0]
            tell(log, BACKUP_GAP, group=self._group, target=self._target.name, begin=gap[0], end=gap[1])
        return manifest

    def _put_manifest(self, manifest: BackupManifest, facts: SourceFacts | None = None) -> BackupManifest:
        """Replaces it in the target. Raises BackupConflict."""
        if facts is not None and facts.epochs.rows and facts.end >= manifest.end:
            first = facts.epochs.rows[0].number  # a replica drops the rows of epochs whose bytes are gone
            older = (row for row in manifest.epochs.rows if row.number < first)
            epochs = EpochList((*older, *facts.epochs.rows))
            manifest = replace(manifest, epochs=epochs, promised=max(manifest.promised, facts.promised))
        manifest = replace(manifest, sequence=manifest.sequence + 1, written_ms=now_ms())
        data = manifest.encode()
        if len(data) > MANIFEST_BYTES_MAX:
            raise BackupRefused(
                self._where, "the manifest is full; keep fewer days (--keep-days), or use larger segments"
            )
        self._version = self._target.replace(self._prefix + MANIFEST, data, self._version)
        self._manifest = manifest
        return manifest

    # ---- what goes up

    def _uploaded(
        self, manifest: BackupManifest, facts: SourceFacts, *, with_tail: bool, report: Report
    ) -> BackupManifest:
        """Raises SegmentGone, DamageFound."""
        first, total = manifest.end, max(0, facts.end - manifest.end)
        for begin, end in next_ranges(manifest, facts, with_tail=with_tail):
            stretch = manifest.newest
            assert stretch is not None
            tail = next((each for each in stretch.objects if each.begin == begin), None)
            made = self._uploads.put_log(begin, end, facts, partial(_report_from, report, begin - first, total))
            objects = (*(each for each in stretch.objects if each is not tail), made)
            manifest = self._put_manifest(manifest.with_newest(replace(stretch, objects=objects)), facts)
            self.figures.end = end
            self.figures.lag_bytes = max(0, facts.end - end)
            if tail is not None:
                self._uploads.delete([tail.name])
        return manifest

    def _held_up(self, damage: DamageFound, facts: SourceFacts) -> SourceFacts:
        """The facts as if the log ended before its damage or, if that is wanted, began behind the damaged segment."""
        held = min(facts.end, damage.begin)
        manifest = self._manifest
        assert manifest is not None
        behind = -(-damage.end // facts.segment_bytes) * facts.segment_bytes
        if self._rules.is_past_damage and manifest.end >= held and behind <= facts.end:
            return replace(facts, begin=behind)
        self.figures.stopped_at = held
        tell(
            log,
            BACKUP_HELD_BY_DAMAGE,
            group=self._group,
            directory=self._source.directory,
            begin=damage.begin,
            end=damage.end,
        )
        return replace(facts, end=max(facts.begin, held))

    def _with_point(self, manifest: BackupManifest, facts: SourceFacts) -> BackupManifest:
        """With a state point, if one is due and a store could begin there."""
        stretch = manifest.newest
        assert stretch is not None
        newest = stretch.points[-1] if stretch.points else None
        if newest is not None and now_ms() < newest.taken_ms + self._rules.point_ms:
            return manifest
        made = self._uploads.put_state(manifest, facts, is_first=newest is None)
        if made is None:
            return manifest
        points = stretch.points
        if newest is not None and made.begin <= newest.begin and len(points) > 1:
            points = points[:-1]  # the newer one says more
        stretch = thinned(replace(stretch, points=(*points, made)))
        return self._put_manifest(manifest.with_newest(stretch), facts)

    # ---- what is no longer needed

    def _without_old(self, manifest: BackupManifest) -> BackupManifest:
        rules = self._rules
        kept = forgotten(manifest, now_ms=now_ms(), keep_ms=rules.keep_ms, keep_bytes=rules.keep_bytes)
        if kept is manifest:
            return manifest
        compacted = compacted_names(self._target, self._prefix, manifest)
        compacted -= compacted_names(self._target, self._prefix, kept)
        gone = manifest.object_names() - kept.object_names()
        kept = self._put_manifest(kept)
        self._uploads.delete(sorted(gone | compacted))
        return kept

    def _sweep(self, manifest: BackupManifest) -> None:
        """Once a day: deletes what a crash has left, and nobody names."""
        now = now_ms()
        if now < self._swept_ms + UNNAMED_MS:
            return
        named = manifest.object_names() | compacted_names(self._target, self._prefix, manifest)
        for folder in FOLDERS:
            found = self._target.list(self._prefix + folder)
            old = (each.name.removeprefix(self._prefix) for each in found if each.modified_ms < now - UNNAMED_MS)
            self._uploads.delete(sorted(set(old) - named))
        self._swept_ms = now

    # ---- what the target has lost

    def _damaged(self, manifest: BackupManifest) -> frozenset[str]:
        """The objects that are damaged or missing in the target."""
        return frozenset(each.name for each in find_damage(self._target, self._prefix, manifest))

    def _mend(self, manifest: BackupManifest, facts: SourceFacts, damaged: frozenset[str]) -> None:
        """Uploads anew what of the log is damaged in the target, and the store still has. Drops the points of which something
        is: what a later point would take over from them is uploaded once more."""
        stretches = tuple(
            replace(stretch, points=tuple(point for point in stretch.points if self._is_whole(point, damaged)))
            for stretch in manifest.stretches
        )
        if stretches != manifest.stretches:
            manifest = self._put_manifest(replace(manifest, stretches=stretches))
        for each in [found for stretch in stretches for found in stretch.objects]:
            if each.name in damaged and facts.begin <= each.begin and each.end <= facts.end:
                try:
                    made = self._uploads.put_log(each.begin, each.end, facts, lambda _size: None)
                except (SegmentGone, DamageFound):
                    continue  # the store no longer has it either
                manifest = self._put_manifest(manifest.with_object(each, made))
                self._uploads.delete([each.name])

    def _is_whole(self, point: StatePoint, damaged: frozenset[str]) -> bool:
        """Neither the point nor a compacted file that it names is damaged."""
        if point.name in damaged:
            return False
        queues = read_point(self._target, self._prefix, point).compacted
        return not any(each.name in damaged for queue in queues for each in queue.objects)


def _report_from(report: Report, done: int, total: int, size_bytes: int) -> None:
    report(min(max(0, done) + size_bytes, total), total)
