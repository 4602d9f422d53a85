"""The module that Spark looks for: it has the source, and where that cannot be had it breaks nobody's session."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

HOOK = Path(__file__).parents[3] / "pyspark_zenit.py"


def hook() -> ModuleType:
    spec = spec_from_file_location("pyspark_zenit", HOOK)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_has_the_source() -> None:
    from pyspark.sql.datasource import DataSource

    source = hook().DefaultSource
    assert issubclass(source, DataSource)
    assert source.name() == "zenit", "asked of the class, as Spark does"


def test_where_the_source_cannot_be_had_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zenitmq.pipeline.source", None)
    assert not hasattr(hook(), "DefaultSource")


def test_it_is_cheap_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python process of everybody's Spark imports it: what is heavy comes in with the first read."""
    for name in [name for name in sys.modules if name.startswith("zenitmq.")]:
        monkeypatch.delitem(sys.modules, name)
    hook()
    loaded = {name for name in sys.modules if name.startswith("zenitmq.")}
    assert loaded == {"zenitmq.pipeline", "zenitmq.pipeline.source"}
