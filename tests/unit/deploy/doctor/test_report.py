"""The doctor's report: what servers answered, and whether their versions work together."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.deploy.doctor.report import (
    UNREADABLE,
    Examined,
    examined_server,
    judged_target,
    judged_versions,
    report_lines,
)
from zenitmq.model.examination.finding import Finding, Severity

FINDING = {"severity": "note", "check": "swap", "text": "vm.swappiness = 60", "remedy": "lower it"}
ANSWER: dict[str, Any] = {
    "version": "0.1.0",
    "findings": [FINDING],
    "clock_ahead_ms": -2.0,
    "clock_uncertainty_ms": 1.5,
}


def test_a_servers_answer_and_its_clock() -> None:
    one = examined_server("broker b:1", ANSWER)
    assert (one.version, [found.check for found in one.findings]) == ("0.1.0", ["swap", "clock apart"])
    assert one.document()["severity"] == "note"


@pytest.mark.parametrize(
    "changed",
    [
        {"findings": None},
        {"findings": [{}]},
        {"findings": ["x"]},
        {"findings": [{**FINDING, "severity": "?"}]},
        {"clock_ahead_ms": "soon"},
    ],
)
def test_an_answer_that_cannot_be_read_is_a_problem(changed: dict[str, Any]) -> None:
    assert examined_server("broker b:1", {**ANSWER, **changed}).findings == (UNREADABLE,)


@pytest.mark.parametrize(
    ("versions", "severity"),
    [
        ([], Severity.NOTE),
        (["0.1.0", "0.1.0"], Severity.OK),
        (["0.1.0", "0.1.3"], Severity.NOTE),
        (["0.1.0", "0.2.0"], Severity.NOTE),
        (["0.1.0", "0.3.0"], Severity.PROBLEM),
        (["0.9.0", "0.10.0"], Severity.NOTE),
        (["1.0.0", "2.0.0"], Severity.PROBLEM),
        (["next", "0.1.0"], Severity.NOTE),
    ],
)
def test_versions_one_minor_apart_work_together(versions: list[str], severity: Severity) -> None:
    assert judged_versions(versions).severity is severity


@pytest.mark.parametrize(
    ("versions", "target", "refused"),
    [
        (["0.1.0", "0.1.2"], "0.2.0", ""),
        (["0.2.0"], "0.1.9", ""),
        (["0.1.0", "0.2.0"], "0.2.1", ""),
        (["0.1.0"], "", ""),
        ([], "0.9.0", ""),
        (["0.1.0"], "0.3.0", "0.3.0 is more than one minor version away from 0.1.0"),
        (["0.2.0", "0.1.0"], "0.3.0", "0.3.0 is more than one minor version away from 0.1.0"),
        (["0.9.0"], "1.0.0", "1.0.0 is more than one minor version away from 0.9.0"),
    ],
)
def test_an_upgrade_goes_one_minor_version_at_a_time(versions: list[str], target: str, refused: str) -> None:
    found = judged_target(versions, target)
    assert found.startswith(refused)
    assert bool(found) == bool(refused)


def test_the_report_leaves_out_what_is_in_order_unless_asked() -> None:
    fine = Finding(Severity.OK, "clock", "synchronized")
    bad = Finding(Severity.PROBLEM, "disk", "full", "make room")
    examined = [Examined("this machine", (fine,), "0.1.0"), Examined("broker b:1", (fine, bad))]
    assert report_lines(examined, with_ok=False) == [
        "this machine (zenit 0.1.0): all is well",
        "broker b:1",
        "  problem  disk: full",
        "           -> make room",
    ]
    assert "  ok       clock: synchronized" in report_lines(examined, with_ok=True)


def test_a_server_commands_no_terminal_and_forges_no_line() -> None:
    finding = {
        "severity": "ok",
        "check": "\x1b[2J",
        "text": "\x1b]0;title\x07",
        "remedy": "a\nthis machine: all is well",
    }
    document = {"findings": [finding], "clock_ahead_ms": 0, "clock_uncertainty_ms": 0, "version": "\x1b[31m"}
    lines = report_lines([examined_server("broker a:1", document)], with_ok=True)
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
