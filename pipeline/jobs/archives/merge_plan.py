"""Decides which small files of an archive are merged. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .manifest import ArchivedFile


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one topic and day that are merged into one."""

    topic: str
    date: str
    files: tuple[ArchivedFile, ...]

    @property
    def rows(self) -> int:
        """The number of messages."""
        return sum(file.rows for file in self.files)

    def queues(self) -> list[tuple[str, int]]:
        """(broker, queue id) of its queues, in the order of a file."""
        return sorted({(each.broker, each.queue_id) for file in self.files for each in file.ranges})

    def of_queue(self, broker: str, queue_id: int) -> list[ArchivedFile]:
        """The files with messages of a queue, by their first offset of it."""
        begins = {}
        for file in self.files:
            found = [each.begin for each in file.ranges if (each.broker, each.queue_id) == (broker, queue_id)]
            if found:
                begins[file.path] = (min(found), file)
        return [file for _, file in sorted(begins.values(), key=lambda each: each[0])]


def merges(files: Iterable[ArchivedFile], *, before: str, target_bytes: int) -> list[Merge]:
    """The merges for days before `before` (2026-11-21).

    Files below half of the target, in the order of their messages, as many as together reach the target; a single file is
    not merged.
    """
    small: dict[tuple[str, str], list[ArchivedFile]] = {}
    for file in files:
        if file.date < before and file.size_bytes * 2 < target_bytes:
            small.setdefault((file.topic, file.date), []).append(file)
    found = []
    for (topic, date), listed in sorted(small.items()):
        group: list[ArchivedFile] = []
        for file in sorted(listed, key=lambda each: (each.stored_from_ms, each.path)):
            group.append(file)
            if sum(each.size_bytes for each in group) >= target_bytes:
                found.append(Merge(topic, date, tuple(group)))
                group = []
        if group:
            found.append(Merge(topic, date, tuple(group)))
    return [merge for merge in found if len(merge.files) > 1]
