"""A network that loses answers: what was asked is done, and the one who asked is told that nobody answered."""

from __future__ import annotations

import random
from typing import Any

import pytest

from zenitmq.model.errors import ConnectionLost, RequestTimeout
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient

SENDS = (commands.SendMessages, commands.SendSequenced, commands.SendDelayed, commands.SendDelayedSequenced)


class LyingNetwork:
    """Of all clients that are made from now on, while the test runs. `lies`: how many answers it kept. `keeps_all`: it keeps
    each answer to a send; `is_honest`: it keeps none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self._random = random.Random(seed)
        self.lies = 0
        self.is_honest = self.keeps_all = False
        call, send_nowait = RemotingClient.call, RemotingClient.send_nowait

        def lying_call(
            client: RemotingClient, address: str, request: Any, payload: Any = None, *, timeout_ms: int
        ) -> Any:
            fate = self._fate(request)
            if fate == "lost before":
                raise ConnectionLost(address)
            answer = call(client, address, request, payload, timeout_ms=timeout_ms)
            if fate == "sent twice":
                call(client, address, request, payload, timeout_ms=timeout_ms)
            if fate is not None:
                raise RequestTimeout("a send", timeout_ms)
            return answer

        def lying_send(
            client: RemotingClient, address: str, request: Any, payload: Any, *, timeout_ms: int, on_reply: Any
        ) -> None:
            fate = self._fate(request)
            if fate == "lost before":
                raise ConnectionLost(address)

            def told(reply: Any, data: bytes, error: Any) -> None:
                if fate is not None:
                    on_reply(None, b"", error or RequestTimeout("a send", timeout_ms))
                else:
                    on_reply(reply, data, error)

            if fate == "sent twice":
                send_nowait(client, address, request, payload, timeout_ms=timeout_ms, on_reply=lambda *_: None)
            send_nowait(client, address, request, payload, timeout_ms=timeout_ms, on_reply=told)

        monkeypatch.setattr(RemotingClient, "call", lying_call)
        monkeypatch.setattr(RemotingClient, "send_nowait", lying_send)

    def _fate(self, request: Any) -> str | None:
        if self.is_honest or not isinstance(request, SENDS):
            return None
        if self.keeps_all:
            return "lost after"
        fate = self._random.choices((None, "lost before", "lost after", "sent twice"), (60, 10, 20, 10))[0]
        self.lies += fate is not None
        return fate
