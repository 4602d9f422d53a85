"""What `zenit status` prints of a group whose sets nobody tells, or that nobody leads."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.cli.local import _print_status


def document(**changed: Any) -> dict[str, Any]:
    names = ("name", "role", "epoch", "newest_epoch", "written_offset", "flushed_offset", "confirm_offset", "lag_bytes")
    replica = dict.fromkeys((*names, "hole_at", "halted", "scrub")) | {"name": "broker-a-1", "role": "candidate"}
    group = {"broker_name": "broker-a", "in_sync": None, "blocked": None, "no_master": None, "retention_holds": []}
    group |= {"replicas": [replica], **changed}
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
