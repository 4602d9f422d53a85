"""`zenit store scrub`: how it follows a round, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest
import typer

from zenitmq.cli.commands.store import scrub, scrub_end, scrub_progress, scrub_result
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


FOUND = {"read_bytes": 9, "vouched_bytes": 8, "damaged_ranges": 3, "damaged_bytes": 7, "damaged_units": 2}
FOUND |= {"damaged_entries": 1, "mended_entries": 1}


def test_what_is_told_of_a_replica() -> None:
    assert scrub_result("h:1", told(None, {"begun_ms": 5, **FOUND}, repairs={"mended_ranges": 1}), 5) == {
        "broker_name": "a",
        "address": "h:1",
        "state": "up",
        **FOUND,
        "mended_ranges": 1,
        "quarantined_ranges": 2,
        "quarantined": [],
        "damaged_entry": None,
        "error": None,
    }


@pytest.mark.parametrize("current", [None, ROUND])
def test_the_figures_of_another_round_are_not_told_as_those_of_this_one(current: dict[str, int] | None) -> None:
    row = scrub_result("h:1", told(current, {"begun_ms": 4, **FOUND}), 5)
    assert (row["state"], row["read_bytes"], row["damaged_ranges"]) == ("replaced", None, None)
    assert "meanwhile" in row["error"]


def test_a_log_that_could_not_be_read_is_told_with_what_to_do() -> None:
    row = scrub_result("h:1", told(None, {"begun_ms": 5, "error": "No such file: 'x'", **FOUND}), 5)
    assert (row["state"], row["read_bytes"]) == ("failed", 9)
    assert row["error"] == "No such file: 'x'; see that the broker can read its files, then scrub again"


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


class UnreadableAdmin(HalfAdmin):
    """The log of the one that was asked cannot be read."""

    def scrub(self, _broker: str | None, *, bytes_per_second: int) -> dict[str, Any]:
        return {"h:1": told(ROUND)}

    def scrub_statistics(self, addresses: Iterable[str]) -> dict[str, Any]:
        return {
            address: told(None, {**ROUND, "error": "gone"}, store={"quarantined_ranges": 0}) for address in addresses
        }


def test_a_log_that_could_not_be_read_ends_the_command_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_cluster, "last_directory", lambda: None)
    monkeypatch.setattr(admin, "Admin", UnreadableAdmin)
    with pytest.raises(typer.Exit) as ended:
        scrub(None, rate=0, namesrv="h:9", as_json=False)
    assert ended.value.exit_code == 1
    out, err = capsys.readouterr()
    assert "failed" in out
    assert "h:1: not scrubbed to the end: gone" in err


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


class InterruptedAdmin(UnreadableAdmin):
    """Somebody presses Ctrl-C while the round goes on."""

    def scrub_statistics(self, addresses: Iterable[str]) -> dict[str, Any]:
        raise KeyboardInterrupt


def test_who_does_not_wait_is_told_that_the_round_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(admin, "Admin", InterruptedAdmin)
    with pytest.raises(KeyboardInterrupt):
        scrub(None, rate=0, namesrv="h:9", as_json=False)
    assert "the brokers go on with the scrub" in capsys.readouterr().err


class DamagedAdmin(UnreadableAdmin):
    """A broker alone has lost two places."""

    def scrub_statistics(self, addresses: Iterable[str]) -> dict[str, Any]:
        store = {"quarantined_ranges": 2, "first_quarantined": [[5, 9], [20, 30]]}
        return {address: told(None, {**ROUND, **FOUND}, store=store) for address in addresses}


def test_the_damaged_ranges_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(local_cluster, "last_directory", lambda: None)
    monkeypatch.setattr(admin, "Admin", DamagedAdmin)
    with pytest.raises(typer.Exit):
        scrub(None, rate=0, namesrv="h:9", as_json=True)
    out, err = capsys.readouterr()
    assert json.loads(out)["replicas"][0]["quarantined"] == [[5, 9], [20, 30]]
    assert "h:1: quarantined bytes of its log: [5, 9), [20, 30)" in err


@pytest.mark.parametrize("rate", [1, 4095])
def test_a_rate_below_the_settings_minimum_is_wrong_usage(rate: int) -> None:
    with pytest.raises(typer.BadParameter, match="4096"):
        scrub(None, rate=rate, namesrv="h:9", as_json=True)
