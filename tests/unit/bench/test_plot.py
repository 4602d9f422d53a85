"""The picture: well-formed, complete, and true to its values."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from zenitmq.bench.plot import Panel, render, short

NAMESPACE = "{http://www.w3.org/2000/svg}"


def panel(**changed: object) -> Panel:
    facts: dict[str, object] = {
        "title": "throughput",
        "x_label": "s",
        "y_label": "messages/s",
        "points": [(0, 1.0), (1, 3.0)],
    }
    return Panel(**(facts | changed))  # type: ignore[arg-type]


def line_of(svg: str) -> list[tuple[float, float]]:
    polyline = next(ET.fromstring(svg).iter(f"{NAMESPACE}polyline"))
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in polyline.attrib["points"].split())]


def test_more_is_drawn_higher_and_later_further_right() -> None:
    (x0, y0), (x1, y1) = line_of(render("t", [panel()]))
    assert x1 > x0
    assert y1 < y0


def test_the_raw_path_is_drawn_above_what_stays_below_it() -> None:
    svg = render("t", [panel(limit=4.0)])
    texts = [text.text for text in ET.fromstring(svg).iter(f"{NAMESPACE}text")]
    assert "raw path 4" in texts
    limit = next(line for line in ET.fromstring(svg).iter(f"{NAMESPACE}line") if "stroke-dasharray" in line.attrib)
    assert float(limit.attrib["y1"]) < min(y for _, y in line_of(svg))


def test_names_are_escaped_and_empty_panels_left_out() -> None:
    svg = render("<&>", [panel(), panel(title="latency", points=[])])
    root = ET.fromstring(svg)
    assert "latency" not in svg
    assert next(root.iter(f"{NAMESPACE}text")).text == "<&>"


def test_every_power_of_ten_of_a_latency_has_its_tick() -> None:
    svg = render(
        "t", [panel(points=[(0.0, 40.0), (50.0, 90.0), (99.0, 8000.0), (100.0, 20000.0)], logarithmic=True, tail=True)]
    )
    texts = {text.text for text in ET.fromstring(svg).iter(f"{NAMESPACE}text")}
    assert {"10", "100", "1 k", "10 k", "100 k", "p50", "p99"} <= texts


@pytest.mark.parametrize("limit", [3.0, 3.9, 4.0, 40.0])
def test_the_name_of_the_raw_path_stands_clear_of_that_of_the_axis(limit: float) -> None:
    root = ET.fromstring(render("t", [panel(limit=limit)]))
    heights = {text.text: float(text.attrib["y"]) for text in root.iter(f"{NAMESPACE}text")}
    assert abs(heights[f"raw path {limit:g}"] - heights["messages/s"]) >= 12


def labels_below(svg: str) -> list[str]:
    """The texts along the axis from left to right."""
    found = [text for text in ET.fromstring(svg).iter(f"{NAMESPACE}text") if text.get("text-anchor") == "middle"]
    return [text.text or "" for text in sorted(found, key=lambda text: float(text.attrib["x"]))]


def test_times_have_round_ticks() -> None:
    assert labels_below(render("t", [panel(points=[(0.25, 1.0), (1.5, 2.0), (5.113, 1.0)])])) == [
        "1",
        "2",
        "3",
        "4",
        "5",
    ]
    assert labels_below(render("t", [panel(points=[(0.0, 1.0), (0.273, 1.0)])])) == [
        "0",
        "0.05",
        "0.1",
        "0.15",
        "0.2",
        "0.25",
    ]


def test_the_end_of_the_tail_is_named() -> None:
    points = [(0.0, 40.0), (50.0, 90.0), (99.9, 800.0), (99.999, 900.0), (100.0, 1000.0)]
    drawn = render("t", [panel(points=points, logarithmic=True, tail=True)])
    assert labels_below(drawn) == ["p0", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999", "max"]
    assert labels_below(render("t", [panel(points=points[:2], tail=True)])) == ["p0", "max"]


def test_short_numbers() -> None:
    assert [short(value) for value in (0.5, 12.0, 3400.0, 2_000_000.0, 1.5e9)] == ["0.5", "12", "3.4 k", "2 M", "1.5 G"]
