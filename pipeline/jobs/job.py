"""The parts of a job: its name, a dataclass of options, its dry run, and its run. Pure.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class CopyOptions:
        namesrv: str = setting("", "Name servers.")
        target_file_mb: int = setting(128, "Size of a file, MiB.", minimum=1)

        def __post_init__(self) -> None:
            check_settings(self)

    JOB = Job("copy", CopyOptions, plan, run)

`zenit job run copy --target-file-mb 64` creates a CopyOptions; in Python one is created directly and passed to `run`. A
field is an option of the same name, with dashes; a boolean field needs no value on the command line. Errors are
ConfigErrors, whose key is the field's name.

A summary is a dict with names in snake_case, including `rows`; `passed: False` in it makes the command exit with 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...model.config import SettingInfo, config_schema, load_config
from ...model.errors import ConfigError, InvalidParameter
from .summary import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

O = TypeVar("O")  # noqa: E741 - the options of a job

Document = dict[str, Any]
Report = Callable[[JobProgress], None]
Session = Callable[[], "SparkSession"]


@dataclass(frozen=True, slots=True)
class Job(Generic[O]):
    """One job.

    `plan` and `run` get the options, a function that starts Spark at its first call, and (run) a callback for progress;
    both return a summary. `plan` changes nothing, and `run` may be repeated.
    """

    name: str
    options: type[O]
    plan: Callable[[O, Session], Document]
    run: Callable[[O, Session, Report], Document]


def parse_options(cls: type[O], arguments: Sequence[str]) -> O:
    """The options in command-line arguments ("--target-file-mb", "64", "--quick"). Raises InvalidParameter."""
    schema = {info.key: info for info in config_schema(cls)}
    pairs = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        flag, equals, text = argument.partition("=")
        if not flag.startswith("--") or len(flag) < 3:
            raise InvalidParameter("argument", argument, "options like --name value")
        key = flag[2:].replace("-", "_")
        info = schema.get(key)
        if equals:
            pairs.append(f"{key}={text}")
        elif info is not None and info.kind is bool:
            pairs.append(f"{key}=true")
        elif info is not None and not waiting:
            raise InvalidParameter(flag, "", "a value behind it")
        else:
            pairs.append(f"{key}={waiting.pop(0) if waiting else ''}")
    try:
        return load_config(cls, "job", overrides=pairs)
    except ConfigError as error:
        expected = error.expected.removesuffix(" (in --set)")
        raise InvalidParameter(option_flag(error.key), error.value, expected) from None


def option_flag(key: str) -> str:
    """A field's name on the command line."""
    return "--" + key.replace("_", "-")


def option_help(cls: type[Any]) -> list[tuple[str, str]]:
    """(its form, its meaning) of each option, for `zenit job run NAME --help`."""
    return [(f"{option_flag(info.key)}{_metavar(info)}", info.meaning + _default(info)) for info in config_schema(cls)]


def required(key: str, value: object, meaning: str) -> None:
    """Raises ConfigError if an option without a default was not given."""
    if not value:
        raise ConfigError(key, "", meaning)


def moment_ms(key: str, text: str) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 time (local if it has no zone) or of plain milliseconds.

    None for an empty text. Raises ConfigError.
    """
    if not text:
        return None
    if text.isdecimal() and len(text) >= 12:
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        expected = "a time such as 2026-11-21T09:50, or milliseconds since the epoch"
        raise ConfigError(key, text, expected) from None


def _metavar(info: SettingInfo) -> str:
    if info.kind is bool:
        return ""
    if info.choices is not None:
        return " " + "|".join(map(str, info.choices))
    names: Mapping[object, str] = {int: " N", float: " X", str: " TEXT"}
    return names.get(info.kind, " A,B,...")


def _default(info: SettingInfo) -> str:
    if info.kind is bool or not info.default:
        return ""
    return f" [{','.join(info.default) if isinstance(info.default, tuple) else info.default}]"
