"""`zenit cluster` says which brokers take no writes, though their name server knows of nothing."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from zenitmq.cli.cluster import cluster
from zenitmq.model.errors import RequestTimeout

FULL = "disk use is over 95%: free space"


def brokers() -> list[dict[str, Any]]:
    names = ("broker-a", "broker-b", "broker-c")
    masters = [{"broker_name": name, "broker_id": 0, "address": f"{name}:1"} for name in names]
    slave = {"broker_name": "broker-a", "broker_id": 1, "address": "broker-a:2"}
    rest = {"cluster": "zenit", "cluster_id": "id", "epoch": 1, "last_heartbeat_ms_ago": 5, "writeable": True}
    return [one | rest for one in (*masters, slave)]


class Admin:
    def cluster(self) -> dict[str, Any]:
        return {"brokers": brokers()}

    def broker_statistics(self, broker: str, *, timeout: float) -> dict[str, Any]:
        assert broker != "broker-a:2", "a slave takes none anyway"
        if broker == "broker-c:1":
            raise RequestTimeout("GetBrokerStatistics", round(timeout * 1000))
        return {"store": {"refuses_writes": FULL if broker == "broker-b:1" else None}}


@pytest.mark.parametrize("as_json", [True, False])
def test_a_broker_whose_disk_is_full_is_not_writeable(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    monkeypatch.setattr("zenitmq.client.admin.Admin", lambda _: nullcontext(Admin()))
    cluster(as_json=as_json)
    told = capfd.readouterr().out
    if as_json:
        found = [(one["writeable"], one["refuses_writes"]) for one in json.loads(told)["brokers"]]
        assert found == [(True, None), (False, FULL), (True, None), (True, None)]
    else:
        assert f"broker-b takes no writes: {FULL}" in told.splitlines()
