"""The command line offers every option that a benchmark has, with the same default."""

from __future__ import annotations

import dataclasses
import inspect

from zenitmq.bench.options import BenchOptions
from zenitmq.cli.bench.bench import bench

ONLY_PRINTED = {"replicas", "plot", "as_json"}  # not a matter of measuring


def test_every_option_can_be_given() -> None:
    usual = BenchOptions(work="produce")
    offered = {name: p.default for name, p in inspect.signature(bench).parameters.items() if name not in ONLY_PRINTED}
    wanted = {field.name: getattr(usual, field.name) for field in dataclasses.fields(BenchOptions)}
    assert offered.pop("work") is inspect.Parameter.empty
    del wanted["work"]
    assert offered == wanted
