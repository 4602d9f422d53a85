"""What heartbeats say about the client's process: an operator finds it, and brokers can tell two of one id apart."""

from __future__ import annotations

import os
import socket
from typing import Final

from ...model.clock import now_ms
from ...model.names import VERSION
from ...model.plain_dataclass import dataclass

LANGUAGE: Final = "PYTHON"  # as RocketMQ calls it


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """`started_at_ms`: when this process connected to the cluster, since the epoch."""

    language: str
    version: str
    host: str
    pid: int
    started_at_ms: int


def this_process() -> ClientProcess:
    """The present process."""
    return ClientProcess(LANGUAGE, VERSION, socket.gethostname()[:255], os.getpid(), now_ms())
