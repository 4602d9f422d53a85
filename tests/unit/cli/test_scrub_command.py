"""`zenit store scrub`: how it follows a round, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest
import typer

from zenitmq.cli.store import scrub, scrub_end, scrub_progress, scrub_result
from zenitmq.client import admin
from zenitmq.deploy import local_cluster
from zenitmq.deploy.cluster_record import BROKER, ClusterRecord, ProcessRecord, Shape, encode_record
from zenitmq.model.errors import ConnectionLost


def told(current: dict[str, int] | None, last: dict[str, int] | None = None, **other: Any) -> dict[str, Any]:
    statistics = {"broker_name": "a", "scrub": {"current": current, "last": last}, "store": {"quarantined_ranges": 2}}
    return {**statistics, **other}


ROUND = {"begun_ms": 5, "begin": 100, "end": 900, "position": 300}


def test_a_round_is_followed_to_its_end() -> None:
    asked = scrub_end(told(ROUND))
    assert asked == (5, 800)
    assert scrub_progress(told(ROUND), asked) == (200, False)
    assert scrub_progress(told(None, ROUND), asked) == (800, True)
    assert scrub_progress(told({**ROUND, "begun_ms": 9}), asked) == (800, True), "another was begun meanwhile"
    assert scrub_end(told(None, ROUND)) == (5, 800), "it was over before it was asked about"


def test_what_is_told_of_a_replica() -> None:
    last = {"read_bytes": 9, "vouched_bytes": 8, "damaged_ranges": 3, "damaged_bytes": 7, "damaged_units": 2}
    assert scrub_result("h:1", told(None, last, repairs={"mended_ranges": 1})) == {
        "broker_name": "a",
        "address": "h:1",
        "state": "up",
        **last,
        "mended_ranges": 1,
        "quarantined_ranges": 2,
    }
    assert scrub_result("h:1", told(ROUND))["read_bytes"] == 0


class HalfAdmin:
    """Two brokers were asked; one of them stops before it is asked how far it is."""

    def __init__(self, _namesrv: str | None) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def scrub(self, _broker: str | None, *, bytes_per_second: int) -> dict[str, Any]:
        assert bytes_per_second == 0
        return {"h:1": told(None, ROUND), "h:2": told(None, ROUND)}

    def scrub_statistics(self, addresses: Iterable[str]) -> dict[str, Any]:
        (address,) = addresses
        if address == "h:2":
            raise ConnectionLost("h:2")
        return {address: told(None, ROUND)}


def test_replicas_that_are_down_have_a_row_and_the_others_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [
        ProcessRecord(role=BROKER, name=f"a-{n}", pid=99, birth="1", address=f"h:{n}", group="a") for n in (1, 2, 3)
    ]
    record = ClusterRecord(cluster="zenit", namesrv="h:9", shape=Shape(replicas=3), processes=tuple(brokers))
    (tmp_path / "cluster.json").write_text(encode_record(record))
    monkeypatch.setattr(local_cluster, "last_directory", lambda: str(tmp_path))
    monkeypatch.setattr(admin, "Admin", HalfAdmin)
    with pytest.raises(typer.Exit) as ended:
        scrub(None, rate=0, namesrv="h:9", as_json=True)
    assert ended.value.exit_code == 1
    out, err = capsys.readouterr()
    rows = json.loads(out)["replicas"]
    assert [(row["address"], row["state"]) for row in rows] == [("h:1", "up"), ("h:2", "down"), ("h:3", "down")]
    assert "down: h:2, h:3" in err
