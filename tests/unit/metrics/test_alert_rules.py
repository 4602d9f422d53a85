"""Each alert fires on what it is for, and on a healthy cluster none does: tried by Prometheus's own promtool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alert_scenes import SCENES, promtool_test, quiet_test

from zenitmq.metrics.alerts import ALERTS

RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "zenit.rules.yml"


def test_each_alert_has_a_scene() -> None:
    assert {scene.alert for scene in SCENES} == {alert.name for alert in ALERTS}


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool", path=os.pathsep.join((os.environ["PATH"], str(Path(sys.executable).parent))))
    if found is None:
        pytest.skip("no promtool, which ./test.sh brings from Debian's package prometheus")
    return found


def run(*command: str) -> tuple[int, str]:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_the_rules_are_rules(promtool: str) -> None:
    status, said = run(promtool, "check", "rules", str(RULES))
    assert status == 0, said
    assert f"{len(ALERTS)} rules found" in said


def test_each_alert_fires_on_its_scene_and_none_on_a_healthy_cluster(promtool: str, tmp_path: Path) -> None:
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [quiet_test(), *(promtool_test(scene) for scene in SCENES)],
    }
    path = tmp_path / "alerts.json"  # which YAML is too
    path.write_text(json.dumps(document), encoding="utf-8")
    status, said = run(promtool, "test", "rules", str(path))
    assert status == 0, said
