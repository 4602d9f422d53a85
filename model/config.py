"""Configuration: one frozen keyword-only dataclass per role, read once at the start; an unknown key is refused by name.
Pure.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class BrokerConfig:
        port: int = setting(10911, "TCP port that clients connect to; 0 takes a free one", minimum=0, maximum=65535)
        store: StoreConfig = section(StoreConfig)

A later source wins: defaults, then the TOML file (`port = 1`, `[store]` tables), then the environment (`ZENIT_BROKER__PORT`
for a role's own keys, `ZENIT_STORE__SEGMENT_BYTES` for a section's), then `--set` (`store.segment_bytes=65536`). Types are
int, float, bool, str and tuple[str, ...] (text: comma-separated). Every refusal is a ConfigError with the key, the value,
and the range or the nearest known key. A key is dotted: `store.segment_bytes`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, cast, get_type_hints

from .errors import ConfigError
from .plain_dataclass import dataclass

Value = int | float | bool | str | tuple[str, ...]

ENVIRONMENT_PREFIX: Final = "ZENIT_"
TEXTS: Final = tuple[str, ...]
INTEGER_MAX: Final = (1 << 63) - 1

_METADATA: Final = "zenit.setting"
_TYPE_NAMES: Final[Mapping[object, str]] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a text",
    TEXTS: "a list of texts",
}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One key as `zenit config schema` prints it. `online`: a change takes effect without a restart."""

    key: str
    kind: object  # int, float, bool, str or TEXTS
    default: Value
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Value, ...] | None = None
    online: bool = False

    @property
    def expected(self) -> str:
        """The rule for values as text: "an integer from 0 to 65535"."""
        kind = _TYPE_NAMES[self.kind]
        if self.choices is not None:
            listed = ", ".join(str(choice) or '""' for choice in self.choices)
            return f"{kind} of {listed}" if self.kind == TEXTS else f"one of {listed}"
        if self.minimum is not None and self.maximum is not None:
            return f"{kind} from {self.minimum} to {self.maximum}"
        if self.minimum is not None:
            return f"{kind} of at least {self.minimum}"
        return kind if self.maximum is None else f"{kind} of at most {self.maximum}"

    def environment(self, role: str) -> str:
        """The environment variable that sets this key for a role."""
        path = self.key if "." in self.key else f"{role}.{self.key}"
        return ENVIRONMENT_PREFIX + path.replace(".", "__").upper()


@dataclass(frozen=True, slots=True)
class _Setting:
    meaning: str
    minimum: float | None
    maximum: float | None
    choices: tuple[Value, ...] | None
    online: bool


def setting(
    default: _T,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[Value] | None = None,
    online: bool = False,
) -> _T:
    """A field of a configuration dataclass. `meaning` says what it trades; `minimum` and `maximum` are inclusive."""
    facts = _Setting(meaning, minimum, maximum, None if choices is None else tuple(choices), online)
    return dataclasses.field(default=default, metadata={_METADATA: facts})


def section(cls: type[_T]) -> _T:
    """A field that is itself a configuration dataclass: the table of the field's name."""
    return dataclasses.field(default_factory=cls)


def config_schema(cls: type[Any]) -> list[SettingInfo]:
    """Every key of a configuration class and its sections, in the order of declaration."""
    return list(_schema(cast(Hashable, cls)))


def with_online_changes(running: _T, wanted: _T) -> tuple[_T, dict[str, Value], list[str]]:
    """What changes without a restart: (`running` with the online keys of `wanted`, {such a key: its new value}, the keys that
    differ too but wait for a restart). Raises ConfigError if these values contradict what goes on running."""
    schema = config_schema(type(running))
    values = {info.key: _read(running, info.key) for info in schema}
    differing = {info.key: _read(wanted, info.key) for info in schema if _read(wanted, info.key) != values[info.key]}
    changed = {info.key: differing[info.key] for info in schema if info.online and info.key in differing}
    waiting = [key for key in differing if key not in changed]
    return cast(_T, _build(type(running), values | changed, "")), changed, waiting


def describe_config(config: Any) -> dict[str, Value]:
    """{dotted key: running value}, in the order of the schema; printed at the start."""
    return {info.key: _read(config, info.key) for info in config_schema(type(config))}


def check_settings(config: Any) -> None:
    """Raises ConfigError if a value is out of range. For `__post_init__` of a class that is also created in code."""
    for info in config_schema(type(config)):
        _check(info, _read(config, info.key), info.key, "")


