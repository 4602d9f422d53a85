"""What campaigns found is written into a page between its marks, with their pictures beside it, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zenitmq.deploy.drills.campaigns.campaign import COUNTS, KINDS, Account, Leg, document
from zenitmq.deploy.drills.campaigns.campaign_figures import BEGIN, END, main, put_into, section


def leg(number: int, cluster: str, kind: str, pause_ms: float) -> Account:
    (wanted,) = [each for each in KINDS if each.name == cluster]
    fault = {"fault": kind, "kind": kind, "at_ms": 1.0, "mended_at_ms": 2.0, "pause_ms": pause_ms}
    fault |= {"gap_while_held_ms": pause_ms, "gap_once_mended_ms": 0.0}
    run = dict.fromkeys(COUNTS, 0)
    run |= {
        "acknowledged": 1_234_567,
        "seconds": 9.0,
        "acknowledged_per_second": [4],
        "faults": [fault],
        "examples": [],
    }
    return Account(
        leg=Leg(number, wanted, 3, 0.2),
        began_ms=60_000 * number,
        ended_ms=60_000 * (number + 1),
        document={"passed": True, "runs": [run]},
    )


@pytest.fixture
def account() -> dict[str, Any]:
    legs = [leg(0, "three", "kill: master", 640.0), leg(1, "static", "kill: master", 5_000.0)]
    return document(legs, seed=17, hours=1.5, began_ms=1)


def test_figures_are_those_of_the_account(account: dict[str, Any]) -> None:
    lines = section([account]).splitlines()
    assert "| `zenit drill campaign --hours 1.5 --seed 17` | 2 | 2 | 2 | 2,469,134 | 0 | 0 | 0 | 0 | 0 |" in lines
    assert "| 17 | 2 | 2,820 | 640 | 5,000 | 0 |" in lines
    assert "| kill: master | 1 | 640 | 640 |" in lines
    assert "| kill: master, a static master; writes wait by design | 1 | 5,000 | 5,000 |" in lines
    assert any("(campaign-17.svg)" in line for line in lines)
    assert any(line.startswith("Never drawn: ") and "`kill: slave`" in line for line in lines)


def test_the_page_changes_between_its_marks_only(account: dict[str, Any], tmp_path: Path) -> None:
    page, report = tmp_path / "failover.md", tmp_path / "report"
    page.write_text(f"before\n{BEGIN}\nold figures\n{END}\nafter\n")
    report.mkdir()
    (report / "campaign.json").write_text(json.dumps(account))
    for _ in range(2):
        assert main([str(report), "--page", str(page)]) == 0
        assert page.read_text() == f"before\n{BEGIN}\n{section([account])}{END}\nafter\n"
    assert (tmp_path / "campaign-17.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("page", ["nothing", BEGIN, f"{END} {BEGIN}"])
def test_a_page_without_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="figures of campaigns"):
        put_into(page, "new")
