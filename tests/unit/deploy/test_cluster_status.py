"""A replica group's status from what its controller and its brokers answered, some of them or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zenitmq.client.connection.controller_calls import GroupState
from zenitmq.deploy.cluster_record import ProcessRecord
from zenitmq.deploy.cluster_status import UNKNOWN, ask_json, group_document
from zenitmq.model.errors import BrokerBusy, ConnectionLost, GroupNodeLost, InvalidParameter, RequestTimeout, ZenitError
from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, KnownGroup
from zenitmq.remoting.commands import GetBrokerStatistics

GROUP = "broker-a"
BROKERS = [
    ProcessRecord(role="broker", name=f"{GROUP}-{k}", address=f"127.0.0.1:{10901 + 10 * k}", group=GROUP)
    for k in (1, 2, 3)
]
NODE = GroupNode(
    broker_name=GROUP,
    epoch=4,
    master=f"{GROUP}-2",
    master_incarnation=Incarnation("s", 1),
    in_sync=(f"{GROUP}-1", f"{GROUP}-2"),
    settings=GroupSettings(min_in_sync=2),
)


STATE = GroupState(KnownGroup(NODE, 9), None)


NEVER = {"ended_ms": None, "error": None, "damaged_ranges": None, "damaged_entry": None, "mended_ranges": 0}
NEVER |= {"quarantined_ranges": 0, "quarantined": [], "under_way": None}


def statistics(role: str, written: int, epoch: int = 4) -> dict[str, Any]:
    """What a broker under controllers answers."""
    replication = {"role": role, "epoch": epoch, "written": written, "flushed": written - 10, "confirm": written - 5}
    replication |= {"newest_epoch": epoch - 1, "halted": None}
    return {"epoch": 0, "role": "?", "positions": own_positions(1), "replication": replication}


def own_positions(written: int) -> dict[str, int]:
    return {"written_offset": written, "flushed_offset": written, "confirm_offset": written}


def answers(first: Any, second: Any, third: Any) -> dict[str, Any]:
    return dict(zip([broker.name for broker in BROKERS], (first, second, third), strict=True))


def test_sets_are_the_controllers_and_positions_each_brokers_own() -> None:
    told = answers(statistics("slave", 900), statistics("master", 1000), None)
    document = group_document(GROUP, BROKERS, told, STATE, 1)
    assert (document["broker_name"], document["epoch"], document["master"]) == (GROUP, 4, "broker-a-2")
    assert (document["in_sync"], document["min_in_sync"]) == (["broker-a-1", "broker-a-2"], 2)
    assert document["replicas"] == [
        {
            "name": "broker-a-1",
            "address": "127.0.0.1:10911",
            "role": "slave",
            "epoch": 4,
            "newest_epoch": 3,
            "written_offset": 900,
            "flushed_offset": 890,
            "confirm_offset": 895,
            "hole_at": None,
            "halted": None,
            "drain": None,
            "delayed_damaged": 0,
            "delayed_lost": 0,
            "refuses_writes": None,
            "deletes_early": None,
            "lag_bytes": 100,
            "scrub": NEVER,
        },
        {
            "name": "broker-a-2",
            "address": "127.0.0.1:10921",
            "role": "master",
            "epoch": 4,
            "newest_epoch": 3,
            "written_offset": 1000,
            "flushed_offset": 990,
            "confirm_offset": 995,
            "hole_at": None,
            "halted": None,
            "drain": None,
            "delayed_damaged": 0,
            "delayed_lost": 0,
            "refuses_writes": None,
            "deletes_early": None,
            "lag_bytes": 0,
            "scrub": NEVER,
        },
        {
            "name": "broker-a-3",
            "address": "127.0.0.1:10931",
            "role": "down",
            "epoch": None,
            "newest_epoch": None,
            "written_offset": None,
            "flushed_offset": None,
            "confirm_offset": None,
            "hole_at": None,
            "halted": None,
            "drain": None,
            "delayed_damaged": 0,
            "delayed_lost": 0,
            "refuses_writes": None,
            "deletes_early": None,
            "lag_bytes": None,
            "scrub": None,
        },
    ]


def test_what_is_held_is_the_masters_to_tell() -> None:
    held = [{"owner": "a scan"}]
    told = answers(statistics("slave", 1), statistics("master", 1) | {"retention_holds": held}, None)
    assert group_document(GROUP, BROKERS, told, STATE, 1)["retention_holds"] == held
    assert group_document(GROUP, BROKERS, answers(None, None, None), STATE, 1)["retention_holds"] == []


def test_without_a_controller_the_master_of_the_highest_epoch_is_believed() -> None:
    """The other was stopped for a while, and does not know yet."""
    told = answers(statistics("master", 900, epoch=3), statistics("master", 1000), statistics("candidate", 0, epoch=3))
    document = group_document(GROUP, BROKERS, told, UNKNOWN, 2)
    assert (document["master"], document["epoch"], document["in_sync"]) == ("broker-a-2", 4, None)
    assert document["min_in_sync"] == 2


def test_lag_is_measured_against_the_longest_log_while_the_master_is_down() -> None:
    document = group_document(
        GROUP, BROKERS, answers(statistics("slave", 900), None, statistics("slave", 950)), STATE, 1
    )
    assert [replica["lag_bytes"] for replica in document["replicas"]] == [50, None, 0]


def test_a_broker_that_masters_itself_tells_its_stores_positions() -> None:
    broker = ProcessRecord(role="broker", name=GROUP, address="127.0.0.1:10911")
    alone = {"epoch": 7, "role": "master", "positions": own_positions(400)}
    document = group_document(GROUP, [broker], {GROUP: alone}, UNKNOWN, 1)
    assert (document["master"], document["epoch"], document["in_sync"]) == (GROUP, 7, [GROUP])
    assert (
        document["replicas"][0] | {"role": "master", "written_offset": 400, "lag_bytes": 0} == document["replicas"][0]
    )


def test_nobody_answers() -> None:
    document = group_document(GROUP, BROKERS, answers(None, None, None), UNKNOWN, 2)
    assert (document["master"], document["epoch"], document["in_sync"]) == (None, None, None)
    assert {replica["role"] for replica in document["replicas"]} == {"down"}


def test_a_replica_that_has_halted_is_not_shown_as_a_slave() -> None:
    halted = statistics("slave", 900)
    halted["replication"]["halted"] = "the master agrees with this log up to 60 only: do this"
    replica = group_document(GROUP, BROKERS, answers(halted, None, None), STATE, 1)["replicas"][0]
    assert (replica["role"], replica["halted"]) == ("halted", "the master agrees with this log up to 60 only: do this")


def test_what_is_in_the_way_of_a_group_is_said_with_its_remedy() -> None:
    set_back = GroupState(KnownGroup(NODE, 9), GroupNodeLost(GROUP, 4, 7))
    document = group_document(GROUP, BROKERS, answers(None, None, None), set_back, 1)
    assert document["epoch"] == 4
    assert "zenit controller restore broker-a --epoch 7" in document["blocked"]
    gone = group_document(GROUP, BROKERS, answers(None, None, None), GroupState(None, GroupNodeLost(GROUP, 0, 7)), 2)
    assert (gone["epoch"], gone["min_in_sync"], gone["group_id"]) == (None, 2, None)
    assert "--epoch 7" in gone["blocked"]
    assert group_document(GROUP, BROKERS, answers(None, None, None), STATE, 1)["blocked"] is None


@pytest.mark.parametrize(
    ("node", "told", "wanted"),
    [
        (NODE, (None, None, statistics("slave", 9)), "start one of broker-a-1, broker-a-2: only they"),
        (NODE, (statistics("candidate", 9), None, None), None),  # it is elected by itself
        (
            replace(NODE, master=None, in_sync=()),
            (statistics("candidate", 9),) * 3,
            "controller elect broker-a --force",
        ),
        (replace(NODE, master=None, in_sync=(), epoch=0), (None, None, None), None),  # its first master comes
    ],
)
def test_of_a_group_that_nobody_leads_the_next_step_is_said(node: GroupNode, told: Any, wanted: str | None) -> None:
    state = GroupState(KnownGroup(node, 9), None)
    found = group_document(GROUP, BROKERS, answers(*told), state, 1)["no_master"]
    assert found is None if wanted is None else wanted in found
    lost = GroupState(state.known, GroupNodeLost(GROUP, 4, 7))
    assert group_document(GROUP, BROKERS, answers(*told), lost, 1)["no_master"] is None, "it is restored first"


def test_a_replica_says_when_it_was_read_whole_and_what_is_damaged() -> None:
    told = {
        **statistics("slave", 900),
        "scrub": {
            "last": {"ended_ms": 77, "damaged_ranges": 3, "error": "gone", "damaged_entry": "checksum/0 entry 1"},
            "current": {"begun_ms": 90, "begin": 100, "position": 300, "end": 1000},
            "is_waiting_for_calm": True,
        },
        "repairs": {"mended_ranges": 2},
        "store": {
            "quarantined_ranges": 1,
            "first_quarantined": [[5, 9]],
            "refuses_writes": "disk full",
            "deletes_early": "so",
        },
        "delays": {"damaged": 3, "lost": 1},
    }
    document = group_document(GROUP, BROKERS, answers(told, None, None), STATE, 1)
    assert document["replicas"][0]["scrub"] == {
        "ended_ms": 77,
        "error": "gone",
        "damaged_ranges": 3,
        "damaged_entry": "checksum/0 entry 1",
        "mended_ranges": 2,
        "quarantined_ranges": 1,
        "quarantined": [[5, 9]],
        "under_way": {"begun_ms": 90, "done_bytes": 200, "size_bytes": 900, "is_waiting_for_calm": True},
    }
    assert document["replicas"][0]["refuses_writes"] == "disk full"
    assert document["replicas"][0]["deletes_early"] == "so"
    assert (document["replicas"][0]["delayed_damaged"], document["replicas"][0]["delayed_lost"]) == (3, 1)


class Refusing:
    """A remoting client whose every call ends so."""

    def __init__(self, error: ZenitError) -> None:
        self._error = error

    def call(self, *_: object, **__: object) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionLost("a:1"), RequestTimeout("a reply", 1), BrokerBusy(100)])
def test_who_cannot_answer_just_now_breaks_no_status(error: ZenitError) -> None:
    client: Any = Refusing(error)
    assert ask_json(client, "a:1", GetBrokerStatistics()) is None


def test_who_refuses_for_good_is_heard() -> None:
    client: Any = Refusing(InvalidParameter("a", 1, "2"))
    with pytest.raises(InvalidParameter):
        ask_json(client, "a:1", GetBrokerStatistics())
