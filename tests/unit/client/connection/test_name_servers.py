"""Asking one name server after another: what the errors of those that do not know keep alive."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest

from zenitmq.client.connection.name_servers import NameServers
from zenitmq.client.connection.waiting import run_blocking
from zenitmq.model.errors import (
    AuthenticationFailed,
    ConnectionLost,
    HandshakeFailed,
    NoRoute,
    RequestTimeout,
    ZenitError,
)
from zenitmq.remoting.commands import GetRoute, RouteReply

ROUTE = RouteReply((), (), 0, ())


class Waits:
    """Each call is answered by the next of these; None: nobody knows."""

    def __init__(self, *answers: object) -> None:
        self._answers = iter(answers)

    async def call(self, *_: object, **__: object) -> Any:
        answer = next(self._answers)
        if answer is None:
            raise NoRoute("t", "nobody")
        return answer, b""


class Caller:
    """Somebody who asks, such as a producer."""

    def ask(self, *answers: object) -> None:
        servers = NameServers(("a:1", "b:2"))
        with suppress(NoRoute):
            run_blocking(servers.ask(GetRoute("t"), Waits(*answers), timeout_ms=1000))  # type: ignore[arg-type]


@pytest.mark.parametrize("second", [None, ROUTE], ids=["nobody knows", "the second one knows"])
def test_an_error_keeps_none_of_those_who_asked(second: object) -> None:
    """A producer that was dropped warned, and was closed, only at a collection that happened to come by."""
    caller = Caller()
    gone = weakref.ref(caller)
    gc.disable()
    try:
        caller.ask(None, second)
        del caller
        assert gone() is None
    finally:
        gc.enable()


class OneKnows:
    """The first name server does not know our key yet."""

    async def call(self, address: str, *_: object, **__: object) -> Any:
        if address == "a:1":
            raise AuthenticationFailed(address, "it does not know the key")
        return ROUTE, b""


def test_a_server_that_does_not_know_the_key_yet_is_passed_over() -> None:
    """It has just started, or was cut off from the masters: the other one lets us in."""
    servers = NameServers(("a:1", "b:2"))
    assert run_blocking(servers.ask(GetRoute("t"), OneKnows(), timeout_ms=1000)) == (ROUTE, b"", "b:2")  # type: ignore[arg-type]
    assert servers.preferred == "b:2"
    alone = NameServers(("a:1",))
    with pytest.raises(AuthenticationFailed):
        run_blocking(alone.ask(GetRoute("t"), OneKnows(), timeout_ms=1000))  # type: ignore[arg-type]


class EndsHandshakes:
    """The name server ends the first handshake, and what the second try comes to is given."""

    def __init__(self, second: ZenitError) -> None:
        self._errors = iter((HandshakeFailed("a:1", "does it want a key?"), second))

    async def call(self, *_: object, **__: object) -> Any:
        raise next(self._errors)


@pytest.mark.parametrize(
    "second", [ConnectionLost("a:1"), RequestTimeout("x", 1), HandshakeFailed("a:1", "want a key")]
)
def test_a_handshake_that_failed_is_told_whatever_comes_of_the_second_try(second: ZenitError) -> None:
    with pytest.raises(HandshakeFailed, match="want a key"):
        run_blocking(NameServers(("a:1",)).ask(GetRoute("t"), EndsHandshakes(second), timeout_ms=1000))  # type: ignore[arg-type]
