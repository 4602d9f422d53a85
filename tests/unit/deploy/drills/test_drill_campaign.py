"""A campaign draws the same legs for a seed, passes only where every leg did, and its page shows what was found."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from zenitmq.deploy.drills.campaign import KINDS, Account, Leg, document, legs
from zenitmq.deploy.drills.campaign_page import page, picture
from zenitmq.deploy.drills.campaign_run import CampaignOptions
from zenitmq.model.errors import InvalidParameter

SVG = "{http://www.w3.org/2000/svg}"


def drill(*, passed: bool = True, lost: int = 0, pause_ms: float = 300.0) -> dict[str, Any]:
    run = {
        **dict.fromkeys(("changed", "uneven", "holes", "damaged", "reordered", "duplicated", "violations"), 0),
        "acknowledged": 1000,
        "lost": lost,
        "seconds": 30.0,
        "acknowledged_per_second": [40] * 25 + [0] * 5,
        "faults": [{"fault": "kill broker-a-1, broker-a-2", "at_ms": 10_000.0, "pause_ms": pause_ms}],
        "examples": ["message <1, 2> is not at b"] if lost else [],
    }
    return {"passed": passed, "runs": [run]}


LEG = Leg(0, KINDS[0], 7, 0.5)
GOOD = Account(leg=LEG, began_ms=0, ended_ms=50_000, document=drill())
LOST = replace(GOOD, leg=replace(LEG, number=1), document=drill(passed=False, lost=3, pause_ms=9000.0), evidence="/e")
BROKE = replace(GOOD, leg=replace(LEG, number=2), document=None, failure="zenit: no ports")


@pytest.mark.parametrize("seed", [1, 2])
def test_legs_are_the_same_for_a_seed_and_each_round_has_every_kind(seed: int) -> None:
    count = sum(kind.weight for kind in KINDS)
    first = list(islice(legs(seed), 3 * count))
    assert first == list(islice(legs(seed), 3 * count))
    assert first != list(islice(legs(seed + 1), 3 * count))
    for begin in range(0, len(first), count):
        names = [leg.kind.name for leg in first[begin : begin + count]]
        assert {name: names.count(name) for name in names} == {kind.name: kind.weight for kind in KINDS}
    assert [leg.number for leg in first] == list(range(3 * count))


def test_it_passes_where_every_leg_did() -> None:
    told = document([GOOD, replace(GOOD, leg=replace(LEG, number=1))], seed=5, hours=1.0, began_ms=17)
    assert (told["passed"], told["acknowledged"], told["lost"]) == (True, 2000, 0)
    assert told["faults"] == {"kill": 2}
    assert told["pauses"] == {"count": 2, "median_ms": 300.0, "worst_ms": 300.0, "interesting": []}
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("wrong", [LOST, BROKE])
def test_a_leg_that_broke_a_promise_or_broke_off_fails_it(wrong: Account) -> None:
    told = document([GOOD, wrong], seed=5, hours=1.0, began_ms=17)
    assert not told["passed"]
    assert [leg["passed"] for leg in told["legs"]] == [True, False]


def test_none_is_no_pass() -> None:
    assert not document([], seed=5, hours=1.0, began_ms=17)["passed"]


def test_the_page_shows_each_fault_and_what_is_wrong() -> None:
    told = document([GOOD, LOST, BROKE], seed=5, hours=1.0, began_ms=17)
    drawn = picture(told)
    circles = ET.fromstring(drawn).findall(f".//{SVG}circle")
    assert len(circles) == 2
    assert len({circle.get("cy") for circle in circles}) == 2
    text = page(told, drawn)
    for shown in ("FAILED", "zenit: no ports", "message &lt;1, 2&gt; is not at b", "/e", "Pauses over 4 s", "9,000.0"):
        assert shown in text


@pytest.mark.parametrize("wrong", [{"hours": 0}, {"hours": 1, "leg_minutes": 0}, {"hours": 1, "rate": 0}])
def test_a_wrong_wish_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        CampaignOptions(**wrong)
