"""`zenit cluster` says of brokers what their name server does not know: what they are, how far, and which take no writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from zenitmq.cli.commands.cluster import cluster
from zenitmq.model.errors import RequestTimeout

FULL = "disk use is over 95%: free space"


def brokers() -> list[dict[str, Any]]:
    names = ("broker-a", "broker-b", "broker-c")
    masters = [{"broker_name": name, "broker_id": 0, "address": f"{name}:1"} for name in names]
    slaves = [{"broker_name": "broker-a", "broker_id": number, "address": f"broker-a:{number}"} for number in (2, 3)]
    rest = {"cluster": "zenit", "cluster_id": "id", "epoch": 1, "last_heartbeat_ms_ago": 5, "writeable": True}
    return [one | rest for one in (*masters, *slaves)]


def statistics(written: int, refuses_writes: str | None, **replication: object) -> dict[str, Any]:
    told = {"positions": {"written_offset": written}, "store": {"refuses_writes": refuses_writes}}
    return told | ({"replication": replication} if replication else {})


ANSWERS = {
    "broker-a:1": statistics(900, None, role="master", halted=None),
    "broker-a:2": statistics(700, FULL, role="slave", halted=None),
    "broker-a:3": statistics(900, None, role="slave", halted="its log is of another file size"),
    "broker-b:1": statistics(100, FULL),  # without other replicas
}


class Admin:
    def cluster(self) -> dict[str, Any]:
        return {"brokers": brokers()}

    def scrub_statistics(self, addresses: list[str], *, timeout: float) -> dict[str, Any]:
        for address in addresses:
            if address not in ANSWERS:
                raise RequestTimeout("GetBrokerStatistics", round(timeout * 1000))
        return {address: ANSWERS[address] for address in addresses}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[bool], str]:
    def tell(as_json: bool) -> str:
        cluster(as_json=as_json)
        return capfd.readouterr().out

    monkeypatch.setattr("zenitmq.client.admin.Admin", lambda _: nullcontext(Admin()))
    return tell


def test_a_master_whose_disk_is_full_is_not_writeable(told: Callable[[bool], str]) -> None:
    found = [(one["writeable"], one["refuses_writes"]) for one in json.loads(told(True))["brokers"]]
    assert found == [(True, None), (False, FULL), (True, None), (True, None), (True, None)]
    assert f"broker-b takes no writes: {FULL}" in told(False).splitlines()


def test_slaves_are_shown_with_what_they_say_and_how_far_they_are_behind(told: Callable[[bool], str]) -> None:
    found = [(one["role"], one["lag_bytes"]) for one in json.loads(told(True))["brokers"]]
    assert found == [("master", 0), ("master", 0), (None, None), ("slave", 200), ("halted", 0)]
    header, first, *_ = told(False).splitlines()
    assert {"role", "lag_bytes"} <= set(header.split())
    assert "master" in first
