"""Runs a campaign: each leg is `zenit drill run random` in a process of its own, whose report is read afterwards.

With a process per leg, a leg that breaks off ends only itself, and its network ends with it. The account is rewritten after
each leg, so a campaign that ends early has its results so far. All files of legs are in the campaign's own directory: a leg
removes them, except the evidence of the first failed legs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ....model.clock import monotonic_ms, now_ms
from ....model.errors import ZenitError
from ...local_cluster import ProcessCluster
from ..catalogue import check_limits
from ..run import CLUSTER_FOLDER
from . import campaign_page, campaign_picture
from .campaign import BATCH, LEG_MINUTES, RATE, Account, Leg, document, folder, legs

LEG_MORE_S: Final = 900
"""What a leg may take beyond its faults: starting the cluster, mending the last fault, reading everything back."""
END_S: Final = 120
"""What a leg that was asked to end may take to stop its cluster."""
EVIDENCE_MAX: Final = 5
"""Legs whose stores and logs are kept: each may be a gigabyte or more."""
WORK_FOLDER: Final = "work"
EVIDENCE_PREFIX: Final = "evidence-"
SO_FAR: Final = re.compile(r" \(([\d,]+) acknowledged so far\)$")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOptions:
    """The user's choices. `report_directory`: for campaign.json, campaign.html, campaign.svg and each leg's report."""

    hours: float
    seed: int = 1
    rate: float = RATE
    batch: int = BATCH
    leg_minutes: float = LEG_MINUTES
    report_directory: str | None = None
    secure: bool = False

    def __post_init__(self) -> None:
        check_limits(hours=self.hours, leg_minutes=self.leg_minutes, rate=self.rate, batch=self.batch)

    def command(self) -> str:
        """The command that repeats the campaign."""
        drawn = f"--hours {self.hours:g} --seed {self.seed} --leg-minutes {self.leg_minutes:g}"
        secured = " --secure" if self.secure else ""
        return f"zenit drill campaign {drawn} --rate {self.rate:g} --batch {self.batch}{secured}"


def run_campaign(options: CampaignOptions, say: Say = lambda _: None) -> dict[str, Any]:
    """Runs it and returns its document. A leg that began before the time was over runs to its end.

    An interrupt (KeyboardInterrupt) ends the current leg, which does not count, and then the campaign.
    """
    directory = os.path.abspath(options.report_directory or tempfile.mkdtemp(prefix="zenit-campaign-"))
    os.makedirs(directory, exist_ok=True)
    progress = _Progress(options, say, began_ms=monotonic_ms())
    began_ms = now_ms()
    accounts: list[Account] = []
    account: dict[str, Any] = {}
    is_interrupted = False
    for leg in legs(options.seed, options.leg_minutes):
        if progress.left_ms <= 0 or is_interrupted:
            break
        try:
            accounts.append(_carry_out(leg, options, directory, progress))
        except KeyboardInterrupt:
            is_interrupted = True
        account = document(
            accounts,
            seed=options.seed,
            hours=options.hours,
            began_ms=began_ms,
            is_interrupted=is_interrupted,
            command=options.command(),
        )
        _write(directory, account)
    say(f"the account is in {directory}")
    return account


class _Progress:
    """The progress, printed before each line of a leg. One thread."""

    def __init__(self, options: CampaignOptions, say: Say, *, began_ms: int) -> None:
        self._say = say
        self._began_ms, self._end_ms = began_ms, began_ms + round(options.hours * 3_600_000)
        self._faults = 0
        self._acknowledged = self._in_leg = 0
        self._leg = ""

    @property
    def passed_ms(self) -> int:
        return monotonic_ms() - self._began_ms

    @property
    def left_ms(self) -> int:
        return self._end_ms - monotonic_ms()

    def begin(self, leg: Leg) -> None:
        self._leg = f"leg {leg.number + 1}, {leg.kind.name}, {leg.topics}"
        self.tell(f"seed {leg.seed}")

    def tell(self, line: str) -> None:
        """Passes on a leg's line. A line about a fault contains how many messages were acknowledged so far."""
        if found := SO_FAR.search(line):
            self._faults += 1
            self._in_leg = int(found[1].replace(",", ""))
            line = line[: found.start()]
        acknowledged = self._acknowledged + self._in_leg
        left = f"{max(0, self.left_ms) / 60_000:.0f} min left"
        self._say(f"{self._leg}; {self._faults} faults, {acknowledged:,} acknowledged, {left}: {line}")

    def end(self, found: dict[str, Any] | None) -> None:
        self._acknowledged += self._in_leg if found is None else found["acknowledged"]
        self._in_leg = 0


