"""Where a client connects to instead of the address that it is told."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.remoting.addresses import (
    ENVIRONMENT_DETOURS,
    add_detours,
    by_detour,
    detours_text,
    parse_detours,
    remove_detours,
)
from zenitmq.remoting.base_socket import resolve, resolve_peer

DETOURS = {"broker-a-1:10911": "127.0.0.1:32768", "10.0.0.9:9876": "[::1]:9876"}


def test_the_environment_names_detours() -> None:
    environ = {ENVIRONMENT_DETOURS: detours_text(DETOURS)}
    assert parse_detours(environ[ENVIRONMENT_DETOURS]) == DETOURS
    assert by_detour("broker-a-1:10911", environ) == "127.0.0.1:32768"
    assert by_detour("10.0.0.9:9876", environ) == "[::1]:9876"
    assert by_detour("10.0.0.9:9877", environ) == "10.0.0.9:9877", "of another port it says nothing"
    assert by_detour("10.0.0.9:9876", {ENVIRONMENT_DETOURS: ""}) == "10.0.0.9:9876"


@pytest.mark.parametrize("text", ["broker-a-1:10911", "a:1=b", "a=b:1", "=", "a:1=b:99999", "a:1=b:2;c:3=d:4"])
def test_what_is_no_detour_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"ZENIT_DETOURS.*HOST:PORT=HOST:PORT"):
        by_detour("a:1", {ENVIRONMENT_DETOURS: text})
    with pytest.raises(InvalidParameter):
        add_detours({"a:1": "b"})


def test_detours_of_a_process_come_first_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_DETOURS, "nowhere.invalid:10911=127.0.0.1:1")
    assert resolve_peer("nowhere.invalid:10911") == "tcp://127.0.0.1:1"
    add_detours({"nowhere.invalid:10911": "127.0.0.1:2"})
    try:
        assert resolve_peer("nowhere.invalid:10911") == "tcp://127.0.0.1:2"
    finally:
        remove_detours({"nowhere.invalid:10911": "127.0.0.1:2"})
    assert resolve_peer("nowhere.invalid:10911") == "tcp://127.0.0.1:1"


def test_a_server_binds_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_DETOURS, "127.0.0.1:10911=127.0.0.1:1")
    assert resolve("127.0.0.1:10911") == "tcp://127.0.0.1:10911"
