"""Each work of `zenit bench` offers the options that it takes, with the defaults of a run."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from zenitmq.bench.options import GROUP_WORKS, PROXY_WORKS, SPARK_WORKS, STORE_WORKS, WORKS, BenchOptions, bench_options
from zenitmq.cli.bench import bench
from zenitmq.cli.bench.bench import MEANINGS
from zenitmq.cli.command_table import command_of
from zenitmq.cli.options import UsageError

ROOT = Path(__file__).parents[4]
ONLY_PRINTED = {"replicas", "plot", "as_json"}  # not a matter of measuring


def bench_lines() -> list[str]:
    """What follows `zenit bench` in README.md and in the pages, within text and as a line of its own."""
    found: set[str] = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"`zenit bench ([a-z0-9-]+(?: [^`]+)?)`", text))
        found |= {line.partition(" #")[0].strip() for line in re.findall(r"^zenit bench (.+)$", text, re.MULTILINE)}
    assert len(found) > 20
    return sorted(line.replace("[--push]", "--push") for line in found)


def offered(work: str) -> dict[str, object]:
    parameters = inspect.signature(bench.command_of(work)).parameters
    return {name: each.default for name, each in parameters.items() if name not in ONLY_PRINTED}


def test_each_work_is_a_command() -> None:
    assert set(MEANINGS) == {*WORKS, *GROUP_WORKS, *STORE_WORKS, *SPARK_WORKS, *PROXY_WORKS}


@pytest.mark.parametrize("work", MEANINGS)
def test_a_work_offers_what_it_takes(work: str) -> None:
    usual = BenchOptions(work=work)
    assert offered(work) == {name: getattr(usual, name) for name in bench_options(work)}


def test_each_option_is_of_some_work() -> None:
    fields = {each.name for each in dataclasses.fields(BenchOptions)} - {"work"}
    assert fields == set().union(*(offered(work) for work in MEANINGS))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("produce --rate 5", "--rate belongs to `zenit bench e2e`"),
        ("consume --batch 5", "--batch belongs to `zenit bench produce`, `zenit bench pop`, `zenit bench limits`"),
        (
            "spark --replicas 3",
            "--replicas belongs to `zenit bench produce`, `zenit bench latency`, `zenit bench catch-up`",
        ),
        ("limits --no-index", "--no-index belongs to "),
        ("e2e --keys 1", "--keys belongs to "),
        ("consume --warm", "--warm belongs to "),
        ("consume --paint", "No such option: --paint"),
        ("consume --size", "Option '--size' requires an argument"),
        ("catch-up --replicas 1", "1 is not in the range 2<=x<=9"),
        ("catch-up --replicas 10", "10 is not in the range 2<=x<=9"),
        ("produce --replicas 10", "10 is not in the range 1<=x<=9"),
        ("produce --in-flight -1", "Invalid value for --in-flight: '-1': expected 0 to 4096"),
        ("produce --replicas 2 --namesrv 127.0.0.1:1", "Invalid value for --replicas: '2': expected 1, or more"),
        ("produce --warm --namesrv 127.0.0.1:1", "Invalid value for --namesrv: '127.0.0.1:1': expected none"),
    ],
)
def test_an_option_of_another_work_is_refused_and_told_whose_it_is(line: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        command_of("bench")(line.split(), standalone_mode=False)
    assert told in refused.value.format_message()


@pytest.mark.parametrize("line", bench_lines())
def test_each_command_of_the_pages_is_one_that_is_taken(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With values that its options may have; tests/integration/docs runs those that take moments."""
    taken: list[BenchOptions] = []

    def run(work: str, *, as_json: bool, replicas: int = 1, plot: str | None = None, **chosen: Any) -> None:
        del as_json, replicas, plot
        taken.append(BenchOptions(work=work, **chosen))

    monkeypatch.setattr(bench, "_run", run)
    work, *options = shlex.split(line)
    command_of("bench")([work, *options], standalone_mode=False)
    assert [each.work for each in taken] == [work]
