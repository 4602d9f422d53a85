"""A group's node as bytes: the same node back, and one telling error for whatever a human made of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sim.group_kit import GROUP, group, replica

from zenitmq.model.errors import GroupNodeDamaged
from zenitmq.model.groups.group import SIGHTINGS_MAX, AckMode, FlushMode, GroupNode, GroupSettings, Seen, Sighting
from zenitmq.model.groups.group_codec import NODE_BYTES_MAX, decode_node, decode_seen, encode_node, encode_seen

PAGE = Path(__file__).parents[4] / "docs" / "formats" / "group-node.md"
GOLDEN = (
    b'{"format": 1, "broker_name": "broker-a", "cluster_id": "9f1c", "group_id": "store-a", "epoch": 3, "master": "a", '
    b'"master_incarnation": {"store_id": "store-a", "starts": 1}, "in_sync": ["a"], "eligible": ["b"], "last": null, '
    b'"settings": {"min_in_sync": 2, "flush_mode": "sync", "ack_mode": "master", "lag_ms_max": 7000}, '
    b'"replicas": [{"name": "a", "address": "host-a:10911", "replication_address": "host-a:10912", '
    b'"incarnation": {"store_id": "store-a", "starts": 1}, "life": "life-a-1"}, '
    b'{"name": "b", "address": "host-b:10911", "replication_address": "host-b:10912", '
    b'"incarnation": {"store_id": "store-b", "starts": 1}, "life": "life-b-1"}]}'
)
NODE = replace(
    group(
        "ab",
        in_sync="a",
        eligible="b",
        epoch=3,
        flush_mode=FlushMode.SYNC,
        ack_mode=AckMode.MASTER,
        lag_ms_max=7000,
    ),
    cluster_id="9f1c",
    group_id="store-a",
)


def test_the_bytes_are_these() -> None:
    assert encode_node(NODE) == GOLDEN
    assert decode_node(GOLDEN, GROUP) == NODE


FORMER = GOLDEN.replace(b'"cluster_id": "9f1c", "group_id"', b'"origin"')


def test_a_node_from_before_clusters_had_ids_is_the_same_group_of_no_cluster_yet() -> None:
    assert decode_node(FORMER, GROUP) == replace(NODE, cluster_id="")


@pytest.mark.parametrize("added", ['"group_id": "store-a"', '"cluster_id": "9f1c"'])
def test_a_node_that_is_half_of_then_and_half_of_now_is_nobodys(added: str) -> None:
    with pytest.raises(GroupNodeDamaged, match=r"group_id|cluster_id|origin"):
        decode_node(FORMER.replace(b'"epoch"', f'{added}, "epoch"'.encode()), GROUP)


@pytest.mark.parametrize(
    "node",
    [
        GroupNode(broker_name=GROUP),
        GroupNode(broker_name=GROUP, epoch=8),
        GroupNode(broker_name=GROUP, settings=GroupSettings(), in_sync=("a",), replicas=(replica("a"),)),
        group(in_sync="", last="a", epoch=5),
        group("abcdefghijklmnop", in_sync="abcdefghijklmnop"),
    ],
)
def test_a_node_comes_back(node: GroupNode) -> None:
    assert decode_node(encode_node(node), GROUP) == node


def edited(path: str, value: Any) -> bytes:
    """The golden node with one value replaced; `...` takes it out."""
    document = json.loads(GOLDEN)
    *folders, last = path.split(".")
    place = document
    for folder in folders:
        place = place[int(folder)] if isinstance(place, list) else place[folder]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("format", 2, "format"),
        ("cluster_id", 5, "cluster_id"),
        ("cluster_id", "a b", "cluster_id"),
        ("group_id", 5, "group_id"),
        ("group_id", "a b", "group_id"),
        ("broker_name", "broker-b", "broker_name"),
        ("epoch", -1, "epoch"),
        ("epoch", True, "epoch"),
        ("epoch", 1.0, "epoch"),
        ("epoch", "3", "epoch"),
        ("epoch", 1 << 62, "epoch"),
        ("epoch", ..., "epoch"),
        ("epoch", 0, "epoch"),
        ("epocch", 3, "'epocch'"),
        ("master", "x", "master"),
        ("master", 1, "master"),
        ("master", None, "master_incarnation"),
        ("master_incarnation", None, "master_incarnation"),
        ("master_incarnation", [], "master_incarnation"),
        ("master_incarnation.starts", 0, "master_incarnation.starts"),
        ("master_incarnation.store_id", "a b", "master_incarnation.store_id"),
        ("master_incarnation.store_id", None, "master_incarnation.store_id"),
        ("master_incarnation.x", 1, "master_incarnation.'x'"),
        ("in_sync", ["x"], "in_sync"),
        ("in_sync", "a", "in_sync"),
        ("in_sync", ["a", "a"], "in_sync"),
        ("in_sync", ["b", "a"], "in_sync"),
        ("in_sync", ["a", 1], "in_sync"),
        ("in_sync", ["a"] * 17, "in_sync"),
        ("in_sync", ["a", "b"], "eligible"),
        ("eligible", ["a"], "eligible"),
        ("eligible", ["c"], "eligible"),
        ("settings.min_in_sync", 1, "eligible"),
        ("settings.min_in_sync", 0, "settings.min_in_sync"),
        ("settings.flush_mode", "fsync", "settings.flush_mode"),
        ("settings.flush_mode", [], "settings.flush_mode"),
        ("settings.ack_mode", ..., "settings.ack_mode"),
        ("settings.lag_ms_max", 10, "settings.lag_ms_max"),
        ("settings.more", 1, "settings.'more'"),
        ("settings", None, "settings"),
        ("last", "a", "last"),
        ("last", "x", "last"),
        ("replicas", {}, "replicas"),
        ("replicas", [1], "replicas[0]"),
        ("replicas.0.name", "c", "replicas"),
        ("replicas.0.name", "b", "replicas"),
        ("replicas.1.name", "a/b", "replicas[1].name"),
        ("replicas.1.address", "here", "replicas[1].address"),
        ("replicas.1.address", None, "replicas[1].address"),
        ("replicas.1.replication_address", "h:0", "replicas[1].replication_address"),
        ("replicas.1.incarnation.starts", "1", "replicas[1].incarnation.starts"),
        ("replicas.1.life", "no life", "replicas[1].life"),
        ("replicas.1.life", ..., "replicas[1].life"),
    ],
)
def test_nonsense_is_one_error_that_names_the_field(path: str, value: Any, field: str) -> None:
    with pytest.raises(GroupNodeDamaged) as refused:
        decode_node(edited(path, value), GROUP)
    assert (refused.value.group, refused.value.field) == (GROUP, field)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "JSON"),
        (b"\xff", "JSON"),
        (GOLDEN[:-1], "JSON"),
        (GOLDEN + b"x", "JSON"),
        (b"[" * 60_000, "JSON"),
        (b"NaN", "JSON"),
        (b'{"epoch": ' + b"9" * 5000 + b"}", "JSON"),
        (b" " * (NODE_BYTES_MAX + 1), "size"),
        (b"[]", "node"),
        (b"null", "node"),
        (GOLDEN.replace(b'"epoch": 3', b'"epoch": 3, "epoch": 4'), "'epoch'"),
    ],
)
def test_what_is_no_document_is_the_same_error(data: bytes, field: str) -> None:
    with pytest.raises(GroupNodeDamaged) as refused:
        decode_node(data, GROUP)
    assert refused.value.field == field


def test_no_damage_of_a_byte_passes_unnoticed_or_as_another_error() -> None:
    """Whatever one byte becomes, the node is refused, or is a node that would be written so."""
    for at in range(len(GOLDEN)):
        for byte in (0, ord('"'), ord("0"), ord("z"), 0xFF):
            damaged = GOLDEN[:at] + bytes([byte]) + GOLDEN[at + 1 :]
            try:
                node = decode_node(damaged, GROUP)
            except GroupNodeDamaged:
                continue
            assert decode_node(encode_node(node), GROUP) == node


def test_the_page_shows_a_node_and_every_key() -> None:
    text = PAGE.read_text(encoding="utf-8")
    example = text.partition("```json\n")[2].partition("```")[0]
    node = decode_node(example.encode(), GROUP)
    assert (node.master, node.eligible) == ("broker-a-0", ("broker-a-1",))
    rows = {
        key for row in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE) for key in re.findall(r"\w+", row)
    }
    assert rows == set(json.loads(GOLDEN))


# ---- what was seen


SEEN = Seen("broker-a", (Sighting("5f0c", 41, 17), Sighting("77ab", 3)))
SEEN_BYTES = (
    b'{"format": 1, "broker_name": "broker-a", "sightings": [{"group_id": "5f0c", "epoch": 41, "version": 17}, '
    b'{"group_id": "77ab", "epoch": 3, "version": -1}]}'
)


def test_what_was_seen_as_bytes_and_back() -> None:
    assert encode_seen(SEEN) == SEEN_BYTES
    assert decode_seen(SEEN_BYTES, "broker-a") == SEEN
    assert decode_seen(encode_seen(Seen("broker-a")), "broker-a") == Seen("broker-a")


@pytest.mark.parametrize(
    ("was", "becomes", "field"),
    [
        (b'"format": 1', b'"format": 2', "format"),
        (b'"broker-a"', b'"broker-b"', "broker_name"),
        (b'"5f0c"', b'"a b"', "sightings[0].group_id"),
        (b'"epoch": 41', b'"epoch": 0', "sightings[0].epoch"),
        (b'"version": 17', b'"version": -2', "sightings[0].version"),
        (b'"version": 17', b'"version": true', "sightings[0].version"),
        (b'"77ab"', b'"5f0c"', "sightings"),
        (b'"77ab"', b'"4f0c"', "sightings"),
        (b', "version": 17', b"", "sightings[0].version"),
        (b"]}", b'], "more": 1}', "'more'"),
        (b"]}", b"", "JSON"),
    ],
)
def test_what_was_seen_is_taken_on_no_trust(was: bytes, becomes: bytes, field: str) -> None:
    with pytest.raises(GroupNodeDamaged) as refused:
        decode_seen(SEEN_BYTES.replace(was, becomes, 1), "broker-a")
    assert refused.value.field == field


def test_more_sightings_than_are_ever_written_are_refused() -> None:
    many = tuple(Sighting(f"id-{number:02}", number + 1) for number in range(SIGHTINGS_MAX + 1))
    with pytest.raises(GroupNodeDamaged, match="at most 16"):
        decode_seen(encode_seen(Seen("broker-a", many)), "broker-a")
