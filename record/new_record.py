"""A record that the broker itself makes, before it has a place in the log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewRecord:
    """`properties`: a mapping, or encoded. `born_timestamp_ms`, `born_host`: None = now, this broker.

    `body_crc`: of the record that it copies, right or wrong; None: computed from the body.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: Mapping[str, str] | bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int | None = None
    born_host: bytes | None = None
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int | None = None
