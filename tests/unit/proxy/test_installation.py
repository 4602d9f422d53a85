"""What a machine without gRPC is told. proxy/installation, cli/bench."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from zenitmq.cli.bench import bench
from zenitmq.model.errors import RequirementMissing


def test_a_bench_without_grpc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "hpack", None)
    with pytest.raises(RequirementMissing, match=r"^hpack not found; a proxy needs it: pip install 'zenitmq\[proxy\]'"):
        bench._run("proxy", as_json=True)
