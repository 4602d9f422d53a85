"""A campaign draws the same legs for a seed, passes only where every leg did, and its page shows what was found."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from zenitmq.deploy.drills.campaigns.campaign import COUNTS, KINDS, Account, Leg, document, legs
from zenitmq.deploy.drills.campaigns.campaign_page import page
from zenitmq.deploy.drills.campaigns.campaign_picture import picture
from zenitmq.deploy.drills.campaigns.campaign_run import CampaignOptions
from zenitmq.deploy.drills.topic_kinds import TOPIC_KINDS
from zenitmq.model.errors import InvalidParameter

SVG = "{http://www.w3.org/2000/svg}"


def drill(
    *,
    passed: bool = True,
    lost: int = 0,
    pause_ms: float = 300.0,
    held_ms: float = 0.0,
    mended_ms: float = 0.0,
    kind: str = "kill: all brokers",
) -> dict[str, Any]:
    """`held_ms`, `mended_ms`: how much of the pause was while it was held, and once it was mended."""
    fault = {"fault": "kill broker-a-1, broker-a-2", "kind": kind}
    fault |= {"at_ms": 10_000.0, "mended_at_ms": 12_000.0, "pause_ms": pause_ms}
    fault |= {"gap_while_held_ms": held_ms, "gap_once_mended_ms": mended_ms}
    run = {
        **dict.fromkeys(COUNTS, 0),
        "acknowledged": 1000,
        "lost": lost,
        "seconds": 30.0,
        "acknowledged_per_second": [40] * 25 + [0] * 5,
        "faults": [fault],
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
    assert {leg.topics for leg in first} == set(TOPIC_KINDS)


def test_it_passes_where_every_leg_did() -> None:
    told = document([GOOD, replace(GOOD, leg=replace(LEG, number=1))], seed=5, hours=1.0, began_ms=17)
    assert (told["passed"], told["acknowledged"], told["lost"]) == (True, 2000, 0)
    assert told["faults"] == {"kill: all brokers": {"times": 2, "pause_median_ms": 300.0, "pause_worst_ms": 300.0}}
    assert told["pauses"] == {
        "count": 2,
        "median_ms": 300.0,
        "worst_ms": 300.0,
        "too_long": 0,
        "stalled": 0,
        "long": [],
    }
    assert not told["interrupted"]
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("wrong", [LOST, BROKE])
def test_a_leg_that_broke_a_promise_or_broke_off_fails_it(wrong: Account) -> None:
    told = document([GOOD, wrong], seed=5, hours=1.0, began_ms=17)
    assert not told["passed"]
    assert [leg["passed"] for leg in told["legs"]] == [True, False]


def test_none_is_no_pass() -> None:
    assert not document([], seed=5, hours=1.0, began_ms=17)["passed"]


def test_what_was_never_drawn_is_told() -> None:
    """Of what may be drawn at any kind of cluster."""
    told = document([GOOD], seed=5, hours=1.0, began_ms=17)["never_drawn"]
    assert "kill: all brokers" not in told
    assert {
        "power cut: all brokers",
        "its disk hangs: slave",
        "cut off: master",
        "bits rot: a minority of the replicas",
    } < set(told)


@pytest.mark.parametrize(
    ("kind", "fault", "too_long"),
    [
        ("three", "kill: all brokers", 0),
        ("three", "its data is gone: ZooKeeper", 0),
        ("three", "kill: master", 1),
        ("static", "kill: master", 0),
        ("static", "kill: slave", 1),
    ],
)
def test_a_pause_over_the_bound_is_too_long_unless_writes_wait_by_design(kind: str, fault: str, too_long: int) -> None:
    (cluster,) = [each for each in KINDS if each.name == kind]
    leg = replace(GOOD, leg=replace(LEG, kind=cluster), document=drill(pause_ms=4001.0, kind=fault))
    pauses = document([leg], seed=5, hours=1.0, began_ms=17)["pauses"]
    assert (pauses["too_long"], len(pauses["long"])) == (too_long, 1)


EMPTIED, WIPED = "its data is gone: ZooKeeper", "its data is gone, and a wiped replica registers first: ZooKeeper"


@pytest.mark.parametrize(
    ("kind", "fault", "times", "stalls"),
    [
        ("three", "kill: master", {"pause_ms": 30_000.0}, False),
        ("three", "kill: master", {"pause_ms": 30_001.0}, True),
        ("static", "cut off from the other replicas: master", {"pause_ms": 30_001.0}, True),
        ("static", "kill: master", {"pause_ms": 80_000.0, "mended_ms": 60_000.0}, False),
        ("static", "kill: master", {"pause_ms": 80_000.0, "mended_ms": 60_001.0}, True),
        ("groups", "kill: all brokers", {"pause_ms": 80_000.0, "mended_ms": 60_001.0}, True),
        ("three", EMPTIED, {"pause_ms": 80_000.0, "held_ms": 30_000.0}, False),
        ("three", EMPTIED, {"pause_ms": 80_000.0, "held_ms": 30_001.0}, True),
        ("three", WIPED, {"pause_ms": 80_000.0, "held_ms": 30_001.0}, False),
        ("three", WIPED, {"pause_ms": 80_000.0, "mended_ms": 60_001.0}, True),
    ],
)
def test_a_leg_in_which_writes_stall_does_not_pass(
    kind: str, fault: str, times: dict[str, float], stalls: bool
) -> None:
    """What the design explains is bounded too, from the end of the mending on."""
    (cluster,) = [each for each in KINDS if each.name == kind]
    leg = replace(GOOD, leg=replace(LEG, kind=cluster), document=drill(kind=fault, **times))
    told = document([leg], seed=5, hours=1.0, began_ms=17)
    assert (told["passed"], told["legs"][0]["passed"]) == (not stalls, not stalls)
    assert told["pauses"]["stalled"] == len(told["legs"][0]["stalls"]) == stalls
    assert ("a stall, " in page(told, picture(told))) == stalls


def test_only_what_an_operator_takes_is_by_design_where_writes_go_on_until_then() -> None:
    for held_ms, too_long in ((4_000.0, 0), (4_001.0, 1)):
        found = replace(GOOD, document=drill(kind=EMPTIED, pause_ms=9_000.0, held_ms=held_ms))
        assert document([found], seed=5, hours=1.0, began_ms=17)["pauses"]["too_long"] == too_long


def test_the_picture_shows_each_fault_at_its_time_with_its_pause() -> None:
    slow = replace(GOOD, leg=replace(LEG, number=1), began_ms=50_000, ended_ms=100_000)
    slow = replace(slow, document=drill(pause_ms=9000.0, kind="kill: master"))
    root = ET.fromstring(picture(document([GOOD, slow, BROKE], seed=5, hours=1.0, began_ms=17)))
    circles = list(root.iter(f"{SVG}circle"))
    (bound,) = [each for each in root.iter() if each.get("class") == "bound"]
    bound_y = float(bound.get("d", "").split()[1].partition("H")[0])
    assert [float(each.get("cy", 0)) < bound_y for each in circles] == [False, True]
    assert [each.get("fill") for each in circles] == ["#ffffff", "#c53030"]  # by design, too long
    assert float(circles[0].get("cx", 0)) < float(circles[1].get("cx", 0))
    deeds = [each for each in root.iter() if each.get("class") == "deed"]
    assert len({each.get("y") for each in deeds}) == 1  # both are kills
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {"4 s", "100 ms", "minutes since the campaign began", "emptied, wiped first", "2"} < set(texts)
    assert any("2,000 acknowledged" in (text or "") for text in texts)


@pytest.mark.parametrize("accounts", [[], [BROKE]])
def test_a_campaign_that_found_nothing_out_can_be_shown(accounts: list[Account]) -> None:
    told = document(accounts, seed=5, hours=1.0, began_ms=17, is_interrupted=True)
    drawn = picture(told)
    ET.fromstring(drawn)
    assert "FAILED, interrupted" in page(told, drawn)


def test_the_page_shows_figures_and_what_is_wrong() -> None:
    told = document([GOOD, LOST, BROKE], seed=5, hours=1.0, began_ms=17)
    text = page(told, picture(told))
    for shown in ("FAILED", "zenit: no ports", "message &lt;1, 2&gt; is not at b", "/e", "Pauses over 4 s", "9,000.0"):
        assert shown in text
    for shown in ("Never drawn", "power cut: all brokers", "Faults", "not by design"):
        assert shown in text


@pytest.mark.parametrize(
    "wrong", [{"hours": 0}, {"hours": 1, "leg_minutes": 0}, {"hours": 1, "rate": 0}, {"hours": 1, "batch": 0}]
)
def test_a_wrong_wish_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        CampaignOptions(**wrong)


def test_the_page_has_its_command_and_leads_to_the_legs_that_have_a_report() -> None:
    text = page(
        document([GOOD, BROKE], seed=5, hours=1.0, began_ms=17, command="zenit drill campaign --seed 5"), "<svg/>"
    )
    assert "<pre>zenit drill campaign --seed 5</pre>" in text
    assert '<a href="leg-000/random.json">1</a>' in text
    assert text.count("href=") == 1


def test_the_command_carries_out_the_same_campaign() -> None:
    told = CampaignOptions(hours=1.5, seed=17, rate=500, batch=8, leg_minutes=2).command()
    assert told == "zenit drill campaign --hours 1.5 --seed 17 --leg-minutes 2 --rate 500 --batch 8"
