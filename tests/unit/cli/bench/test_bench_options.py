"""Each work of `zenit bench` offers the options that it takes, with the defaults of a run."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import typer

from zenitmq.bench.options import GROUP_WORKS, SPARK_WORKS, WORKS, BenchOptions, bench_options
from zenitmq.cli.bench.bench import MEANINGS, command_of, register

ONLY_PRINTED = {"replicas", "plot", "as_json"}  # not a matter of measuring


def offered(work: str) -> dict[str, object]:
    parameters = inspect.signature(command_of(work)).parameters
    return {name: each.default for name, each in parameters.items() if name not in ONLY_PRINTED}


def test_each_work_is_a_command() -> None:
    assert set(MEANINGS) == {*WORKS, *GROUP_WORKS, *SPARK_WORKS}


@pytest.mark.parametrize("work", MEANINGS)
def test_a_work_offers_what_it_takes(work: str) -> None:
    usual = BenchOptions(work=work)
    assert offered(work) == {name: getattr(usual, name) for name in bench_options(work)}


def test_each_option_is_of_some_work() -> None:
    fields = {each.name for each in dataclasses.fields(BenchOptions)} - {"work"}
    assert fields == set().union(*(offered(work) for work in MEANINGS))


def test_an_option_of_another_work_is_refused_by_name() -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    command = typer.main.get_command(app)
    with pytest.raises(Exception, match="--rate") as refused:
        command(["bench", "produce", "--rate", "5"], standalone_mode=False)
    assert refused.value.ctx.command_path.endswith("bench produce")  # type: ignore[attr-defined]
