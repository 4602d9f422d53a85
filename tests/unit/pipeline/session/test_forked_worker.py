"""Imports are kept from the garbage collector in Spark's forked workers only, and once."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from zenitmq.pipeline.session import forked_worker
from zenitmq.pipeline.session.forked_worker import keep_imports


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    monkeypatch.setattr(forked_worker, "_modules_kept", 0)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(len(sys.modules)))
    return calls


def run_by(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    main = ModuleType("__main__")
    main.__spec__ = None if name is None else ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.mark.parametrize("name", [None, "pytest", "pyspark.sql.streaming.python_streaming_source_runner"])
def test_a_process_that_is_no_forked_worker_is_left_as_it_is(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    run_by(monkeypatch, name)
    keep_imports()
    assert freezes == []


def test_a_forked_worker_keeps_what_was_imported_and_again_what_is_imported_later(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_by(monkeypatch, "pyspark.daemon")
    keep_imports()
    keep_imports()
    assert len(freezes) == 1
    monkeypatch.setitem(sys.modules, "imported later", ModuleType("imported later"))
    keep_imports()
    keep_imports()
    assert len(freezes) == 2
