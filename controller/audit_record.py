"""What is kept for ever of what operators forced: a value, and its line of JSON (docs/formats/group-node.md). Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedElection:
    """The record of an election that may have lost messages: bytes [lost_begin, lost_end) of the commit log.

    `lost_end` is the highest end of a log that the controller ever heard of; where it heard of none it equals
    `lost_begin`, and what was lost is not known. `in_sync`, `eligible`, `last`: as they were before.
    """

    broker_name: str
    epoch: int
    elected: str
    old_master: str
    in_sync: tuple[str, ...]
    eligible: tuple[str, ...]
    last: str
    lost_begin: int
    lost_end: int
    at_ms: int


def encode_forced_election(record: ForcedElection) -> bytes:
    """{"event": "forced election", and the record's fields}."""
    return json.dumps({"event": "forced election"} | asdict(record)).encode("ascii")
