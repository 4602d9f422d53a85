"""What the barest proxy in Python costs: bytes of each connection go on to another port, and back, as they come.

python bare_relay.py PORT TO_PORT [SAID INSTEAD]     in what comes back, one text instead of another of the same length
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

HOST = "127.0.0.1"


class _OneWay(asyncio.Protocol):
    """Writes what comes to the connection at the other side."""

    other: asyncio.Transport | None = None

    def __init__(self, said: bytes, instead: bytes) -> None:
        self._said, self._instead = said, instead
        self._early: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        if self._said:
            data = data.replace(self._said, self._instead)
        if self.other is None:
            self._early.append(data)
        else:
            self.other.write(data)

    def join(self, other: asyncio.Transport) -> None:
        """From now on it is known."""
        self.other = other
        for data in self._early:
            other.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


async def relay(port: int, to_port: int, said: bytes, instead: bytes) -> None:
    """Until it is ended."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    class Front(_OneWay):
        def connection_made(self, transport: Any) -> None:
            task = loop.create_task(self._connect(transport))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        async def _connect(self, own: asyncio.Transport) -> None:
            back, behind = await loop.create_connection(lambda: _OneWay(said, instead), HOST, to_port)
            behind.join(own)
            self.join(back)

    server = await loop.create_server(lambda: Front(b"", b""), HOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    numbers, texts = sys.argv[1:3], [text.encode() for text in sys.argv[3:]] or [b"", b""]
    uvloop.run(relay(int(numbers[0]), int(numbers[1]), texts[0], texts[1]))
