"""One engine: a name server and a broker, each in a thread of this process.

It is the broker that serves a cluster, over the same store, so all that clients do works as it does there. Its addresses are
ones that only this process knows (remoting/base_socket).
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Self

from ..broker.config import BrokerConfig
from ..broker.service import Broker
from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import RequestTimeout
from ..namesrv.config import NameServerConfig
from ..namesrv.service import NameServer
from ..remoting.client import RemotingClient
from ..remoting.commands import GetClusterInfo
from ..store.config import StoreConfig
from .direct_client import DirectClient
from .own_host import CLUSTER, new_host
from .turns import Turns

log = logging.getLogger(__name__)

START_MS: Final = 30_000
STOP_S: Final = 30.0
LOOK_MS: Final = 2
_NAME_SERVER_PORT: Final = 1
_PUBLISH_PORT: Final = 2
_BROKER_PORT: Final = 3


class EngineThreads:
    """A context manager: entered, clients may come. `address`: of its name server. `broker`: the one that serves now."""

    def __init__(self, directory: str, store: StoreConfig, *, name: str) -> None:
        """`directory`: of the store; it is made where there is none. `name`: of the broker."""
        self.host = new_host()
        self.address = f"{self.host}:{_NAME_SERVER_PORT}"
        self._directory = directory
        self._store = store
        self._name = name
        self._running = ExitStack()
        self._is_ending = False
        self.has_ended = False  # its broker, without being asked to

    def __enter__(self) -> Self:
        """Raises StoreLocked, StoreInGroup, StoreFormatError, StoreNotWriteable, RequestTimeout, OSError."""
        self._is_ending = False
        os.makedirs(self._directory, exist_ok=True)
        names = NameServerConfig(host=self.host, port=_NAME_SERVER_PORT, publish_port=_PUBLISH_PORT, listen_ms=0)
        config = BrokerConfig(
            cluster=CLUSTER,
            name=self._name,
            host=self.host,
            port=_BROKER_PORT,
            namesrv=(self.address,),
            store_dir=self._directory,
            store=self._store,
        )
        with ExitStack() as started:
            server = started.enter_context(NameServer(names))
            _serve(started, "names", server.run, server.stop)
            self._open_broker(config)
            _serve(started, "broker", partial(self._run_broker, config), self._stop_broker)
            self._wait_known(self.broker.address)
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def new_client(self) -> DirectClient:
        """A client of this engine: its requests to the broker are handled in the thread that makes them. Raises
        ConnectionLost."""
        return DirectClient(lambda: self._turns)

    def _open_broker(self, config: BrokerConfig) -> None:
        made: list[Turns] = []

        def new_loop(*, door: None, **options: Any) -> Turns:  # noqa: ARG001  # nobody else reaches it
            made.append(Turns(**options))
            return made[0]

        self.broker = Broker(config, new_loop=new_loop).__enter__()
        self._turns = made[0]

    def _run_broker(self, config: BrokerConfig) -> None:
        """The broker's thread. As in a process of its own, a broker whose disk failed ends, and one that needs its store opened
        again is followed by the next. An end that nobody asked for closes the store and the connections: clients are told."""
        while True:
            with ExitStack() as opened:
                opened.push(self.broker)
                if not self._is_ending:
                    self.broker.run()
            if self._is_ending or not self.broker.is_reopening:
                break
            self._open_broker(config)
        if not self._is_ending:
            self.has_ended = True
            log.critical("an engine's broker has ended: %s", self._directory)

    def _stop_broker(self) -> None:
        self._is_ending = True
        self.broker.stop()

    def _wait_known(self, address: str) -> None:
        """Until the name server knows the broker."""
        deadline_ms = monotonic_ms() + START_MS
        with RemotingClient() as asking:
            while True:
                _, payload = asking.call(self.address, GetClusterInfo(), timeout_ms=START_MS)
                if any(known["address"] == address for known in json.loads(payload)["brokers"]):
                    return
                if monotonic_ms() >= deadline_ms:
                    raise RequestTimeout("the start of an engine", START_MS)
                sleep_ms(LOOK_MS)


def _serve(started: ExitStack, role: str, run: Callable[[], object], stop: Callable[[], None]) -> None:
    thread = threading.Thread(target=run, name=f"zenit-{role}", daemon=True)

    def end() -> None:
        stop()
        thread.join(STOP_S)
        if thread.is_alive():
            log.error("an engine's %s does not end", role)

    thread.start()
    started.callback(end)
