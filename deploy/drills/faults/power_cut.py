"""Simulates a power failure of processes on this machine: unsynced writes vanish from their files.

`power_cut.c` says how they are recorded. A cut: the processes are killed. Of each store's unsynced creations, renames and
unlinks a first part is kept and the rest undone; of each file's unsynced writes likewise, and the first one that is not
kept may be torn at a multiple of 512 bytes. A seed determines how much is kept; half of the time it is nothing. The
processes started afterwards see another boot id, as on a machine that was switched on again.
"""

from __future__ import annotations

import glob
import os
import random
import shutil
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .preloaded import compile_library
from .unsynced_pages import keeps_its_size, pages_taken_back

RECORD: Final = struct.Struct("<QQQQ")
SECTOR_BYTES: Final = 512
BOOT_ID: Final = "boot_id"


@dataclass(frozen=True, slots=True)
class CutReport:
    """The effect of a cut: undone writes (or their parts in a page) and names, of how many unsynced ones."""

    writes_undone: int
    writes_unsynced: int
    names_undone: int
    names_unsynced: int


@dataclass(frozen=True, slots=True)
class PowerCut:
    """The recording library and its log. Created by `prepare`.

    `prefix`: the beginning of the paths of all stores, without symbolic links; other files are ignored.
    """

    prefix: str
    log: str
    library: str

    def environment(self) -> dict[str, str]:
        """The environment for a process whose writes are recorded."""
        return {"LD_PRELOAD": self.library, "ZENIT_CUT_PREFIX": self.prefix, "ZENIT_CUT_LOG": self.log}

    def cut(self, seed: int | None, *, any_pages: bool = False) -> CutReport:
        """Undoes unsynced writes; `seed` None: all of them. The processes that write there must have ended. Raises OSError.

        `any_pages`: of a preallocated file any pages are lost, not only the last written ones.
        """
        chance = None if seed is None else random.Random(seed)
        names_undone, names = self._cut_names(chance)
        writes_undone = writes = 0
        paths = self._paths_by_number()
        for number in sorted({os.path.basename(path).partition(".")[0] for path in self._logs("undo", "old")}):
            records = list(self._records(number))
            kept = _part_kept(chance, len(records))
            torn_bytes = SECTOR_BYTES * chance.randrange(64) if chance else 0
            path = paths.get(number)
            if path is None:
                continue
            writes += len(records)
            if any_pages and chance is not None and keeps_its_size(records, os.path.getsize(path)):
                writes_undone += _write_back(path, pages_taken_back(records, chance))
            else:
                _undo_writes(path, records[kept:], torn_bytes)
                writes_undone += len(records) - kept
        for path in self._logs("undo", "old", "names", "names.old", "kept"):
            os.unlink(path)
        with open(os.path.join(self.log, BOOT_ID), "w", encoding="ascii") as file:
            file.write(f"{uuid.uuid4()}\n")
        return CutReport(writes_undone, writes, names_undone, names)

    def _cut_names(self, chance: random.Random | None) -> tuple[int, int]:
        lines = []
        for path in self._logs("names", "names.old"):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                lines += [line.rstrip("\n").split("\t") for line in file]
        lines.sort(key=lambda line: tuple(map(int, line[0].split("."))))
        kept = _part_kept(chance, len(lines))
        for _, kind, before, path, grave in reversed(lines[kept:]):
            _undo_name(kind, before, path, grave)
        return len(lines) - kept, len(lines)

    def _logs(self, *kinds: str) -> list[str]:
        return [path for kind in kinds for path in glob.glob(os.path.join(glob.escape(self.log), f"*.{kind}"))]

    def _paths_by_number(self) -> dict[str, str]:
        """{"device-inode": path} of every file in directories whose path begins with the prefix."""
        paths = {}
        for directory in glob.glob(f"{glob.escape(self.prefix)}*"):
            for folder, _, names in os.walk(directory):
                for name in names:
                    path = os.path.join(folder, name)
                    facts = os.lstat(path)
                    paths[f"{facts.st_dev}-{facts.st_ino}"] = path
        return paths

    def _records(self, number: str) -> Iterator[tuple[int, int, int, bytes]]:
        """(offset, length, size before, old bytes) of a file's unsynced writes, oldest first."""
        for kind in ("old", "undo"):
            try:
                with open(os.path.join(self.log, f"{number}.{kind}"), "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
            at = 0
            while at + RECORD.size <= len(data):
                offset, length, size_bytes, held = RECORD.unpack_from(data, at)
                at += RECORD.size
                yield offset, length, size_bytes, data[at : at + held]
                at += held


def prepare(prefix: str, log: str) -> PowerCut:
    """Compiles the library into `log`, a directory on the file system of the stores, not beginning with `prefix`.

    Raises what `compile_library` raises.
    """
    folder, name = os.path.split(os.path.abspath(prefix))
    os.makedirs(folder, exist_ok=True)
    library = compile_library("power_cut.c", log)
    return PowerCut(os.path.join(os.path.realpath(folder), name), os.path.realpath(log), library)


def _part_kept(chance: random.Random | None, count: int) -> int:
    """How many of the oldest `count` changes survive the cut."""
    return 0 if chance is None or chance.random() < 0.5 else chance.randint(0, count)


def _undo_name(kind: str, before: str, path: str, grave: str) -> None:
    """Undoes one change of a name. If a sync of another directory has made it durable, it stays."""
    is_there = os.path.lexists(path)
    if kind == "removed":
        if not is_there and os.path.isdir(os.path.dirname(path)):
            os.mkdir(path)
        return
    if not os.path.isdir(os.path.dirname(path)) or (not is_there and kind != "unlinked"):
        return
    if kind == "created":
        os.unlink(path)
    if kind == "made":
        shutil.rmtree(path)
    if kind == "renamed" and os.path.isdir(os.path.dirname(before)):
        os.rename(path, before)
    if grave != "-":
        os.rename(grave, path)


def _write_back(path: str, pieces: list[tuple[int, bytes]]) -> int:
    with open(path, "r+b", buffering=0) as file:
        for offset, data in pieces:
            os.pwrite(file.fileno(), data, offset)
    return len(pieces)


def _undo_writes(path: str, records: list[tuple[int, int, int, bytes]], torn_bytes: int) -> None:
    """Undoes writes, newest first; the first `torn_bytes` of the oldest one stay, if it is longer."""
    with open(path, "r+b", buffering=0) as file:
        for number, (offset, length, size_bytes, old) in reversed(list(enumerate(records))):
            held = min(length, max(0, size_bytes - offset))
            left = torn_bytes if number == 0 and torn_bytes < length else 0
            end = os.fstat(file.fileno()).st_size
            os.ftruncate(file.fileno(), max(size_bytes, min(offset + left, end)) if left else size_bytes)
            if held > left:
                whole = old or bytes(held)
                os.pwrite(file.fileno(), whole[left:held], offset + left)
