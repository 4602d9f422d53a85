"""A campaign of one short leg, as a user runs it: its account, its page, its picture."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

from zenitmq.deploy.drills.campaign import legs
from zenitmq.deploy.drills.campaign_run import _run_drill

SEED = next(seed for seed in range(1, 1000) if next(legs(seed)).kind.name == "static")  # it needs no ZooKeeper


def test_a_leg_is_carried_out_and_told(tmp_path: Path) -> None:
    (first,) = islice(legs(SEED), 1)
    assert first.kind.name == "static"
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", "campaign", "--hours", "0.001", "--leg-minutes", "0.05"]
    command += ["--rate", "400", "--seed", str(SEED), "--report", str(tmp_path / "report"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["passed"]
    assert told["acknowledged"] > 0
    assert told["lost"] == told["violations"] == 0
    assert [leg["seed"] for leg in told["legs"]] == [first.seed]
    assert json.loads((tmp_path / "report" / "campaign.json").read_text()) == told
    assert "passed" in (tmp_path / "report" / "campaign.html").read_text()
    assert (tmp_path / "report" / "campaign.svg").read_text().startswith("<svg")


def test_a_leg_that_breaks_off_says_why_and_where_its_evidence_is() -> None:
    script = "import sys; print('stores are kept in /x\\nno port is free', file=sys.stderr); sys.exit(1)"
    (leg,) = islice(legs(SEED), 1)
    said: list[str] = []
    assert _run_drill([sys.executable, "-c", script], leg, said.append) == ("no port is free", "/x")
    assert said == ["stores are kept in /x", "no port is free"]
