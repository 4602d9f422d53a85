"""Encodes and decodes a replica group's node, and its sightings, as JSON bytes: for ZooKeeper and for messages.

Pure.

    {"format": 1, "broker_name": "broker-a", "cluster_id": "9f1c", "group_id": "5f0c", "epoch": 3, "master": "broker-a-0",
     "master_incarnation": {"store_id": "5f0c", "starts": 2}, "in_sync": ["broker-a-0"], "eligible": [], "last": null,
     "settings": {"min_in_sync": 2, "flush_mode": "async", "ack_mode": "all", "lag_ms_max": 10000},
     "replicas": [{"name": "broker-a-0", "address": "10.0.0.1:10911", "replication_address": "10.0.0.1:10912",
                   "incarnation": {"store_id": "5f0c", "starts": 2}, "life": "9d1e"}]}

    {"format": 1, "broker_name": "broker-a", "sightings": [{"group_id": "5f0c", "epoch": 4, "version": 17}]}

A replica that is a follower has "follower": true besides.

People may edit a node by hand, and an election follows what it says: the decoder takes nothing on trust. Every key must
be there, no other may, each value is of its type and within its range, and the whole must make sense (`_check_sense`).
What does not is one GroupNodeDamaged that names the field.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final, NoReturn, TypeVar

from ..errors import GroupNodeDamaged, InvalidName, InvalidParameter, SightingsDamaged
from .group import (
    NO_VERSION,
    SIGHTINGS_MAX,
    AckMode,
    FlushMode,
    GroupNode,
    GroupSettings,
    Incarnation,
    Replica,
    Seen,
    Sighting,
)
from .group_limits import (
    COUNT_MAX,
    LAG_MS_MAX,
    LAG_MS_MIN,
    REPLICAS_MAX,
    check_address,
    check_name,
    check_token,
)

FORMAT: Final = 1
NODE_BYTES_MAX: Final = 64 * 1024
VALUE_LENGTH_MAX: Final = 120  # characters of a wrong value that an error shows

_NODE_KEYS: Final = [
    *("format", "broker_name", "cluster_id", "group_id", "epoch", "master", "master_incarnation"),
    *("in_sync", "eligible", "last", "settings", "replicas"),
]
_SETTINGS_KEYS: Final = "min_in_sync flush_mode ack_mode lag_ms_max".split()
_REPLICA_KEYS: Final = "name address replication_address incarnation life".split()
_FOLLOWER: Final = "follower"
"""A key of a replica that only a follower has: releases without followers know every other node."""
_INCARNATION_KEYS: Final = "store_id starts".split()
_SEEN_KEYS: Final = "format broker_name sightings".split()
_SIGHTING_KEYS: Final = "group_id epoch version".split()

_Choice = TypeVar("_Choice", bound=Enum)


def encode_node(node: GroupNode) -> bytes:
    """The node's bytes: one line of ASCII, keys in a fixed order."""
    settings = node.settings
    document = {
        "format": FORMAT,
        "broker_name": node.broker_name,
        "cluster_id": node.cluster_id,
        "group_id": node.group_id,
        "epoch": node.epoch,
        "master": node.master,
        "master_incarnation": _incarnation(node.master_incarnation),
        "in_sync": node.in_sync,
        "eligible": node.eligible,
        "last": node.last,
        "settings": {
            "min_in_sync": settings.min_in_sync,
            "flush_mode": settings.flush_mode.value,
            "ack_mode": settings.ack_mode.value,
            "lag_ms_max": settings.lag_ms_max,
        },
        "replicas": [
            {
                "name": replica.name,
                "address": replica.address,
                "replication_address": replica.replication_address,
                "incarnation": _incarnation(replica.incarnation),
                "life": replica.life,
                **({_FOLLOWER: True} if replica.is_follower else {}),
            }
            for replica in node.replicas
        ],
    }
    return json.dumps(document, separators=(", ", ": ")).encode("ascii")


def _incarnation(one: Incarnation | None) -> dict[str, Any] | None:
    return None if one is None else {"store_id": one.store_id, "starts": one.starts}


def decode_node(data: bytes, broker_name: str) -> GroupNode:
    """The node of that broker name; raises GroupNodeDamaged and nothing else, whatever the bytes."""
    reader = _Reader(broker_name)
    node = reader.node(reader.document(data))
    _check_sense(reader, node)
    return node


def encode_seen(seen: Seen) -> bytes:
    """Encodes the sightings of a group: one line of ASCII, keys in a fixed order."""
    sightings = [{"group_id": one.group_id, "epoch": one.epoch, "version": one.version} for one in seen.sightings]
    document = {"format": FORMAT, "broker_name": seen.broker_name, "sightings": sightings}
    return json.dumps(document, separators=(", ", ": ")).encode("ascii")


def decode_seen(data: bytes, broker_name: str) -> Seen:
    """Decodes them; raises SightingsDamaged and nothing else, whatever the bytes."""
    reader = _Reader(broker_name, SightingsDamaged)
    return reader.seen(reader.document(data))


