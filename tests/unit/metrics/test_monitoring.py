"""Pages, alert rules and boards are made of the table; ZENIT_REWRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from zenitmq.metrics.alert import Alert, alerts_page, families_in, rules_text
from zenitmq.metrics.alerts import ALERTS
from zenitmq.metrics.boards import BOARDS, Board, document
from zenitmq.metrics.family import Exporter, FamilyKind
from zenitmq.metrics.pages import families_page
from zenitmq.metrics.table import BY_NAME, FAMILIES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
MONITORING = ROOT / "deploy" / "monitoring"
PAGE = "https://github.com/zenitmq/zenitmq/blob/main/docs/alerts.md"
MARKED = re.compile(r"(<!-- table: families -->\n)(.*?)(<!-- end -->)", re.DOTALL)

ALERTS_HEAD = """# Alerts

What Prometheus watches for, and what you do about it. The rules are in `deploy/monitoring/zenit.rules.yml`; this page and
they are made from the same rows of the code. `page` means: somebody should look now; `warn`: on the next working day.
[metrics.md](metrics.md) says what each family is.
"""


def hold(path: Path, expected: str) -> None:
    """The file is what it should be; rewritten first where that was asked for."""
    if "ZENIT_REWRITE_DOCS" in os.environ:
        path.write_text(expected, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == expected, "run this test once with ZENIT_REWRITE_DOCS=1"


def test_the_page_of_families_is_made_of_the_table() -> None:
    path = DOCS / "metrics.md"
    text = path.read_text(encoding="utf-8")
    hold(path, MARKED.sub(lambda mark: mark[1] + "\n" + families_page(FAMILIES) + "\n" + mark[3], text))


def test_each_family_stands_on_the_page_once() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", families_page(FAMILIES), re.MULTILINE)
    assert sorted(rows) == sorted(BY_NAME)


def test_the_page_of_alerts_has_a_section_for_each() -> None:
    hold(DOCS / "alerts.md", alerts_page(ALERTS, ALERTS_HEAD))


def test_the_page_for_operators_says_of_each_alert_what_comes_first() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    linked = re.findall(r"\[(Zenit\w+)\]\(alerts\.md#(\w+)\)", text)
    assert sorted(name for name, _ in linked) == sorted(f"Zenit{alert.name}" for alert in ALERTS)
    assert all(name.lower() == anchor for name, anchor in linked)


def test_the_rules_are_made_of_the_alerts() -> None:
    hold(MONITORING / "zenit.rules.yml", rules_text(ALERTS, PAGE))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_is_made_of_its_panels(board: Board) -> None:
    hold(MONITORING / f"{board.name}.json", json.dumps(document(board), indent=1) + "\n")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_names_families_that_there_are(alert: Alert) -> None:
    named = families_in(alert.expression)
    assert named <= BY_NAME.keys()
    assert named or alert.name == "Down"
    check_use(alert.expression)
    known = {"instance", "cluster", "group", "replica", "lane", "why", "node_id", "consumer_group", "topic"}
    assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= known
    assert all(text.endswith((".", "?")) for text in (alert.means, alert.look, alert.do))
    assert not alert.wait or re.fullmatch(r"\d+[sm]", alert.wait)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_names_families_that_there_are(board: Board) -> None:
    for panel in board.panels:
        for expression, legend in panel.lines:
            named = families_in(expression)
            assert named
            assert named <= BY_NAME.keys()
            check_use(expression)
            labels = {label for name in named for label in BY_NAME[name].labels} | {"group", "node_id", "cluster"}
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels
    for _, query in board.choices:
        assert families_in(query) <= BY_NAME.keys()


def check_use(expression: str) -> None:
    """Counters are asked for their increase alone, histograms for their buckets."""
    for name in families_in(expression):
        kind = BY_NAME[name].kind
        if kind is FamilyKind.COUNTER:
            assert re.search(rf"(rate|increase)\({name}\b", expression), name
        if kind is FamilyKind.HISTOGRAM:
            assert re.search(rf"{name}_(bucket|sum|count)\b", expression), name
        if kind is FamilyKind.GAUGE:
            assert not re.search(rf"(rate|increase)\({name}\b", expression), name


def test_names_of_alerts_and_boards_are_told_apart() -> None:
    assert len({alert.full_name.lower() for alert in ALERTS}) == len(ALERTS) > 20
    assert len({board.name for board in BOARDS}) == len(BOARDS) == 3
    assert all(family.exporters for family in FAMILIES)
    assert {exporter for family in FAMILIES for exporter in family.exporters} == set(Exporter)


def test_suffixes_of_series_are_not_of_the_family() -> None:
    text = "rate(zenit_loop_turn_seconds_bucket[5m]) + zenit_rpc_seconds_count - process_open_fds{a='zenit'}"
    assert families_in(text) == {"zenit_loop_turn_seconds", "zenit_rpc_seconds", "process_open_fds"}
