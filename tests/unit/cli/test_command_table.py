"""The table of commands and the modules that have them say the same."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from zenitmq.cli.command_table import COMMANDS, command_of
from zenitmq.cli.main import application


@pytest.mark.parametrize("module", dict.fromkeys(row.module for row in COMMANDS.values()))
def test_what_a_module_registers_is_what_the_table_has_of_it(module: str) -> None:
    """A command that only the module knew could not be called."""
    app = typer.Typer()
    import_module(f"zenitmq.cli.{module}").register(app)
    assert set(typer.main.get_group(app).commands) == {name for name, row in COMMANDS.items() if row.module == module}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name: str) -> None:
    assert command_of(name).help


def test_who_mistypes_a_command_is_told_of_one_that_there_is() -> None:
    result = CliRunner().invoke(application(), ["topc", "list"])
    assert (result.exit_code, "'topic'" in result.output) == (2, True)


def test_options_that_many_commands_share_are_given_to_the_one_that_is_asked_for() -> None:
    given = {option.name for option in command_of("topic").commands["list"].params}
    assert {"namesrv", "context", "watch"} <= given


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_whole_sentences_and_no_words_of_the_parser(name: str) -> None:
    """Where a command has commands below it, the list of them is not cut at the width of the terminal."""
    told = CliRunner().invoke(application(), [name, "--help"], terminal_width=80).output
    assert " --help" in told
    assert [line for line in told.partition("Commands:")[2].splitlines() if line.endswith("...")] == []
    assert not re.search(r"<(int|float|str)\b", told)


@pytest.mark.parametrize(
    ("arguments", "said"), [("--queues three", "'three' is not a valid whole number"), ("--queues 0", "range x>=1")]
)
def test_a_value_of_another_type_is_refused_in_plain_words(arguments: str, said: str) -> None:
    result = CliRunner().invoke(application(), ["topic", "create", "trades", *arguments.split()])
    assert (result.exit_code, said in result.output) == (2, True)


@pytest.mark.parametrize(
    ("value", "said"),
    [("nan", "'nan' is not a number"), ("inf", "'inf' is not a number"), ("x", "valid number"), ("0", "range x>=0.1")],
)
def test_a_number_that_is_none_is_refused(value: str, said: str) -> None:
    """A command that waited for "nan" seconds would wait for ever."""
    result = CliRunner().invoke(application(), ["upgrade", "wait-in-sync", "--timeout", value])
    assert (result.exit_code, said in result.output) == (2, True)


def test_the_help_names_the_option_that_every_command_takes() -> None:
    assert "--user NAME" in CliRunner().invoke(application(), ["--help"]).output