def _carry_out(leg: Leg, options: CampaignOptions, directory: str, progress: _Progress) -> Account:
    report, work = os.path.join(directory, folder(leg.number)), os.path.join(directory, WORK_FOLDER)
    os.makedirs(work, exist_ok=True)
    begin_ms = progress.passed_ms
    progress.begin(leg)
    try:
        failure = _run_drill(_command(leg, options, report), leg, work, progress.tell)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    found: dict[str, Any] | None = None
    try:
        with open(os.path.join(report, "random.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError):
        failure = failure or "it wrote no report"
    progress.end(found)
    account = Account(
        leg=leg,
        began_ms=begin_ms,
        ended_ms=progress.passed_ms,
        document=found,
        failure="" if found is not None else failure,
    )
    return replace(account, evidence=_kept(leg, directory, passed=account.passed, say=progress.tell))


def _command(leg: Leg, options: CampaignOptions, report: str) -> list[str]:
    kind = leg.kind
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", "run", "random", "--report", report]
    command += ["--replicas", str(kind.replicas), "--controllers", str(kind.controllers), "--groups", str(kind.groups)]
    command += ["--seed", str(leg.seed), "--minutes", str(leg.minutes)]
    command += ["--rate", str(options.rate), "--batch", str(options.batch), "--topics", leg.topics]
    command += ["--secure"] if options.secure else []
    return command + (["--power"] if kind.power else []) + (["--disks"] if kind.disks else [])


def _run_drill(command: list[str], leg: Leg, work: str, say: Say) -> str:
    """Runs a leg and passes on its output; returns why it broke off, "" if it did not.

    The drill leads a session of its own: Ctrl-C reaches it once, from here. SIGTERM makes it end what it started.
    """
    last = ""
    with subprocess.Popen(  # noqa: S603 (our own interpreter and module)
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": work},
    ) as process:
        assert process.stderr is not None
        try:
            with _bounded(process, leg.minutes * 60 + LEG_MORE_S):
                for line in process.stderr:
                    last = line.strip() or last
                    say(last)
                status = process.wait()
        except BaseException:
            say("ending its cluster")
            with _bounded(process, 0):
                process.communicate()
            _end_what_runs(work)
            raise
    if status < 0:
        _end_what_runs(work)
    return (last or f"exit code {status}") if status else ""


@contextlib.contextmanager
def _bounded(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """While inside, a process that runs longer is asked to end, and killed END_S later."""
    timers = (
        threading.Timer(seconds, process.send_signal, (signal.SIGTERM,)),
        threading.Timer(seconds + END_S, process.kill),
    )
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def _end_what_runs(work: str) -> None:
    """Stops clusters of legs that could not stop them."""
    for directory in _directories(work):
        with contextlib.suppress(ZenitError):  # it has no cluster
            ProcessCluster(os.path.join(directory, CLUSTER_FOLDER)).down()


def _directories(work: str) -> list[str]:
    """The directories of drills, without other files there, such as the lock of ports."""
    return [entry.path for entry in os.scandir(work) if entry.is_dir()]


def _kept(leg: Leg, directory: str, *, passed: bool, say: Say) -> str:
    """Moves the files of a failed leg to a place of their own, and returns it; otherwise removes them."""
    work, evidence = os.path.join(directory, WORK_FOLDER), os.path.join(directory, f"{EVIDENCE_PREFIX}{leg.number:03d}")
    kept = sum(name.startswith(EVIDENCE_PREFIX) for name in os.listdir(directory))
    if passed or not _directories(work) or kept >= EVIDENCE_MAX:
        shutil.rmtree(work, ignore_errors=True)
        if not passed and kept >= EVIDENCE_MAX:
            say(f"{kept} legs have left evidence before; that of this one is removed")
        return ""
    os.rename(work, evidence)
    say(f"its evidence is in {evidence}")
    return evidence


def _write(directory: str, account: dict[str, Any]) -> None:
    picture = campaign_picture.picture(account)
    for name, text in (
        ("campaign.json", json.dumps(account, indent=1) + "\n"),
        ("campaign.svg", picture),
        ("campaign.html", campaign_page.page(account, picture)),
    ):
        path = os.path.join(directory, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)
