"""Whatever stands in a file, the environment or --set: a value within the rules comes out, or a ConfigError."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.config import INTEGER_MAX, config_schema, describe_config, load_config, section, setting
from zenitmq.model.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    size_bytes: int = setting(8, "a size", minimum=4, maximum=64)
    ratio: float = setting(0.5, "a share", minimum=0, maximum=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    count: int = setting(1, "a count", minimum=0)
    mode: str = setting("a", "a mode", choices=("a", "b"))
    loud: bool = setting(False, "loudness")
    names: tuple[str, ...] = setting((), "names")
    inner: Inner = section(Inner)


KEYS = [info.key for info in config_schema(Outer)]
TEXTS = (
    st.text(max_size=12)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.sampled_from(["a", "true", "1e999", "٣", "1_0"])
)
SETTINGS = st.lists(st.tuples(st.sampled_from(KEYS) | st.text(max_size=12), TEXTS), max_size=3)


@given(SETTINGS)
def test_any_overrides_load_or_are_refused(settings: list[tuple[str, str]]) -> None:
    try:
        config = load_config(Outer, "outer", overrides=[f"{key}={text}" for key, text in settings])
    except ConfigError:
        return
    assert config.count >= 0
    assert config.mode in ("a", "b")
    assert 4 <= config.inner.size_bytes <= 64
    assert 0 <= config.inner.ratio <= 1
    assert not math.isnan(config.inner.ratio)
    assert {key.strip() for key, _ in settings} <= set(KEYS)


@given(SETTINGS)
def test_the_environment_and_overrides_mean_the_same(settings: list[tuple[str, str]]) -> None:
    by_key = {key: text for key, text in settings if key in KEYS}
    variables = {info.environment("outer"): by_key[info.key] for info in config_schema(Outer) if info.key in by_key}

    def outcome(**sources: object) -> object:
        try:
            return describe_config(load_config(Outer, "outer", **sources))  # type: ignore[arg-type]
        except ConfigError as refused:
            return refused.key, refused.value

    overrides = [f"{key}={text}" for key, text in sorted(by_key.items())]
    first, second = outcome(environ=variables), outcome(overrides=overrides)
    assert first == second or len(by_key) > 1  # of several refusals either source names its first


@given(
    st.integers(4, 64),
    st.floats(0, 1),
    st.integers(0, INTEGER_MAX),
    st.booleans(),
    st.lists(st.text("abc:1", min_size=1), max_size=3),
)
def test_what_is_described_loads_again(size_bytes: int, ratio: float, count: int, loud: bool, names: list[str]) -> None:
    config = Outer(count=count, loud=loud, names=tuple(names), inner=Inner(size_bytes=size_bytes, ratio=ratio))
    described = describe_config(config)
    texts = {key: ",".join(value) if isinstance(value, tuple) else str(value) for key, value in described.items()}
    assert load_config(Outer, "outer", overrides=[f"{key}={text}" for key, text in texts.items()]) == config