class _Reader:
    """Reads a document; `group` and the path of a field are for errors."""

    def __init__(self, group: str, damaged: type[GroupNodeDamaged] = GroupNodeDamaged) -> None:
        """`damaged`: the class of errors."""
        self.group = group
        self._damaged = damaged

    def refuse(self, field: str, reason: str) -> NoReturn:
        raise self._damaged(self.group, field, reason)

    def document(self, data: bytes) -> Any:
        if len(data) > NODE_BYTES_MAX:
            self.refuse("size", f"{len(data)} bytes, at most {NODE_BYTES_MAX}")
        try:
            return json.loads(data.decode("utf-8"), object_pairs_hook=self._pairs, parse_constant=self._constant)
        except (ValueError, RecursionError) as error:
            self.refuse("JSON", str(error)[:VALUE_LENGTH_MAX])

    def node(self, raw: Any) -> GroupNode:
        fields = self.own(_as_written_now(raw), _NODE_KEYS)
        master = fields["master_incarnation"]
        return GroupNode(
            broker_name=self.group,
            cluster_id=self.token_or_none(fields["cluster_id"], "cluster_id"),
            group_id=self.token_or_none(fields["group_id"], "group_id"),
            epoch=self.integer(fields["epoch"], "epoch", 0, COUNT_MAX),
            master=self.name_or_none(fields["master"], "master"),
            master_incarnation=None if master is None else self.incarnation(master, "master_incarnation"),
            in_sync=self.names(fields["in_sync"], "in_sync"),
            eligible=self.names(fields["eligible"], "eligible"),
            last=self.name_or_none(fields["last"], "last"),
            settings=self.settings(fields["settings"]),
            replicas=tuple(
                self.replica(one, f"replicas[{index}]")
                for index, one in enumerate(self.array(fields["replicas"], "replicas"))
            ),
        )

    def settings(self, raw: Any) -> GroupSettings:
        fields = self.keys(raw, "settings", _SETTINGS_KEYS)
        return GroupSettings(
            min_in_sync=self.integer(fields["min_in_sync"], "settings.min_in_sync", 1, REPLICAS_MAX),
            flush_mode=self.choice(fields["flush_mode"], "settings.flush_mode", FlushMode),
            ack_mode=self.choice(fields["ack_mode"], "settings.ack_mode", AckMode),
            lag_ms_max=self.integer(fields["lag_ms_max"], "settings.lag_ms_max", LAG_MS_MIN, LAG_MS_MAX),
        )

    def replica(self, raw: Any, field: str) -> Replica:
        is_follower = type(raw) is dict and _FOLLOWER in raw
        fields = self.keys(raw, field, [*_REPLICA_KEYS, _FOLLOWER] if is_follower else _REPLICA_KEYS)
        if is_follower and fields[_FOLLOWER] is not True:
            self.refuse(f"{field}.{_FOLLOWER}", f"{self.shown(fields[_FOLLOWER])}, expected true, or no such key")
        texts = {key: self.text(fields[key], f"{field}.{key}") for key in _REPLICA_KEYS if key != "incarnation"}
        try:
            check_name(f"{field}.name", texts["name"])
            check_address(f"{field}.address", texts["address"])
            check_address(f"{field}.replication_address", texts["replication_address"])
            if texts["life"]:
                check_token(f"{field}.life", texts["life"])
        except InvalidName as error:
            self.refuse(error.kind, f"{error.name[:VALUE_LENGTH_MAX]!r}, expected {error.rule}")
        except InvalidParameter as error:
            self.refuse(error.name, f"{error.value[:VALUE_LENGTH_MAX]!r}, expected {error.expected}")
        incarnation = self.incarnation(fields["incarnation"], f"{field}.incarnation")
        return Replica(incarnation=incarnation, is_follower=is_follower, **texts)

    def incarnation(self, raw: Any, field: str) -> Incarnation:
        fields = self.keys(raw, field, _INCARNATION_KEYS)
        store_id = self.token(fields["store_id"], f"{field}.store_id")
        return Incarnation(store_id, self.integer(fields["starts"], f"{field}.starts", 1, COUNT_MAX))

    def seen(self, raw: Any) -> Seen:
        fields = self.own(raw, _SEEN_KEYS)
        sightings = fields["sightings"]
        if type(sightings) is not list or len(sightings) > SIGHTINGS_MAX:
            self.refuse("sightings", f"{self.shown(sightings)}, expected a list of at most {SIGHTINGS_MAX}")
        found = tuple(self.sighting(one, f"sightings[{index}]") for index, one in enumerate(sightings))
        ids = [one.group_id for one in found]
        if ids != sorted(set(ids)):
            self.refuse("sightings", "each group_id once, in order")
        return Seen(self.group, found)

    def sighting(self, raw: Any, field: str) -> Sighting:
        fields = self.keys(raw, field, _SIGHTING_KEYS)
        return Sighting(
            self.token(fields["group_id"], f"{field}.group_id"),
            self.integer(fields["epoch"], f"{field}.epoch", 1, COUNT_MAX),
            self.integer(fields["version"], f"{field}.version", NO_VERSION, COUNT_MAX),
        )

    # ---- values

    def own(self, raw: Any, expected: list[str]) -> dict[str, Any]:
        """The fields of a document of ours, checked for this format and this group."""
        fields = self.keys(raw, "node", expected)
        self.integer(fields["format"], "format", FORMAT, FORMAT)
        if fields["broker_name"] != self.group:
            self.refuse(
                "broker_name", f"{self.shown(fields['broker_name'])}, expected {self.group!r}, the node's own name"
            )
        return fields

    def keys(self, raw: Any, field: str, expected: list[str]) -> dict[str, Any]:
        if type(raw) is not dict:
            self.refuse(field, f"{self.shown(raw)}, expected an object")
        for key in expected:
            if key not in raw:
                self.refuse(key if field == "node" else f"{field}.{key}", "missing")
        for key in raw:
            if key not in expected:
                self.refuse(self.shown(key) if field == "node" else f"{field}.{self.shown(key)}", "no such key")
        return raw

    def integer(self, raw: Any, field: str, minimum: int, maximum: int) -> int:
        if type(raw) is not int or not minimum <= raw <= maximum:
            self.refuse(field, f"{self.shown(raw)}, expected an integer from {minimum} to {maximum}")
        return raw

    def text(self, raw: Any, field: str) -> str:
        if type(raw) is not str:
            self.refuse(field, f"{self.shown(raw)}, expected a text")
        return raw

    def token(self, raw: Any, field: str) -> str:
        found = self.text(raw, field)
        try:
            return check_token(field, found)
        except InvalidParameter as error:
            self.refuse(error.name, f"{error.value!r}, expected {error.expected}")

    def token_or_none(self, raw: Any, field: str) -> str:
        return "" if raw == "" else self.token(raw, field)

    def choice(self, raw: Any, field: str, kind: type[_Choice]) -> _Choice:
        found = next((member for member in kind if member.value == raw), None)
        if found is None:
            self.refuse(field, f"{self.shown(raw)}, expected {' or '.join(str(member.value) for member in kind)}")
        return found

    def array(self, raw: Any, field: str) -> list[Any]:
        if type(raw) is not list or len(raw) > REPLICAS_MAX:
            self.refuse(field, f"{self.shown(raw)}, expected a list of at most {REPLICAS_MAX}")
        return raw

    def name_or_none(self, raw: Any, field: str) -> str | None:
        return None if raw is None else self.text(raw, field)

    def names(self, raw: Any, field: str) -> tuple[str, ...]:
        found = tuple(self.text(name, field) for name in self.array(raw, field))
        if list(found) != sorted(set(found)):
            self.refuse(field, f"{self.shown(raw)}, expected each name once, in order")
        return found

    def shown(self, raw: Any) -> str:
        return repr(raw)[:VALUE_LENGTH_MAX]

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            names = [name for name, _ in pairs]
            self.refuse(self.shown(next(name for name in names if names.count(name) > 1)), "given twice")
        return fields

    def _constant(self, name: str) -> NoReturn:
        self.refuse("JSON", f"{name} is not a number")


