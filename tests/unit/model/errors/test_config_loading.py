"""Configuration: which source wins, and what is refused under which name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from zenitmq.model.config import check_settings, config_schema, describe_config, load_config, section, setting
from zenitmq.model.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    segment_bytes: int = setting(1 << 20, "size of a file", minimum=4096, maximum=1 << 30)
    clean_ratio: float = setting(0.75, "delete above this share", minimum=0, maximum=1, online=True)
    first: int = setting(1, "must be below last", minimum=0)
    last: int = setting(9, "must be above first")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.first >= self.last:
            raise ConfigError("first", self.first, f"less than last ({self.last})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    port: int = setting(10911, "where clients connect", minimum=0, maximum=65535)
    namesrv: tuple[str, ...] = setting(("127.0.0.1:9876",), "name servers")
    mode: str = setting("async", "when to flush", choices=("async", "sync"))
    loud: bool = setting(False, "say more")
    lanes: tuple[str, ...] = setting((), "lanes to trace", choices=("send", "pull"))
    store: Disk = section(Disk)


def load(**sources: object) -> Role:
    return load_config(Role, "broker", **sources)  # type: ignore[arg-type]


def file_with(tmp_path: Path, text: str) -> str:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return str(path)


def test_without_sources_the_defaults_hold() -> None:
    assert load() == Role()
    assert load().store.segment_bytes == 1 << 20


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    """Each source sets one key more than the next one overrides, so that every step of the order shows."""
    file = file_with(tmp_path, "port = 1\nmode = 'sync'\nloud = true\n[store]\nsegment_bytes = 8192\n")
    environ = {"ZENIT_BROKER__PORT": "2", "ZENIT_STORE__SEGMENT_BYTES": "16384", "HOME": "/root"}
    role = load(file=file, environ=environ, overrides=["port=3"])
    assert (role.port, role.store.segment_bytes, role.mode, role.loud) == (3, 16384, "sync", True)
    assert load(file=file, environ=environ).port == 2
    assert load(file=file).port == 1


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("port", " 0 ", 0),
        ("port", "65535", 65535),
        ("loud", "TRUE", True),
        ("loud", "false", False),
        ("namesrv", "a:1, b:2", ("a:1", "b:2")),
        ("namesrv", "", ()),
        ("mode", "sync", "sync"),
        ("lanes", "pull,send", ("pull", "send")),
        ("store.clean_ratio", "1", 1.0),
        ("store.clean_ratio", "5e-1", 0.5),
    ],
)
def test_texts_become_values(key: str, text: str, value: object) -> None:
    described = describe_config(load(overrides=[f"{key}={text}"]))
    assert described[key] == value
    assert type(described[key]) is type(value)


def test_toml_lists_and_whole_numbers_for_ratios(tmp_path: Path) -> None:
    role = load(file=file_with(tmp_path, 'namesrv = ["a:1"]\n[store]\nclean_ratio = 1\n'))
    assert role.namesrv == ("a:1",)
    assert role.store.clean_ratio == 1.0


@pytest.mark.parametrize(
    ("override", "key", "value", "expected"),
    [
        ("prot=1", "prot", "1", "a known key; the nearest is port (in --set)"),
        (
            "store.segment_byte=1",
            "store.segment_byte",
            "1",
            "a known key; the nearest is store.segment_bytes (in --set)",
        ),
        ("zzzzzz=1", "zzzzzz", "1", "a known key (in --set)"),
        ("port=65536", "port", "65536", "an integer from 0 to 65535 (in --set)"),
        ("port=-1", "port", "-1", "an integer from 0 to 65535 (in --set)"),
        ("port=one", "port", "one", "an integer from 0 to 65535 (in --set)"),
        ("port=", "port", "", "an integer from 0 to 65535 (in --set)"),
        ("store.first=-1", "store.first", "-1", "an integer of at least 0 (in --set)"),
        ("store.clean_ratio=nan", "store.clean_ratio", "nan", "a number from 0 to 1 (in --set)"),
        ("store.clean_ratio=inf", "store.clean_ratio", "inf", "a number from 0 to 1 (in --set)"),
        ("loud=yes", "loud", "yes", "true or false (in --set)"),
        ("mode=never", "mode", "never", "one of async, sync (in --set)"),
        ("lanes=send,dig", "lanes", "('send', 'dig')", "a list of texts of send, pull (in --set)"),
        ("port", "--set", "port", "key=value"),
        ("store=1", "store", "1", "a known key; the nearest is store.last (in --set)"),
    ],
)
def test_refusals_name_key_value_and_range(override: str, key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=[override])
    assert (refused.value.key, refused.value.value, refused.value.expected) == (key, value, expected)
    assert all(part in str(refused.value) for part in (key, value, expected))


@pytest.mark.parametrize(
    "text",
    ["port = '1'", "port = 1.0", "port = true", "loud = 1", "namesrv = 'a:1'", "namesrv = [1]", "mode = ['sync']"],
)
def test_a_toml_value_of_another_type_is_refused_with_the_file(tmp_path: Path, text: str) -> None:
    file = file_with(tmp_path, text)
    with pytest.raises(ConfigError, match=f"in {file}"):
        load(file=file)


@pytest.mark.parametrize("text", ["port = ", "[store", "port = 1\nport = 2", "\udcff"])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match="a TOML file"):
        load(file=str(path))


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a readable file"):
        load(file=str(tmp_path / "absent.toml"))


def test_other_roles_variables_are_passed_over_but_slips_are_not() -> None:
    assert (
        load(environ={"ZENIT_NAMESRV__PORT": "1", "ZENIT_NAMESRV": "a:1", "ZENIT_": "", "OTHER__PORT": "5"}) == Role()
    )
    with pytest.raises(ConfigError, match=r"store\.segment_bytes"):
        load(environ={"ZENIT_STOER__SEGMENT_BYTES": "8192"})
    with pytest.raises(ConfigError, match="ZENIT_BROKER__PROT"):
        load(environ={"ZENIT_BROKER__PROT": "1"})


def test_a_sections_own_refusal_carries_the_section() -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=["store.first=9"])
    assert (refused.value.key, refused.value.expected) == ("store.first", "less than last (9)")


def test_values_given_in_code_are_checked_too() -> None:
    with pytest.raises(ConfigError, match="segment_bytes"):
        Disk(segment_bytes=1)


def test_the_schema_lists_every_key_and_the_variable_that_sets_it() -> None:
    schema = config_schema(Role)
    assert [info.key for info in schema] == [
        *("port", "namesrv", "mode", "loud", "lanes"),
        *("store.segment_bytes", "store.clean_ratio", "store.first", "store.last"),
    ]
    by_key = {info.key: info for info in schema}
    assert by_key["port"].environment("broker") == "ZENIT_BROKER__PORT"
    assert by_key["store.segment_bytes"].environment("broker") == "ZENIT_STORE__SEGMENT_BYTES"
    assert by_key["store.clean_ratio"].online
    assert not by_key["port"].online
    assert describe_config(Role()) == {info.key: info.default for info in schema}
    for info in schema:
        text = ",".join(info.default) if isinstance(info.default, tuple) else str(info.default)
        assert describe_config(load(environ={info.environment("broker"): text}))[info.key] == info.default


def test_a_field_that_is_no_setting_is_our_own_mistake() -> None:
    @dataclass(frozen=True)
    class Bare:
        port: int = 1

    with pytest.raises(TypeError, match=r"Bare\.port"):
        config_schema(Bare)


@pytest.mark.parametrize(
    "text",
    [
        f"port = 1{'0' * 400}",
        f"port = 1{'0' * 5000}",
        f"[store]\nlast = 1{'0' * 400}",
        f"[store]\nclean_ratio = 1{'0' * 400}",
        f"lanes = {'[' * 5000}",
        f"{'a.' * 3000}b = 1",
    ],
    ids=["large", "of many digits", "large without a maximum", "no number", "brackets", "tables"],
)
def test_what_python_itself_stumbles_over_is_refused_too(tmp_path: Path, text: str) -> None:
    """A running server reads its file again: whatever is in it, it must go on."""
    with pytest.raises(ConfigError):
        load(file=file_with(tmp_path, text))


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="--config"):
        load(file="a\0b")
