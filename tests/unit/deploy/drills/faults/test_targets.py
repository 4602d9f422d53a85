"""Whom a fault hits, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.deploy.cluster_record import CONTROLLER, NAME_SERVER, ProcessRecord
from zenitmq.deploy.drills.catalogue import ONE_BY_ONE, Deed, Fault, Whom, drill_named
from zenitmq.deploy.drills.faults.faults import whom
from zenitmq.model.errors import InvalidParameter


class FakeCluster:
    """Two controllers of which the first one leads, a name server, three brokers; or nothing but a broker."""

    where = "/nowhere"

    def __init__(self, *, is_alone: bool = False) -> None:
        self.is_alone = is_alone
        self.servers = self

    def of_role(self, role: str) -> list[ProcessRecord]:
        names = {CONTROLLER: ("c1", "c2"), NAME_SERVER: ("n1",)}[role]
        return [] if self.is_alone else [record(role, name) for name in names]

    def leading_controller(self) -> ProcessRecord | None:
        return next(iter(self.of_role(CONTROLLER)), None)

    def slaves(self) -> list[ProcessRecord]:
        return [record("broker", "a2"), record("broker", "a3")]

    def brokers(self) -> list[ProcessRecord]:
        return [self.master(), *self.slaves()]

    def master(self) -> ProcessRecord:
        return record("broker", "a1")


def record(role: str, name: str) -> ProcessRecord:
    return ProcessRecord(role=role, name=name, address=f"{name}:1", pid=1, birth="1")


def names(cluster: Any, target: Whom) -> list[str]:
    return [server.name for server in whom(cluster, Fault(Deed.STOP, target, 0))]


def test_an_upgrade_stops_who_leads_last() -> None:
    faults = drill_named("rolling-upgrade").faults
    assert {fault.whom for fault in faults} == ONE_BY_ONE
    stopped = [name for fault in faults for name in names(FakeCluster(), fault.whom)]
    assert stopped == ["c2", "c1", "n1", "a2", "a3", "a1"]


def test_a_cluster_without_such_a_process_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="each controller"):
        names(FakeCluster(is_alone=True), Whom.EACH_CONTROLLER)
