"""A job's options from a command line, and its help."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from zenitmq.model.config import check_settings, setting
from zenitmq.model.errors import ConfigError, InvalidParameter
from zenitmq.pipeline.jobs.job import moment_ms, option_help, parse_options, required
from zenitmq.pipeline.jobs.registry import JOBS, find_job


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    target: str = setting("", "Where to.")
    topics: tuple[str, ...] = setting((), "Which.")
    file_mb: int = setting(128, "Size.", minimum=1)
    seconds: float = setting(0.0, "How long.")
    quick: bool = setting(False, "In a hurry.")
    mode: str = setting("a", "How.", choices=("a", "b"))

    def __post_init__(self) -> None:
        check_settings(self)
        required("target", self.target, "a directory")


def test_options_come_from_arguments_with_dashes() -> None:
    told = ["--target", "/x", "--file-mb=64", "--quick", "--topics", "a,b", "--seconds", "1.5", "--mode", "b"]
    assert parse_options(Options, told) == Options(
        target="/x", topics=("a", "b"), file_mb=64, seconds=1.5, quick=True, mode="b"
    )
    assert not parse_options(Options, ["--target=--odd", "--quick=false"]).quick


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        ([], "--target", "a directory"),
        (["orders"], "argument", "options like --name value"),
        (["--"], "argument", "options like --name value"),
        (["--target"], "--target", "a value behind it"),
        (["--target", "/x", "--file-mb", "0"], "--file-mb", "an integer of at least 1"),
        (["--target", "/x", "--mode", "c"], "--mode", "one of a, b"),
        (["--target", "/x", "--topic", "c"], "--topic", "a known key; the nearest is topics"),
        (["--target", "/x", "--zzz"], "--zzz", "a known key"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: list[str], name: str, expected: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parse_options(Options, arguments)
    assert (refused.value.name, refused.value.expected) == (name, expected)


def test_the_help_of_a_job_is_made_of_its_options() -> None:
    assert option_help(Options) == [
        ("--target TEXT", "Where to."),
        ("--topics A,B,...", "Which."),
        ("--file-mb N", "Size. [128]"),
        ("--seconds X", "How long."),
        ("--quick", "In a hurry."),
        ("--mode a|b", "How. [a]"),
    ]


def test_moments() -> None:
    assert moment_ms("since", "") is None
    assert moment_ms("since", "1763700000123") == 1763700000123
    assert moment_ms("since", "2026-11-21T09:50:00.250+00:00") == 1795254600250
    with pytest.raises(ConfigError, match="since"):
        moment_ms("since", "yesterday")


def test_a_job_is_found_by_its_name() -> None:
    for name in JOBS:
        assert find_job(name).name == name
    with pytest.raises(InvalidParameter, match=r"archive\?"):
        find_job("archiv")
    with pytest.raises(InvalidParameter, match="one of archive, "):
        find_job("xyz")
