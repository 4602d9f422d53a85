"""What stands beside every figure: read from the machine, or None."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from zenitmq.bench import environment as module
from zenitmq.bench.environment import environment, python_round_ns


def test_the_block_is_json_and_tells_the_interpreter(tmp_path: Path) -> None:
    block = environment(str(tmp_path))
    assert json.loads(json.dumps(block)) == block
    assert block["python"] == platform.python_version()
    assert block["python_round_ns"] > 1  # type: ignore[operator]  # no interpreter makes a call, a tuple and an entry in less


def test_the_best_try_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0, 9_000_000, 0, 5_000_000, 0, 7_000_000, 0, 8_000_000, 0, 6_000_000))
    monkeypatch.setattr(module, "process_cpu_ns", lambda: next(clock))
    assert python_round_ns() == 100.0  # the 5 ms of one try, over its 50,000 rounds
