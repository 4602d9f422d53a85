"""What `zenit status` prints of a group whose sets nobody tells, or that nobody leads."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.cli.commands.local import _print_status


def document(**changed: Any) -> dict[str, Any]:
    names = ("name", "role", "epoch", "newest_epoch", "written_offset", "flushed_offset", "confirm_offset", "lag_bytes")
    replica = dict.fromkeys(
        (
            *names,
            "hole_at",
            "halted",
            "drain",
            "refuses_writes",
            "deletes_early",
            "scrub",
            "delayed_damaged",
            "delayed_lost",
        )
    ) | {
        "name": "broker-a-1",
        "role": "candidate",
    }
    group = {"broker_name": "broker-a", "in_sync": None, "blocked": None, "no_master": None, "retention_holds": []}
    group |= {"master": None, "min_in_sync": 2, "replicas": [replica], **changed}
    whole = {"cluster": "c", "cluster_id": "i", "namesrv": "n", "processes": [], "groups": [group], "controller": "h:1"}
    return whole | {name: changed[name] for name in changed if name in whole}


def test_sets_that_are_not_known_are_not_called_empty(capsys: pytest.CaptureFixture[str]) -> None:
    _print_status(document(controller=None))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if "candidate" in line] == ["-"]
    assert any(line.startswith("no controller leads") for line in lines)
    _print_status(document(in_sync=[]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if "candidate" in line] == ["no"]
    assert not any(line.startswith("no controller leads") for line in lines)


def test_a_group_that_nobody_leads_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    _print_status(document(no_master="do this"))
    assert "broker-a: no master: do this" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("in_sync", "master", "blocked", "is_told"),
    [
        (["broker-a-1"], "broker-a-1", None, True),
        (["broker-a-1", "broker-a-2"], "broker-a-1", None, False),
        (None, "broker-a-1", None, False),
        ([], None, None, False),  # whom to start or elect is said instead, or somebody is elected
        (["broker-a-1"], "broker-a-1", "data was lost", False),
    ],
)
def test_a_group_with_too_few_in_sync_says_that_its_writes_wait(
    capsys: pytest.CaptureFixture[str],
    in_sync: list[str] | None,
    master: str | None,
    blocked: str | None,
    is_told: bool,
) -> None:
    _print_status(document(in_sync=in_sync, master=master, blocked=blocked))
    line = "broker-a takes no writes: 1 in sync, 2 needed: start the replicas that are down"
    assert (line in capsys.readouterr().out) is is_told


def scrubbed(**changed: Any) -> dict[str, Any]:
    scrub = dict.fromkeys(("ended_ms", "error", "damaged_ranges", "damaged_entry", "under_way"))
    scrub |= {"mended_ranges": 0, "quarantined_ranges": 0, "quarantined": [], **changed}
    told = document()
    told["groups"][0]["replicas"][0]["scrub"] = scrub
    return told


@pytest.mark.parametrize(
    ("role", "written", "is_told"),
    [
        ("slave", 100, True),
        ("slave", 349, True),
        ("slave", 350, False),
        ("candidate", 100, False),
        ("down", None, False),
    ],
)
def test_a_slave_that_waits_before_damage_of_its_master_says_so(
    capsys: pytest.CaptureFixture[str], role: str, written: int | None, is_told: bool
) -> None:
    told = scrubbed(quarantined_ranges=1, quarantined=[[300, 350]])
    group = told["groups"][0]
    master = group["replicas"][0] | {"role": "master"}
    slave = document()["groups"][0]["replicas"][0] | {"name": "broker-a-2", "role": role, "written_offset": written}
    group |= {"master": "broker-a-1", "replicas": [master, slave]}
    _print_status(told)
    line = (
        "broker-a-2 gets its master's log only up to what is damaged there, [300, 350), until that is mended or leaves with "
        "its segment; lost everywhere: zenit store copy"
    )
    assert (line in capsys.readouterr().out) is is_told


def test_a_scrub_under_way_is_shown_and_that_the_broker_is_too_busy(capsys: pytest.CaptureFixture[str]) -> None:
    for is_waiting, shown in ((False, "25 %"), (True, "25 %, broker busy")):
        round_ = {"begun_ms": 5, "done_bytes": 100, "size_bytes": 400, "is_waiting_for_calm": is_waiting}
        _print_status(scrubbed(under_way=round_))
        lines = capsys.readouterr().out.splitlines()
        assert any(shown in line and line.startswith("broker-a-1") for line in lines), lines


def test_what_is_damaged_and_why_a_scrub_ended_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    _print_status(
        scrubbed(
            error="no file", damaged_entry="checksum/0 entry 1", quarantined_ranges=3, quarantined=[[1, 2], [4, 6]]
        )
    )
    lines = capsys.readouterr().out.splitlines()
    assert "broker-a-1: its last scrub could not read the log to its end: no file" in lines
    assert "broker-a-1: a checksum entry is damaged: checksum/0 entry 1" in lines
    assert "broker-a-1: quarantined bytes of its log: [1, 2), [4, 6), ..." in lines


def test_a_replica_that_drains_says_how_to_end_that(capsys: pytest.CaptureFixture[str]) -> None:
    told = document()
    told["groups"][0]["replicas"][0]["drain"] = "drained"
    _print_status(told)
    line = "broker-a-1 drains (drained), and is not to lead: zenit broker drain broker-a-1 --undo"
    assert line in capsys.readouterr().out.splitlines()


def test_a_store_that_takes_no_writes_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    told = document()
    told["groups"][0]["replicas"][0]["refuses_writes"] = "disk full: free space"
    _print_status(told)
    assert "broker-a-1 takes no writes: disk full: free space" in capsys.readouterr().out


def test_a_store_whose_files_go_before_their_age_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    told = document()
    told["groups"][0]["replicas"][0]["deletes_early"] = "disk use is 87%: free space"
    _print_status(told)
    assert "broker-a-1: disk use is 87%: free space" in capsys.readouterr().out


def test_each_process_is_shown_with_the_port_of_its_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    broker = {"role": "broker", "name": "broker-a", "pid": 7, "address": "h:2", "up": True, "store_dir": "/s"}
    _print_status(document(processes=[broker | {"metrics": "h:9881"}, broker | {"role": "zookeeper"}]))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (names,) = [line for line in lines if line[:2] == ["role", "name"]]
    shown = [line[names.index("metrics")] for line in lines if "/s" in line]
    assert shown == ["h:9881", "-"]
