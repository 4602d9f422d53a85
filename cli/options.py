"""Options that many commands share, and how their texts are read."""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..model.clock import datetime_of_ms, ms_of_datetime, now_ms
from ..model.errors import InvalidParameter, ZenitError
from .help_text import VALUES

if TYPE_CHECKING:
    from ..client.admin import Admin

UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""The parser's error for a wrong command line. It contains the command."""

CONTEXT: Final = "zenit.context"
SHELL_TIMEOUT_S: Final = 1.0
Chosen = dict[str, str | None]
"""The choices for a whole command line: `namesrv`. It is the parser's object, so that errors can use it."""


def refuse_endless_numbers(command: Any) -> None:
    """Changes a parser and its subcommands: "nan" and "inf" are no numbers; no bound of a range refuses the first."""
    for below in getattr(command, "commands", {}).values():
        refuse_endless_numbers(below)
    for parameter in command.params:
        if parameter.type.name == VALUES["float"][1]:
            parameter.type = copy.copy(parameter.type)  # the parser shares one object for most types
            parameter.type.convert = partial(_finite, parameter.type.convert)


def _finite(convert: Callable[..., Any], value: Any, parameter: Any, context: Any) -> Any:
    number = convert(value, parameter, context)
    if not math.isfinite(number):
        raise typer.BadParameter(f"{value!r} is not a number", context, parameter)
    return number


@contextmanager
def usage_of_values() -> Iterator[None]:
    """Converts an error about a value to wrong usage: exit code 2. Exit code 1 means that the command failed."""
    try:
        yield
    except InvalidParameter as error:
        raise typer.BadParameter(f"{error.value!r}: expected {error.expected}", param_hint=error.name) from None


def _choose_name_servers(context: typer.Context, value: str | None) -> str | None:
    """Chooses before anything is started, and checks the given values. If this finds none, the client searches further."""
    if context.resilient_parsing:  # a shell completes an incomplete line
        return value
    from .context_file import choose, read_contexts

    with usage_of_values():
        chosen = choose(value, context.meta.get(CONTEXT), os.environ, read_contexts)
    if context.obj is not None:
        context.obj["namesrv"] = chosen
    return chosen


def _choose_engine_too(context: typer.Context, value: str | None) -> str | None:
    """The same, for a command that has clients in its own process; an engine counts only where it is named on the line."""
    from ..client.connection.engine_url import is_engine, parse_engine

    if value is None or not is_engine(value) or context.resilient_parsing:
        return _choose_name_servers(context, value)
    with usage_of_values():
        return str(parse_engine("--namesrv", value))


def _keep_context(context: typer.Context, value: str | None) -> None:
    context.meta[CONTEXT] = value


def _with_context(
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A cluster of `zenit context list`, instead of --namesrv; else $ZENIT_CONTEXT, the one in use.",
            expose_value=False,
            is_eager=True,  # parsed before --namesrv, which decides
            callback=_keep_context,
        ),
    ] = None,
) -> None:
    """Carries the option that all commands with `--namesrv` get."""


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """The topics of the command line's cluster, for a shell; none if it does not answer within a second."""
    return _names_for_shell(
        context, incomplete, lambda admin: [t["name"] for t in admin.topic_configs() if not t["system"]]
    )


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The same for groups."""
    return _names_for_shell(context, incomplete, lambda admin: [group["name"] for group in admin.groups()])


def _names_for_shell(context: typer.Context, incomplete: str, ask: Callable[[Admin], list[str]]) -> list[str]:
    from ..client.admin import Admin
    from .context_file import choose, read_contexts

    try:
        namesrv = choose(context.params.get("namesrv"), context.meta.get(CONTEXT), os.environ, read_contexts)
        with Admin(namesrv, timeout=SHELL_TIMEOUT_S) as admin:
            return [name for name in ask(admin) if name.startswith(incomplete)]
    except (ZenitError, OSError):
        return []


def add_context_option(command: Any) -> None:
    """Adds `--context` to a command, or to each of its subcommands, that takes `--namesrv`."""
    for below in getattr(command, "commands", {}).values():
        add_context_option(below)
    if any(option.name == "namesrv" for option in command.params):
        carrier = typer.Typer(add_completion=False)
        carrier.command()(_with_context)
        command.params += typer.main.get_command(carrier).params


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MetricsTokenFile = Annotated[
    str,
    typer.Option(
        "--metrics-token-file", metavar="FILE", help="With the tokens of which a scrape must bring one, a line each."
    ),
]
Namesrv = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        metavar="HOST:PORT[,...]",
        callback=_choose_name_servers,
        help="Name servers; else --context, $ZENIT_NAMESRV, the last cluster of `zenit up` on this machine, 127.0.0.1:9876.",
    ),
]
NamesrvOrEngine = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        metavar="HOST:PORT[,...]",
        callback=_choose_engine_too,
        help="Name servers, else as for other commands; or an engine: memory://NAME, embedded:///DIR, local:///DIR.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, over file and environment; repeatable."),
]
ConfigFile = Annotated[str | None, typer.Option("--config", metavar="FILE", help="TOML file (zenit config schema).")]


def check_directory(directory: str | None) -> str | None:
    """Refuses "", which is probably an unset shell variable. Raises typer.BadParameter."""
    if directory == "":
        raise typer.BadParameter("'': expected a directory", param_hint="--dir")
    return directory


Directory = Annotated[
    str, typer.Option("--dir", metavar="DIR", callback=check_directory, help="Where the cluster lives.")
]
DEFAULT_DIRECTORY = "~/.zenit"

_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """{name: value} of repeated `name=value` texts. Raises typer.BadParameter."""
    pairs = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise typer.BadParameter(f"{text!r} is not name=value", param_hint=option)
        pairs[name] = value
    return pairs


def pairs_text(pairs: Mapping[str, str]) -> str | None:
    """The reverse, for a cell; None if there are none."""
    return " ".join(f"{name}={value}" for name, value in pairs.items()) or None


def parse_time_ms(text: str, option: str, *, ago: bool = True) -> int:
    """Milliseconds since the epoch of an ISO 8601 time (local time if it has no zone) or of plain milliseconds; with `ago`
    of a duration, too: 10m is ten minutes ago.

    Raises typer.BadParameter.
    """
    duration = _DURATION.fullmatch(text) if ago else None
    if duration is not None:
        return now_ms() - int(duration[1]) * _UNITS_MS[duration[2]]
    if text.isdecimal() and len(text) >= 12:
        return int(text)
    try:
        return ms_of_datetime(datetime.fromisoformat(text))
    except ValueError:
        hint = f"a time such as 2026-11-21T09:50{', 10m (ten minutes ago)' if ago else ''}, or milliseconds since the epoch"
        raise typer.BadParameter(f"{text!r} is not {hint}", param_hint=option) from None


def parse_duration(text: str | None, option: str) -> timedelta | None:
    """A duration such as 500ms, 5s, 2m, 1h or 10d; None for None. Raises typer.BadParameter."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration such as 500ms, 5s, 2m, 1h or 10d", param_hint=option)
    return timedelta(milliseconds=int(match[1]) * _UNITS_MS[match[2]])


def parse_moment(text: str | None, option: str, *, ago: bool = True) -> datetime | None:
    """The same as `parse_time_ms` as a datetime; None for None. Raises typer.BadParameter."""
    return None if text is None else datetime_of_ms(parse_time_ms(text, option, ago=ago))
