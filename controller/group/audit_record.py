"""The permanent record of what operators forced: a value, and its line of JSON (docs/formats/group-node.md). Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedElection:
    """The record of an election that may have lost messages: bytes [lost_begin, lost_end) of the commit log of `best`.

    `best`: the replica with the best log of those that the controller had heard of (log_reach), with the epoch of its
    last row and
    its end. If that is the elected one, the range is empty, and what was lost is unknown. `in_sync`, `eligible`, `last`: as
    they were before. `by`: the user who asked for it; "" where the cluster knows no users.
    """

    broker_name: str
    epoch: int
    elected: str
    elected_newest_epoch: int
    elected_end: int
    best: str
    best_newest_epoch: int
    best_end: int
    old_master: str
    in_sync: tuple[str, ...]
    eligible: tuple[str, ...]
    last: str
    lost_begin: int
    lost_end: int
    at_ms: int
    by: str


def encode_forced_election(record: ForcedElection) -> bytes:
    """{"event": "forced election", and the record's fields}."""
    return json.dumps({"event": "forced election"} | asdict(record)).encode("ascii")