def _as_written_now(raw: Any) -> Any:
    """Converts a node written before clusters had ids: its group id was called origin, and it named no cluster."""
    if type(raw) is not dict or "origin" not in raw or "group_id" in raw or "cluster_id" in raw:
        return raw
    return {key: value for key, value in raw.items() if key != "origin"} | {"cluster_id": "", "group_id": raw["origin"]}


def _check_sense(reader: _Reader, node: GroupNode) -> None:
    """Checks across fields."""
    names = [replica.name for replica in node.replicas]
    if names != sorted(set(names)):
        reader.refuse("replicas", "each name once, in the order of names")
    for field, members in (("in_sync", node.in_sync), ("eligible", node.eligible)):
        for name in members:
            if name not in names:
                reader.refuse(field, f"{reader.shown(name)} is none of the replicas")
    followers = {replica.name for replica in node.replicas if replica.is_follower}
    for field, counting in (("in_sync", node.in_sync), ("eligible", node.eligible), ("master", (node.master,))):
        for follower in followers.intersection(counting):
            reader.refuse(field, f"{reader.shown(follower)} is a follower")
    for field, one in (("master", node.master), ("last", node.last)):
        if one is not None and one not in names:
            reader.refuse(field, f"{reader.shown(one)} is none of the replicas")
    if both := set(node.in_sync) & set(node.eligible):
        reader.refuse("eligible", f"{min(both)!r} is in sync as well")
    if node.eligible and len(node.in_sync) >= node.settings.min_in_sync:
        reader.refuse("eligible", f"must be empty where {node.settings.min_in_sync} (min_in_sync) or more are in sync")
    if (node.master is None) != (node.master_incarnation is None):
        reader.refuse("master_incarnation", "given with a master, and only then")
    if node.master is not None and node.epoch == 0:
        reader.refuse("epoch", "0, expected 1 or more where there is a master")
    if node.last is not None and (node.in_sync or node.eligible):
        reader.refuse("last", "must be null while anybody is in sync or eligible")