def load_config(
    cls: type[_T],
    role: str,
    *,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> _T:
    """The configuration of a role from all its sources; `overrides` are the texts after `--set`. Raises ConfigError."""
    schema = {info.key: info for info in config_schema(cls)}
    values: dict[str, Value] = {}
    if file is not None:
        for key, raw in _read_toml(file):
            info = _find(schema, key, raw, f" (in {file})")
            values[key] = _check(info, _from_toml(info, raw), key, f" (in {file})")
    for name, key, text in _environment_settings(schema, role, environ or {}):
        info = _find(schema, key, text, f" (in the environment, {name})")
        values[key] = _check(info, _from_text(info, text), key, f" (in the environment, {name})")
    for override in overrides:
        key, separator, text = override.partition("=")
        key = key.strip()
        if not separator:
            raise ConfigError("--set", override, "key=value")
        info = _find(schema, key, text, " (in --set)")
        values[key] = _check(info, _from_text(info, text), key, " (in --set)")
    return cast(_T, _build(cls, values, ""))


@cache
def _schema(cls: Hashable) -> tuple[SettingInfo, ...]:
    return tuple(_walk(cast(type[Any], cls), ""))


@cache
def _kinds(cls: Hashable) -> Mapping[str, Any]:
    """The types of the fields: Python compiles the texts of all of them each time it is asked."""
    return get_type_hints(cast(type[Any], cls))


def _walk(cls: type[Any], prefix: str) -> Iterator[SettingInfo]:
    kinds = _kinds(cast(Hashable, cls))
    for field in dataclasses.fields(cls):
        key, kind = prefix + field.name, kinds[field.name]
        if dataclasses.is_dataclass(kind):
            yield from _walk(cast(type[Any], kind), key + ".")
            continue
        if kind not in _TYPE_NAMES or _METADATA not in field.metadata:
            raise TypeError(
                f"{cls.__name__}.{field.name}: expected setting(...) of int, float, bool, str or tuple[str, ...]"
            )
        facts: _Setting = field.metadata[_METADATA]
        yield SettingInfo(
            key,
            kind,
            cast(Value, field.default),
            facts.meaning,
            facts.minimum,
            facts.maximum,
            facts.choices,
            facts.online,
        )


def _build(cls: type[Any], values: Mapping[str, Value], prefix: str) -> Any:
    """Creates an instance from flat values; an error of a section's own `__post_init__` gets the section's name as prefix."""
    kinds = _kinds(cast(Hashable, cls))
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        key, kind = prefix + field.name, kinds[field.name]
        if dataclasses.is_dataclass(kind):
            arguments[field.name] = _build(cast(type[Any], kind), values, key + ".")
        elif key in values:
            arguments[field.name] = values[key]
    try:
        return cls(**arguments)
    except ConfigError as error:
        if not prefix or error.key.startswith(prefix):
            raise
        raise ConfigError(prefix + error.key, error.value, error.expected) from None


def _read(config: Any, key: str) -> Value:
    for name in key.split("."):
        config = getattr(config, name)
    return cast(Value, config)


def _read_toml(file: str) -> list[tuple[str, Any]]:
    try:
        with open(file, "rb") as stream:
            return list(_flatten(tomllib.load(stream), ""))
    except OSError as error:
        raise ConfigError("--config", file, f"a readable file ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # not only TOMLDecodeError: a number of 5,000 digits, 1,000 brackets
        raise ConfigError("--config", file, f"a TOML file ({error})") from error


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, raw in table.items():
        if isinstance(raw, dict):
            yield from _flatten(raw, f"{prefix}{name}.")
        else:
            yield prefix + name, raw


def _environment_settings(
    schema: Mapping[str, SettingInfo], role: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """(variable, key, text) of the variables for this role.

    A shell may hold other roles' settings too, so a section that is not ours is skipped, unless it looks like a misspelling
    of one of ours: then the key is unknown and will be refused.
    """
    sections = {role, *(key.partition(".")[0] for key in schema if "." in key)}
    for name in sorted(environ):
        path = name[len(ENVIRONMENT_PREFIX) :].lower()
        if not name.startswith(ENVIRONMENT_PREFIX) or "__" not in path:
            continue
        head, _, rest = path.partition("__")
        if head in sections or difflib.get_close_matches(head, sections, 1, 0.75):
            key = rest if head == role else path
            yield name, key.replace("__", "."), environ[name]


def _find(schema: Mapping[str, SettingInfo], key: str, raw: object, source: str) -> SettingInfo:
    info = schema.get(key)
    if info is None:
        nearest = difflib.get_close_matches(key, schema, 1, 0.5)
        hint = f"; the nearest is {nearest[0]}" if nearest else ""
        raise ConfigError(key, raw, f"a known key{hint}{source}")
    return info


def _from_toml(info: SettingInfo, raw: Any) -> object:
    if info.kind == TEXTS and isinstance(raw, list):
        return tuple(raw)
    return float(raw) if info.kind is float and type(raw) is int and abs(raw) <= INTEGER_MAX else raw


def _from_text(info: SettingInfo, text: str) -> object:
    """The value that a text stands for, or the text itself if it is invalid (the check then refuses it)."""
    stripped = text.strip()
    try:
        if info.kind is int:
            return int(stripped)
        if info.kind is float:
            return float(stripped)
    except ValueError:
        return text
    if info.kind is bool:
        return {"true": True, "false": False}.get(stripped.lower(), text)
    if info.kind == TEXTS:
        return tuple(part.strip() for part in stripped.split(",") if part.strip())
    return text


def _check(info: SettingInfo, value: object, key: str, source: str) -> Value:
    if not _fits(info, value):
        raise ConfigError(key, value, info.expected + source)
    return cast(Value, value)


def _fits(info: SettingInfo, value: object) -> bool:
    """Whether a value is of the key's type, among its choices and within its range."""
    if info.kind == TEXTS:
        if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
            return False
        return info.choices is None or all(part in info.choices for part in value)
    if type(value) is not info.kind and not (info.kind is float and type(value) is int):
        return False
    if info.choices is not None and value not in info.choices:
        return False
    if isinstance(value, (int, float)):
        if type(value) is int and abs(value) > INTEGER_MAX:
            return False
        above = info.minimum is None or value >= info.minimum
        below = info.maximum is None or value <= info.maximum
        return math.isfinite(value) and above and below
    return True
