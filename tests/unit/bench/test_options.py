"""A run that makes no sense is refused by name before anything starts."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from zenitmq.bench.options import BenchOptions
from zenitmq.bench.worker import ROLES
from zenitmq.model.errors import InvalidName, InvalidParameter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work", "paint"),
        ("api", "telepathy"),
        ("flush", "never"),
        ("size", -1),
        ("size", (4 << 20) + 1),
        ("batch", 0),
        ("producers", 0),
        ("seconds", 0.0),
        ("rate", 0),
        ("log_gib", 0.0),
    ],
)
def test_out_of_range_is_refused_by_the_name_of_the_option(name: str, value: object) -> None:
    with pytest.raises(InvalidParameter) as refused:
        BenchOptions(**({"work": "produce"} | {name: value}))  # type: ignore[arg-type]
    assert refused.value.name == (name if name == "work" else f"--{name.replace('_', '-')}")


def test_a_bad_topic_is_refused() -> None:
    with pytest.raises(InvalidName):
        BenchOptions(work="produce", topic="../etc")


@pytest.mark.parametrize("role", sorted(ROLES))
def test_every_role_of_a_load_process_exists(role: str) -> None:
    module_name, job_class, function = ROLES[role]
    module = importlib.import_module(f"zenitmq.bench.{module_name}")
    assert dataclasses.is_dataclass(getattr(module, job_class))
    assert callable(getattr(module, function))
