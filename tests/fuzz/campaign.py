"""Workers one after the other until the time is over: one that AddressSanitizer or a signal ends leaves its case behind.

What failed lies in build/fuzz/failures, a case and what it did beside each other.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import asan_kernels
from .worker import Desk, keep_failure

ROOT = asan_kernels.ROOT
FAILURES = ROOT / "build" / "fuzz" / "failures"
_REPORT_CHARACTERS = 6000
_WORKER = (sys.executable, "-m", "tests.fuzz.worker")


@dataclass(slots=True)
class Outcome:
    """`counts`: by target, cases decoded, refused, failed. `ended`: how workers came to an end that is none of theirs."""

    counts: dict[str, list[int]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def add(self, counts: dict[str, list[int]]) -> None:
        """What one worker counted."""
        for name, count in counts.items():
            self.counts[name] = [a + b for a, b in zip(self.counts.get(name, (0, 0, 0)), count, strict=True)]

    @property
    def failed(self) -> int:
        """Cases that did what they must not."""
        return len(self.ended) + sum(count[2] for count in self.counts.values())

    def table(self) -> str:
        """A line for each target."""
        rows = [
            f"{name:20} {sum(count):9} {count[0]:9} {count[1]:9} {count[2]:7}" for name, count in self.counts.items()
        ]
        return "\n".join(
            [f"{'target':20} {'cases':>9} {'decoded':>9} {'refused':>9} {'failed':>7}", *rows, *self.ended]
        )


def run(seconds: float, seed: int, targets: Sequence[str] = ()) -> Outcome:
    """Fuzzes these targets, or all. Raises NoCompiler, CalledProcessError, RuntimeError (no worker comes up)."""
    kernels, outcome = asan_kernels.build(), Outcome()
    end_s = time.monotonic() + seconds
    number = 0
    while (left_s := end_s - time.monotonic()) > 1 or not number:
        with tempfile.TemporaryDirectory() as folder:
            _run_worker(Path(folder), kernels, outcome, max(left_s, 1.0), seed + 1_000_000 * number, targets)
        number += 1
    return outcome


def _run_worker(
    folder: Path, kernels: Path, outcome: Outcome, seconds: float, seed: int, targets: Sequence[str]
) -> None:
    desk_path, counts_path, report_path = folder / "desk", folder / "counts", folder / "report"
    desk = Desk.make(desk_path)
    told = ("--kernels", kernels, "--desk", desk_path, "--counts", counts_path, "--failures", FAILURES, "--seed", seed)
    chosen = [part for name in targets for part in ("--target", name)]
    command = [*_WORKER, *map(str, told), "--seconds", str(seconds), *chosen]
    environment = asan_kernels.environment()
    with (
        open(report_path, "wb") as report,
        subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            report.write(line)
            print(line.decode("utf-8", "replace"), end="", file=sys.stderr, flush=True)
    if counts_path.exists():
        outcome.add(json.loads(counts_path.read_text(encoding="ascii")))
        return
    begun, case = desk.look()
    if case is None:
        raise RuntimeError(f"no worker comes up: {_told(process.returncode)}")
    what = f"the worker of seed {seed} ended after {begun} cases: {_told(process.returncode)}"
    outcome.ended.append(what)
    text = report_path.read_bytes().decode("utf-8", "replace")[-_REPORT_CHARACTERS:]
    keep_failure(FAILURES, case, f"{case.target}: {what}\n{text}")


def _told(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def replay(path: Path) -> int:
    """Checks the case of a file, under AddressSanitizer where there is one; 0 where it does nothing wrong."""
    try:
        kernels, environment = ["--kernels", str(asan_kernels.build())], asan_kernels.environment()
    except asan_kernels.NoCompiler as missing:
        print(f"fuzz: {missing} is missing: without AddressSanitizer", file=sys.stderr)
        kernels, environment = [], None
    return subprocess.run(
        [*_WORKER, *kernels, "--replay", str(path.resolve())], cwd=ROOT, env=environment, check=False
    ).returncode
