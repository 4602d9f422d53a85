"""A real broker in a thread of the test's process, on a port that it keeps over restarts."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.service import Broker
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetClusterInfo
from zenitmq.store.config import StoreConfig

WAIT_S = 10


class RealBroker:
    """Started when made. `stop` and `start` from the test's thread."""

    def __init__(self, namesrv: str, directory: Path, name: str = "broker-a", **settings: Any) -> None:
        store = StoreConfig(segment_bytes=1 << 20, preallocate_segments=0, index_slots=1000, index_entries=4000)
        self._namesrv = namesrv
        self._settings = {
            "name": name,
            "port": 0,
            "namesrv": (namesrv,),
            "store_dir": str(directory / name),
            "store": store,
            "heartbeat_ms": 1000,
            **settings,
        }
        self.start()

    def start(self) -> None:
        """Opens the store (again) and waits until the name server knows the broker."""
        self.broker = Broker(BrokerConfig(**self._settings))
        self.broker.__enter__()
        self.address = self.broker.address
        self._settings["port"] = int(self.address.rpartition(":")[2])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        with RemotingClient() as asking:  # which means whatever cluster is there
            for _ in range(WAIT_S * 50):
                _, payload = asking.call(self._namesrv, GetClusterInfo(), timeout_ms=WAIT_S * 1000)
                if any(known["address"] == self.address for known in json.loads(payload)["brokers"]):
                    return
                threading.Event().wait(0.02)
        raise AssertionError("the broker did not register")

    def _run(self) -> None:
        try:
            self.broker.run()
        finally:
            self.broker.__exit__(None, None, None)

    def stop(self) -> None:
        """Ends it; a second time does nothing."""
        self.broker.stop()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
