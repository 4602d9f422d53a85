"""The page of a report: well-formed, complete, true to its values, and safe whatever its texts are."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from zenitmq.pipeline.reports.html_report import (
    BARS_MAX,
    ROWS_MAX,
    SERIES_MAX,
    Bars,
    Facts,
    Lines,
    Part,
    Table,
    render,
    short,
    shown,
    ticks,
    time_ticks,
)

SVG = "{http://www.w3.org/2000/svg}"


def page(*parts: Part) -> ET.Element:
    return ET.fromstring(render("a report", parts, made_at_ms=0).removeprefix("<!doctype html>\n"))


def texts(element: ET.Element, tag: str) -> list[str]:
    return ["".join(found.itertext()) for found in element.iter(tag)]


def test_it_says_what_it_is_and_when_it_was_made() -> None:
    root = page()
    assert texts(root, "h1") == ["a report"]
    assert texts(root, "p") == ["1970-01-01 00:00:00+00:00"]


def test_nothing_is_loaded_and_nothing_runs() -> None:
    root = page(Bars("b", "x", [("a", 1)]), Lines("l", "x", {"a": [(0, 1.0), (9, 2.0)]}), Table("t", ("c",), [(1,)]))
    assert not {each.tag for each in root.iter()} & {"script", "link", "img", "iframe"}
    assert not [each for each in root.iter() if {"src", "href", "onload"} & set(each.attrib)]


def test_facts_stand_beside_their_names() -> None:
    root = page(Facts("In all", {"letters": 1234, "kept": True}), Facts("Nothing", {}))
    assert texts(root, "h2") == ["In all"]
    assert list(zip(texts(root, "th"), texts(root, "td"), strict=True)) == [("letters", "1,234"), ("kept", "yes")]


def test_a_table_keeps_its_cells_and_sets_numbers_to_the_right() -> None:
    root = page(Table("t", ("name", "count"), [("a<b", 1), ("c", None)]))
    assert texts(root, "td") == ["a<b", "1", "c", "-"]
    assert [cell.get("class") for cell in root.iter("th")] == [None, "number"]


def test_an_empty_part_says_so() -> None:
    root = page(Table("t", ("a",), []), Bars("b", "x", []), Lines("l", "x", {"a": []}))
    assert texts(root, "p")[1:] == ["none", "none", "none"]


def test_what_is_too_much_is_left_out_and_said() -> None:
    root = page(
        Table("t", ("a",), [(n,) for n in range(ROWS_MAX + 2)]),
        Bars("b", "x", [(str(n), 10.0) for n in range(BARS_MAX + 3)]),
        Lines("l", "x", {str(n): [(0, 1.0)] for n in range(SERIES_MAX + 1)}),
    )
    assert len(texts(root, "td")) == ROWS_MAX
    assert len(list(root.iter(f"{SVG}rect"))) == BARS_MAX
    assert len(list(root.iter(f"{SVG}polyline"))) == SERIES_MAX
    notes = [text for text in texts(root, "p") if text.startswith("and ")]
    assert notes == ["and 2 more rows", "and 3 more with 30 together", "and 1 more lines"]


def test_bars_are_as_long_as_their_amounts() -> None:
    root = page(Bars("b", "x", [("a", 4.0), ("b", 1.0), ("c", 0.0)]))
    widths = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect")]
    assert widths[0] == pytest.approx(4 * widths[1], rel=0.01)
    assert widths[2] == 0
    assert page(Bars("b", "x", [("a", 0.0)])) is not None


def test_more_is_drawn_higher_and_later_further_right() -> None:
    root = page(Lines("l", "x", {"a": [(1_000, 1.0), (2_000, 3.0)]}))
    (line,) = root.iter(f"{SVG}polyline")
    (x0, y0), (x1, y1) = ((float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split()))
    assert x1 > x0
    assert y1 < y0


def test_times_have_days_only_where_there_are_several() -> None:
    short_span = texts(page(Lines("l", "x", {"a": [(0, 1.0), (5_000, 1.0)]})), f"{SVG}text")
    assert [text for text in short_span if ":" in text] == [f"00:00:0{second}" for second in range(6)]
    long_span = texts(page(Lines("l", "x", {"a": [(0, 1.0), (86_400_000 * 5, 1.0)]})), f"{SVG}text")
    assert [text for text in long_span if "-" in text] == [f"1970-01-0{day}" for day in range(1, 7)]
    two_days = texts(page(Lines("l", "x", {"a": [(0, 1.0), (86_400_000 * 2, 1.0)]})), f"{SVG}text")
    assert "01-02 12:00" in two_days
    one_moment = texts(page(Lines("l", "x", {"a": [(0, 1.0)]})), f"{SVG}text")
    assert one_moment.count("00:00:00") == 1


@pytest.mark.parametrize("first_ms", [0, 1_700_000_000_123])
@pytest.mark.parametrize(
    "span_ms", [0, 1, 7, 999, 1_000, 4_500, 61_000, 3_600_000, 86_399_999, 86_400_000, 10**10, 10**12]
)
def test_each_time_of_an_axis_is_there_once(first_ms: int, span_ms: int) -> None:
    found = time_ticks(first_ms, first_ms + span_ms)
    assert 1 <= len(found) <= 7
    assert len({text for _, text in found}) == len(found)
    assert all(first_ms <= moment <= first_ms + span_ms for moment, _ in found)


def test_a_name_has_one_colour_in_all_charts() -> None:
    root = page(
        Lines("l", "x", {"a": [(0, 9.0)], "b": [(0, 1.0)], "none": []}),
        Lines("m", "y", {"c": [(0, 7.0)], "b": [(0, 5.0)], "a": [(0, 1.0)]}),
    )
    colours: dict[str, set[str]] = {}
    for key in root.iter("span"):
        colours.setdefault("".join(key.itertext()), set()).update(mark.attrib["style"] for mark in key.iter("i"))
    assert [len(found) for found in colours.values()] == [1, 1, 1]
    assert len(set.union(*colours.values())) == 3


def test_a_long_text_wraps_in_its_cell() -> None:
    root = page(Table("t", ("reason", "count"), [("x" * 150, 1), ("short", 2)]))
    assert [cell.get("class") for cell in root.iter("td")] == ["long", "number", "long", "number"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (0.5, "0.5"),
        (1234.5678, "1,234.57"),
        (["a", 1], "a, 1"),
        ([], "-"),
        ("<&\"'>", "&lt;&amp;&quot;&#x27;&gt;"),
        ("a\x00b\x1bc\nd", "a b c d"),
        ("\ud800", " "),
        ("x" * 201, "x" * 199 + "…"),
    ],
)
def test_values_as_text(value: object, text: str) -> None:
    assert shown(value) == text


def test_an_axis_ends_at_or_above_the_highest() -> None:
    assert ticks(0) == [0.0, 1.0]
    assert ticks(1) == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    assert ticks(7) == [0, 2, 4, 6, 8]
    assert ticks(2.4)[-1] == 2.5
    assert ticks(30) == [0, 10, 20, 30]


def test_short_numbers() -> None:
    assert [short(value) for value in (0.5, 12.0, 3400.0, 2_000_000.0, 1.5e9)] == ["0.5", "12", "3.4 k", "2 M", "1.5 G"]
