"""A campaign of one short leg, as a user runs it: its account, its page, its picture."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

from zenitmq.deploy.drills.campaigns.campaign import KINDS, Leg, legs
from zenitmq.deploy.drills.campaigns.campaign_run import EVIDENCE_MAX, WORK_FOLDER, _kept, _run_drill

FIRST = {seed: next(legs(seed)) for seed in range(1, 1000)}
SEED = next(seed for seed, leg in FIRST.items() if (leg.kind.name, leg.topics) == ("static", "batches"))  # no ZooKeeper


def test_a_leg_is_carried_out_and_told(tmp_path: Path) -> None:
    (first,) = islice(legs(SEED), 1)
    assert (first.kind.name, first.topics) == ("static", "batches")
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", "campaign", "--hours", "0.001", "--leg-minutes", "0.05"]
    command += ["--rate", "400", "--seed", str(SEED), "--report", str(tmp_path / "report"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["passed"]
    assert told["acknowledged"] > 0
    assert told["lost"] == told["violations"] == 0
    assert min(told["transfers"], told["popped"], told["popped_again"]) > 0
    assert [leg["seed"] for leg in told["legs"]] == [first.seed]
    assert json.loads((tmp_path / "report" / "campaign.json").read_text()) == told
    assert "passed" in (tmp_path / "report" / "campaign.html").read_text()
    assert (tmp_path / "report" / "campaign.svg").read_text().startswith("<svg")


def test_an_interrupt_ends_the_leg_and_the_campaign_with_an_account(tmp_path: Path) -> None:
    """Nothing of the leg is left, neither a process nor a directory, and it counts for nothing."""
    report = tmp_path / "report"
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", "campaign", "--hours", "1", "--leg-minutes", "5"]
    command += ["--rate", "400", "--seed", str(SEED), "--report", str(report)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "acknowledged so far" not in line and "1 faults" in line)
        assert "leg 1, static, batches; 1 faults, " in said
        assert "min left: " in said
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=200)
    assert process.returncode == 130
    told = json.loads((report / "campaign.json").read_text())
    assert (told["interrupted"], told["legs"]) == (True, [])
    assert "interrupted" in (report / "campaign.html").read_text()
    assert not (report / WORK_FOLDER).exists()
    assert not [line for line in _commands() if str(report) in line]


def _commands() -> list[str]:
    """The command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            found.append(path.read_text(errors="replace"))
    return found


def test_a_leg_that_breaks_off_says_why_and_its_evidence_is_kept(tmp_path: Path) -> None:
    script = "import os, sys, tempfile; tempfile.mkdtemp(); print('no port is free', file=sys.stderr); sys.exit(1)"
    (leg,) = islice(legs(SEED), 1)
    said: list[str] = []
    work = tmp_path / WORK_FOLDER
    work.mkdir()
    assert _run_drill([sys.executable, "-c", script], leg, str(work), said.append) == "no port is free"
    assert said == ["no port is free"]
    (kept,) = work.iterdir()
    (work / "zenit-ports-0.lock").touch()
    evidence = Path(_kept(leg, str(tmp_path), passed=False, say=said.append))
    assert (evidence / kept.name).is_dir()
    assert not work.exists()


def test_evidence_of_the_first_legs_that_failed_is_kept_and_nothing_of_the_others(tmp_path: Path) -> None:
    kept = []
    for number in range(EVIDENCE_MAX + 2):
        (tmp_path / WORK_FOLDER / "store").mkdir(parents=True)
        leg = Leg(number, KINDS[0], 1, 1.0)
        kept.append(_kept(leg, str(tmp_path), passed=number == 1, say=lambda _: None))
        assert not (tmp_path / WORK_FOLDER).exists()
    assert [bool(path) for path in kept] == [True, False, *[True] * (EVIDENCE_MAX - 1), False]
    assert all(Path(path, "store").is_dir() for path in kept if path)
