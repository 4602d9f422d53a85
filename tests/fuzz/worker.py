"""The process that fuzzes: target after target in slices of time, until its time is over or AddressSanitizer ends it.

The case at hand lies in a file that the parent maps too (`Desk`), so that it is known of whatever ends the process. What a
check raises that its target does not name, or how it breaks a bound, is written down as a failure, and the run goes on.

    bounds of one case    CPU_S of CPU time, RSS_MIB more memory than ever before, asan_kernels.ALLOCATION_MIB for one block;
                          after HANG_S of CPU time in one case the kernel ends the process
"""

from __future__ import annotations

import argparse
import json
import logging
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from random import Random

from . import asan_kernels
from .target import CASE_BYTES_MAX, Case, Target, made_case

CPU_S = 2.0
HANG_S = 30.0
RSS_MIB = 96
SLICE_S = 0.25
SLICE_CASES = 3  # however slow they are
TELL_S = 10.0
SAME_FAILURES_MAX = 3  # cases kept of one place in the code
_HEAD = struct.Struct(">QI")
DESK_BYTES = _HEAD.size + CASE_BYTES_MAX + 1024


class Desk:
    """A mapped file: how many cases were begun, and the one at hand."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), DESK_BYTES)
        self.begun = _HEAD.unpack_from(self._map)[0]

    @staticmethod
    def make(path: Path) -> Desk:
        """An empty one."""
        path.write_bytes(bytes(DESK_BYTES))
        return Desk(str(path))

    def put(self, case: Case) -> None:
        """This case is about to be checked."""
        content = case.encode()
        self.begun += 1
        self._map[_HEAD.size : _HEAD.size + len(content)] = content
        _HEAD.pack_into(self._map, 0, self.begun, len(content))

    def look(self) -> tuple[int, Case | None]:
        """(cases begun, the one at hand); what the parent sees."""
        begun, size = _HEAD.unpack_from(self._map)
        return begun, Case.decode(bytes(self._map[_HEAD.size : _HEAD.size + size])) if size else None


class Failed(Exception):
    """A case breaks a bound. Args: which."""


def check(target: Target, case: Case) -> bool:
    """Whether it was decoded; False: refused by a typed error. Raises what it should not have, or Failed."""
    cpu_s, rss_kib = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, HANG_S)  # nobody handles it: it ends the process
    try:
        target.check(case.data, Random(case.number))
        is_decoded = True
    except target.errors:
        is_decoded = False
    took_s = time.process_time() - cpu_s
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_kib
    if took_s > CPU_S:
        raise Failed(f"it took {took_s:.1f} s of CPU time, at most {CPU_S:.1f} are allowed")
    if grown_kib > RSS_MIB * 1024:
        raise Failed(f"memory grew by {grown_kib // 1024} MiB, at most {RSS_MIB} are allowed")
    return is_decoded


class Worker:
    """`counts`: by target, cases that were decoded, refused and failed."""

    def __init__(self, desk: Desk, failures: Path, seed: int) -> None:
        self.counts: dict[str, list[int]] = {}
        self._desk = desk
        self._failures = failures
        self._seed = seed
        self._places: dict[str, int] = {}
        self._next: dict[str, int] = {}

    def run(self, targets: list[Target], seconds: float) -> None:
        """Every target in turn."""
        began_s = told_s = time.monotonic()
        while time.monotonic() - began_s < seconds:
            for target in targets:
                self._slice(target)
                if time.monotonic() - told_s >= TELL_S:
                    told_s = time.monotonic()
                    self._tell(told_s - began_s)

    def _slice(self, target: Target) -> None:
        counts = self.counts.setdefault(target.name, [0, 0, 0])
        end_s = time.monotonic() + SLICE_S
        begin = index = self._next.get(target.name, 0)
        while time.monotonic() < end_s or index - begin < SLICE_CASES:
            case = made_case(target, self._seed, index)
            self._desk.put(case)
            try:
                counts[0 if check(target, case) else 1] += 1
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                counts[2] += 1
                self._note(case, error)
            index += 1
        self._next[target.name] = index

    def _note(self, case: Case, error: Exception) -> None:
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{case.target} {type(error).__name__} {os.path.basename(innermost.filename)}:{innermost.lineno}"
        self._places[place] = self._places.get(place, 0) + 1
        if self._places[place] <= SAME_FAILURES_MAX:
            text = "".join(traceback.format_exception(error, chain=False))
            keep_failure(self._failures, case, f"{place}\n{text}")

    def _tell(self, passed_s: float) -> None:
        cases, failed = sum(map(sum, self.counts.values())), sum(count[2] for count in self.counts.values())
        print(f"fuzz: seed {self._seed}, {passed_s:.0f} s, {cases} cases, {failed} failed", file=sys.stderr, flush=True)


def keep_failure(folder: Path, case: Case, text: str) -> Path:
    """Writes the case down beside what it did, and says how to see it again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.target}-{case.number:012x}.case"
    path.write_bytes(case.encode())
    path.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    print(f"\nFAILED {text.rstrip()}\nreplay: python -m tests.fuzz --replay {path}\n", file=sys.stderr, flush=True)
    return path


def main() -> int:
    """0 where nothing failed. Writes its counts to the file `--counts`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.worker")
    parser.add_argument("--kernels", help="folder of the kernels with AddressSanitizer; else those that are installed")
    parser.add_argument("--desk")
    parser.add_argument("--counts")
    parser.add_argument("--failures", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--target", action="append")
    parser.add_argument("--replay", type=Path)
    chosen = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where the other tests find what they share
    logging.disable(logging.CRITICAL)
    if chosen.kernels:
        asan_kernels.use(Path(chosen.kernels))
    from .targets import TARGETS

    if chosen.replay:
        case = Case.decode(chosen.replay.read_bytes())
        print("decoded" if check(TARGETS[case.target], case) else "refused by its typed error")
        return 0
    worker = Worker(Desk(chosen.desk), chosen.failures, chosen.seed)
    worker.run([TARGETS[name] for name in chosen.target or TARGETS], chosen.seconds)
    Path(chosen.counts).write_text(json.dumps(worker.counts), encoding="ascii")
    return 1 if any(count[2] for count in worker.counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
