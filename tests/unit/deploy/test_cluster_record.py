"""The record of a local cluster round-trips, and a file that is none is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.deploy.cluster_record import ClusterRecord, ProcessRecord, Shape, decode_record, encode_record
from zenitmq.model.errors import StoreFormatError

NAME_SERVER = ProcessRecord(role="namesrv", name="namesrv-1", pid=71, birth="4711", address="127.0.0.1:9876")
BROKER = ProcessRecord(
    role="broker",
    name="broker-a",
    pid=72,
    birth="4712",
    address="127.0.0.1:10911",
    store_dir="/tmp/z/broker-a",
    settings=("store.segment_bytes=65536",),
)
RECORD = ClusterRecord(cluster="zenit", namesrv="127.0.0.1:9876", processes=(NAME_SERVER, BROKER))


REPLICATED = ClusterRecord(
    cluster="zenit",
    namesrv="127.0.0.1:9876",
    processes=(NAME_SERVER, replace(BROKER, name="broker-a-1", group="broker-a")),
    zookeeper="127.0.0.1:2181",
    shape=Shape(replicas=3, controllers=2),
)


@pytest.mark.parametrize("record", [RECORD, REPLICATED])
def test_a_record_round_trips(record: ClusterRecord) -> None:
    assert decode_record(encode_record(record), "cluster.json") == record


def test_one_broker_is_recorded_as_ever() -> None:
    text = encode_record(RECORD)
    assert "shape" not in text
    assert "zookeeper" not in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        encode_record(RECORD).replace('"pid": 72', '"pid": Infinity'),
        '{"cluster": "z", "namesrv": "n", "processes": [{}]}',
        "null",
        encode_record(RECORD).replace("71", "-1"),
        encode_record(REPLICATED).replace("replicas", "copies"),
    ],
)
def test_what_is_no_record_is_refused_by_name(text: str) -> None:
    with pytest.raises(StoreFormatError, match=r"/d/cluster\.json"):
        decode_record(text, "/d/cluster.json")


def test_a_process_takes_the_place_of_its_predecessor() -> None:
    again = replace(NAME_SERVER, pid=99)
    assert RECORD.with_process(again).processes == (again, BROKER)


def test_a_new_process_comes_last() -> None:
    other = replace(BROKER, name="broker-b")
    record = RECORD.with_process(other)
    assert record.processes[-1] == other
    assert record.find("broker", "broker-b") == other
    assert RECORD.find("broker", "broker-b") is None
