"""Whatever a report is of, its page is one that a reader of XML takes, and its axes hold what is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.pipeline.reports.html_report import Bars, Facts, Lines, Table, render, ticks

ANY_TEXT = st.text(max_size=60)
CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), ANY_TEXT)
AMOUNTS = st.floats(min_value=0, max_value=1e15)
POINTS = st.lists(st.tuples(st.integers(0, 4_000_000_000_000), AMOUNTS), max_size=20).map(sorted)
PARTS = st.one_of(
    st.builds(Facts, ANY_TEXT, st.dictionaries(ANY_TEXT, CELLS, max_size=5)),
    st.builds(Table, ANY_TEXT, st.just(("a", "b")), st.lists(st.tuples(CELLS, CELLS), max_size=8)),
    st.builds(Bars, ANY_TEXT, ANY_TEXT, st.lists(st.tuples(ANY_TEXT, AMOUNTS), max_size=50)),
    st.builds(Lines, ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, POINTS, max_size=10)),
)


@given(ANY_TEXT, st.lists(PARTS, max_size=5))
def test_a_page_is_xml_and_utf_8(title: str, parts: list[Facts | Table | Bars | Lines]) -> None:
    page = render(title, parts, made_at_ms=1_700_000_000_000)
    page.encode()
    ET.fromstring(page.removeprefix("<!doctype html>\n"))


@given(AMOUNTS)
def test_the_levels_of_an_axis(highest: float) -> None:
    levels = ticks(highest)
    assert 2 <= len(levels) <= 7
    assert levels == sorted(levels)
    assert levels[0] == 0
    assert levels[-1] >= highest * (1 - 1e-9)
