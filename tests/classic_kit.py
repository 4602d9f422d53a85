"""The proxy's classic front in a thread of the test's process; clients of it: RocketMQ's Java driver, and bare frames."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryFile
from typing import Any, Self

from classic_clients import java_command
from loop_kit import serving

from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.classic.frames import LENGTH_BYTES, ClassicFrame, decode_frame, encode_frame, frame_bytes
from zenitmq.proxy.config import ProxyConfig
from zenitmq.proxy.tcp_server import RemotingServer, serve_remoting

CLIENT_S = 90.0


@dataclass
class RunningFront:
    """`server` belongs to its own thread's event loop: `on_loop` runs something there."""

    server: RemotingServer
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        """What clients take for their name server."""
        return f"127.0.0.1:{self.server.port}"

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """Its result."""

        async def within() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(within(), self.loop).result(10)


@contextmanager
def running_front(namesrv: str, **settings: Any) -> Iterator[RunningFront]:
    """Serves until it is left."""
    given = {"port": -1, "remoting_port": 0, "broker_port": 0, "drain_ms": 500, **settings}
    config = ProxyConfig(namesrv=(namesrv,), **given)

    @asynccontextmanager
    async def opening() -> AsyncIterator[RunningFront]:
        async with Backs(config) as backs, serve_remoting(config, backs) as server:
            yield RunningFront(server, asyncio.get_running_loop())

    with serving("classic-front", opening) as front:
        yield front


class RemotingProcess:
    """`zenit proxy` for remoting alone, in a process that a test can kill."""

    def __init__(self, namesrv: str, *more: str) -> None:
        """`more`: settings, as "name=value"."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        settings = (f"namesrv={namesrv}", "port=-1", f"remoting_port={self.port}", "broker_port=0", *more)
        words = [word for setting in settings for word in ("--set", setting)]
        zenit = str(Path(sys.executable).with_name("zenit"))
        self._process = subprocess.Popen([zenit, "proxy", *words], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        assert any("proxy started" in line for line in self._process.stderr), "the proxy did not start"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """At once, whatever it is doing."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


class ClientScenario:
    """One run of a driver of one of RocketMQ's clients."""

    def __init__(self, command: list[str], namesrv: str, scenario: str, **asked: object) -> None:
        words = [namesrv, scenario, *(f"{name}={value}" for name, value in asked.items())]
        self.lines: list[list[str]] = []
        """All that it told so far."""
        self._said = TemporaryFile("w+")  # noqa: SIM115  # nobody reads it while the driver runs: a pipe would fill
        self.process = subprocess.Popen(
            [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._said.close()

    def await_line(self, first: str) -> list[str]:
        """Its next line that begins with that word."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.rstrip("\n").split("\t")
            self.lines.append(words)
            if words[0] == first:
                return words
        raise AssertionError(f"it ended before {first!r}: {self.said()}")

    def facts(self) -> list[list[str]]:
        """All that it tells and that was not awaited, once it has ended well."""
        with self:
            out = self._rest()
            assert self.process.returncode == 0, self.said() + out[-2000:]
        facts = [line.split("\t") for line in out.splitlines()]
        self.lines += facts
        return facts

    def refused(self) -> str:
        """What it said when it ended with an error."""
        with self:
            self._rest()
            assert self.process.returncode not in (0, -SIGKILL), self.said()
            return self.said()

    def _rest(self) -> str:
        """Lines that are read already are in a buffer, of which `communicate` does not know."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        late = threading.Timer(CLIENT_S, self.process.kill)
        late.start()
        try:
            with suppress(BrokenPipeError):
                self.process.stdin.write("end\n")
                self.process.stdin.close()
            out = self.process.stdout.read()
            self.process.wait()
        finally:
            late.cancel()
        return out

    def said(self) -> str:
        """The last of what it wrote to stderr."""
        self._said.seek(0)
        return self._said.read()[-4000:]


class JavaScenario(ClientScenario):
    """Of the Java client (proxy/java/Scenario.java)."""

    def __init__(self, version: str, namesrv: str, scenario: str, **asked: object) -> None:
        super().__init__(java_command(version), namesrv, scenario, **asked)


def told(facts: list[list[str]], first: str) -> list[list[str]]:
    """What follows that word in each line that begins with it."""
    return [words[1:] for words in facts if words[0] == first]


class BareClient:
    """A connection on which frames are written and read by hand. `language`: as it says in them."""

    def __init__(self, port: int, *, language: str = "JAVA") -> None:
        self.language = language
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, code: int, body: bytes = b"", *, flag: int = 0, is_json: bool = True, **fields: object) -> int:
        """Its opaque."""
        self._opaque += 1
        texts = {name: str(value) for name, value in fields.items()}
        frame = ClassicFrame(code, self._opaque, flag, "", texts, body, self.language, is_json=is_json)
        self.socket.sendall(encode_frame(frame))
        return self._opaque

    def read(self) -> ClassicFrame:
        """The next frame."""
        prefix = self._exactly(LENGTH_BYTES)
        return decode_frame(prefix + self._exactly(frame_bytes(prefix) - LENGTH_BYTES))

    def ask(self, code: int, body: bytes = b"", *, is_json: bool = True, **fields: object) -> ClassicFrame:
        """The answer; what is pushed before it is left out."""
        opaque = self.send(code, body, is_json=is_json, **fields)
        while True:
            frame = self.read()
            if frame.is_reply:
                assert frame.opaque == opaque
                return frame

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data


def heartbeat(client_id: str, group: str, topic: str, expression: str = "*", **more: object) -> bytes:
    """Of a member of a consumer group, which is a producer too."""
    row = {"topic": topic, "subString": expression, "expressionType": "TAG", **more}
    consumer = {"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": [row]}
    document = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": group}]}
    return json.dumps(document).encode()


def new_certificate(folder: Path) -> tuple[Path, Path]:
    """One that is its own issuer, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key
