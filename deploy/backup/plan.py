"""What a backup does next: what of the log is to be uploaded, what a target may forget. Pure.

A tail that grew, and the segment that it belonged to once that is closed, are uploaded anew from the segment's begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ...broker.replication.epochs import EpochList, truncation_point
from .manifest import BackupManifest, Stretch

POINTS_MAX: Final = 32
"""Of one stretch: what a restore may begin with, and so the steps in which the oldest log is forgotten."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A store's log, as it may be uploaded now: [begin, end), confirmed and on the disk."""

    cluster_id: str
    group_id: str
    segment_bytes: int
    promised: int
    epochs: EpochList
    begin: int
    end: int


def refusal(manifest: BackupManifest, facts: SourceFacts) -> str:
    """Why this store's log does not continue that backup, and what to do; "" if it does."""
    other = "name another target, or another --group"
    if facts.cluster_id != manifest.cluster_id:
        return (
            f"it is of the cluster with the id {manifest.cluster_id or '(none)'}, the store is of"
            f" {facts.cluster_id or '(none)'}; {other}"
        )
    if facts.group_id != manifest.group_id:
        return (
            f"it is of the group with the id {manifest.group_id or '(none)'}, the store is of"
            f" {facts.group_id or '(none)'}; {other}"
        )
    if facts.segment_bytes != manifest.segment_bytes:
        return f"its log has files of {manifest.segment_bytes} bytes, the store's of {facts.segment_bytes}; {other}"
    agreed = truncation_point(manifest.epochs, manifest.end, facts.epochs, facts.end)
    common = min(manifest.end, facts.end)
    if manifest.epochs.rows and facts.epochs.rows and common and (agreed is None or agreed < common):
        return (
            f"the logs part at byte {agreed or 0}: an operator has forced an election, or the store is another's. What the"
            f" backup has behind it stays; {other}"
        )
    return ""


def begun_at(manifest: BackupManifest, facts: SourceFacts) -> tuple[BackupManifest, tuple[int, int] | None]:
    """The manifest with a stretch that the log can continue, and the gap before it, if there is one now."""
    newest = manifest.newest
    if newest is None:
        return replace(manifest, stretches=(Stretch(facts.begin),)), None
    if facts.begin <= _next_base(newest, facts.segment_bytes) or facts.end <= newest.end:
        return manifest, None
    kept = manifest.stretches if newest.objects else manifest.stretches[:-1]
    return replace(manifest, stretches=(*kept, Stretch(facts.begin))), (newest.end, facts.begin)


def _next_base(stretch: Stretch, segment_bytes: int) -> int:
    """Where the next object begins."""
    return stretch.end - stretch.end % segment_bytes


def next_ranges(manifest: BackupManifest, facts: SourceFacts, *, with_tail: bool) -> Iterator[tuple[int, int]]:
    """(begin, end) of the objects to be uploaded, oldest first; the tail, a shorter one, last."""
    assert manifest.newest is not None
    at, segment_bytes = _next_base(manifest.newest, facts.segment_bytes), facts.segment_bytes
    while at + segment_bytes <= facts.end:
        yield at, at + segment_bytes
        at += segment_bytes
    if with_tail and at < facts.end and facts.end > manifest.end:
        yield at, facts.end


def point_begin(segment_bytes: int, log_begin: int, reflected: int) -> int:
    """Where a store may begin with state that reflects so much: as far back as the log goes, at a segment's begin."""
    return max(log_begin, reflected - reflected % segment_bytes)


def thinned(stretch: Stretch) -> Stretch:
    """With at most POINTS_MAX points: the first and the newest stay, and of the others those that begin far apart."""
    points = list(stretch.points)
    while len(points) > POINTS_MAX:
        spans = [points[at + 1].begin - points[at - 1].begin for at in range(1, len(points) - 1)]
        del points[1 + spans.index(min(spans))]
    return replace(stretch, points=tuple(points))


def forgotten(
    manifest: BackupManifest, *, now_ms: int, keep_ms: int | None = None, keep_bytes: int | None = None
) -> BackupManifest:
    """What remains: of whole older stretches, and of the newest one's objects before a usable point, go those that are older
    than `keep_ms`, or all beyond `keep_bytes` of log. A newest usable point with the log behind it always stays.
    """
    while True:
        fewer = _without_oldest(manifest)
        if fewer is None:
            return manifest
        gone_ms = _youngest_gone(manifest, fewer)
        is_old = keep_ms is not None and gone_ms <= now_ms - keep_ms
        is_over = keep_bytes is not None and sum(each.size_bytes for each in manifest.stretches) > keep_bytes
        if not (is_old or is_over):
            return manifest
        manifest = fewer


def _without_oldest(manifest: BackupManifest) -> BackupManifest | None:
    """The next smaller manifest from which a store can be restored; None if there is none."""
    if len(manifest.stretches) > 1:
        newest = manifest.stretches[-1]
        return replace(manifest, stretches=manifest.stretches[1:]) if newest.is_restorable else None
    newest_stretch = manifest.newest
    if newest_stretch is None:
        return None
    later = [point for point in newest_stretch.usable_points() if point.begin > newest_stretch.begin]
    if not later:
        return None
    begin = later[0].begin
    kept = Stretch(
        begin,
        tuple(each for each in newest_stretch.objects if each.begin >= begin),
        tuple(point for point in newest_stretch.points if point.begin >= begin),
    )
    return manifest.with_newest(kept)


def _youngest_gone(manifest: BackupManifest, fewer: BackupManifest) -> int:
    """When the youngest of the log that `fewer` lacks was uploaded; 0 if it lacks nothing of it."""
    kept = fewer.object_names()
    gone = [each for stretch in manifest.stretches for each in stretch.objects if each.name not in kept]
    return max((each.uploaded_ms for each in gone), default=0)
