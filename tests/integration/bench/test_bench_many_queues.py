"""The benchmark of many queues, on few: it comes to its end and prints all its figures."""

import json
import subprocess
import sys


def test_it_prints_its_figures(tmp_path) -> None:
    command = [sys.executable, "-m", "zenitmq.bench.scale.many_queues", "--queues", "160", "--segments", "30"]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    document = json.loads(done.stdout)
    assert (document["queues"], document["segments"], len(document["persist_round_s"])) == (160, 30, 3)
    assert document["survey_ticks"] > 1
    for name in ("turn_ms", "turn_beside_persisting_ms", "tick_while_held_ms", "tick_while_surveying_ms"):
        assert 0 < document[name]["p50"] <= document[name]["max"]
    for name in ("open_after_kill_s", "open_after_stop_s", "first_flush_after_stop_ms"):
        assert document[name] > 0
