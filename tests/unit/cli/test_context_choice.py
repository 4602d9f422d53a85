"""Which cluster a command talks to, and the file that keeps the names of clusters."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from zenitmq.cli import context_file
from zenitmq.cli.context_file import (
    Contexts,
    change_contexts,
    choose,
    contexts_path,
    decode_contexts,
    encode_contexts,
    read_contexts,
)
from zenitmq.model.errors import InvalidParameter, StoreFormatError

KNOWN = Contexts({"prod": "mq1:9876,mq2:9876", "test": "t:9876"}, "prod")
BOTH = {"ZENIT_NAMESRV": "e:1", "ZENIT_CONTEXT": "test"}


@pytest.mark.parametrize(
    ("address", "name", "environ", "chosen"),
    [
        ("a:1", None, BOTH, "a:1"),
        (None, "prod", BOTH, "mq1:9876,mq2:9876"),
        (None, None, BOTH, "e:1"),
        (None, None, {"ZENIT_CONTEXT": "test"}, "t:9876"),
        (None, None, {}, "mq1:9876,mq2:9876"),
    ],
)
def test_flags_come_before_the_environment_and_that_before_the_file(
    address: str | None, name: str | None, environ: dict[str, str], chosen: str
) -> None:
    assert choose(address, name, environ, lambda: KNOWN) == chosen


def test_without_any_the_client_looks_for_a_cluster_of_this_machine() -> None:
    assert choose(None, None, {}, Contexts) is None


@pytest.mark.parametrize(("address", "name"), [("a:1", "prod"), (None, "nix"), ("nonsense", None)])
def test_what_cannot_be_chosen_is_refused(address: str | None, name: str | None) -> None:
    with pytest.raises(InvalidParameter):
        choose(address, name, {}, lambda: KNOWN)


@pytest.mark.parametrize("name", ["", "host:9876", "a.b", "a,b", "-x", "a b", "x" * 65])
def test_no_name_can_be_taken_for_an_address(name: str) -> None:
    with pytest.raises(InvalidParameter):
        KNOWN.with_context(name, "a:1")


def test_one_that_is_removed_is_not_in_use() -> None:
    assert KNOWN.without("prod") == Contexts({"test": "t:9876"}, None)
    assert KNOWN.without("test").current == "prod"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"contexts": {"a": 1}, "current": null}', '{"contexts": {}, "current": "a"}', "[" * 9999]
)
def test_a_file_that_is_none_is_told_by_its_name(text: str) -> None:
    with pytest.raises(StoreFormatError, match="/where"):
        decode_contexts(text, "/where")


def test_the_file_is_its_users_alone_and_says_again_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert read_contexts() == Contexts()
    change_contexts(lambda contexts: contexts.with_context("prod", "mq1:9876").using("prod"))
    assert read_contexts() == Contexts({"prod": "mq1:9876"}, "prod")
    assert stat.S_IMODE(Path(contexts_path()).stat().st_mode) == 0o600
    assert [path.name for path in Path(contexts_path()).parent.iterdir()] == ["contexts.json"]
    assert decode_contexts(encode_contexts(KNOWN), "") == KNOWN


def test_a_command_that_stands_still_keeps_no_other_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(context_file, "LOCK_WAIT_MS", 50)
    (tmp_path / "zenit").mkdir()
    held = os.open(tmp_path / "zenit", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(OSError, match="another `zenit context`"):
        change_contexts(lambda contexts: contexts)
    os.close(held)
    assert change_contexts(lambda contexts: contexts) == Contexts()
