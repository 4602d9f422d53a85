"""What a client takes of its process: given back when it closes, and told by name where there is no more."""

from __future__ import annotations

import errno
import gc
import weakref
from typing import Any

import pytest
import zmq

from zenitmq.model.errors import NoDescriptors
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply

ASK = GetMaxOffset("t", 0)


def test_a_client_that_is_closed_is_freed_though_its_threads_live_on(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    client = RemotingClient()
    client.call(served.address, ASK, timeout_ms=5000)
    client.close()
    left = weakref.ref(client)
    del client
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("refused", ["socket", "monitor"])
def test_no_descriptor_left_is_told_by_name(serve: Any, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})

    def refuse(*_: object, **__: object) -> None:
        raise zmq.ZMQError(errno.EMFILE)

    with RemotingClient() as client:
        client.call(served.address, GetMaxOffset("t", 0), timeout_ms=5000)
        with monkeypatch.context() as full:
            full.setattr(
                *((zmq.Context, "socket") if refused == "socket" else (zmq.Socket, "get_monitor_socket")), refuse
            )
            with pytest.raises(NoDescriptors, match="ulimit"):
                client.send_nowait(served.address, ASK, None, timeout_ms=1000, on_reply=lambda *_: None)
        assert client.call(served.address, ASK, timeout_ms=5000)[0] == OffsetReply(1)
