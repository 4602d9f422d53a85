"""Columns line up, numbers stand to the right, and JSON stays on one line."""

from __future__ import annotations

import pytest

from zenitmq.cli.output import fitted_table, json_line, print_facts, readable_bytes, readable_time, short_text, table


def test_columns_line_up_and_numbers_stand_right() -> None:
    text = table(("name", "lag", "up"), [("broker-a", 5, True), ("b", 12345, None)])
    assert text == "name        lag  up\nbroker-a      5  yes\nb         12345  -\n"


def test_no_rows_leave_the_names() -> None:
    assert table(("name", "lag"), []) == "name  lag\n"


def test_json_is_one_readable_line() -> None:
    assert json_line({"body": "a\nü", "n": None}) == '{"body": "a\\nü", "n": null}'


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")]
)
def test_bytes_are_readable(count: int, text: str) -> None:
    assert readable_bytes(count) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [(None, "-"), (0, "-"), (1_700_000_000_123, "2023-11-14T22:13:20.123Z")],
)
def test_times_are_readable(moment: int | None, text: str) -> None:
    assert readable_time(moment) == text


def test_nested_facts_stand_under_dotted_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"work": "produce", "latency_us": {"p50": 0.75, "max": None}, "members": ["a", "b"]})
    assert (
        capsys.readouterr().out
        == "work            produce\nlatency_us.p50  0.75\nlatency_us.max  -\nmembers         a,b\n"
    )


@pytest.mark.parametrize(
    ("text", "cell"), [("a\tb\x01", "a b "), ("x" * 60, "x" * 60), ("x" * 61, "x" * 59 + "…"), ("", "")]
)
def test_a_long_text_is_cut_for_its_cell(text: str, cell: str) -> None:
    assert short_text(text) == cell


CLASSES = [
    {"class": 0, "group": "billing", "reason": "timeout " * 30, "letters": 12, "first_at_ms": 1_700_000_000_123},
    {"class": 1, "group": "billing", "reason": "", "letters": 3, "first_at_ms": None},
]


@pytest.mark.parametrize("width", [65, 79, 200])
def test_rows_fit_the_terminal_and_times_are_readable(width: int) -> None:
    lines = fitted_table(CLASSES, width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert lines[0].split() == ["class", "group", "reason", "letters", "first_at"]
    assert "2023-11-14T22:13:20.123Z" in lines[1]
    assert lines[2].split() == ["1", "billing", "3", "-"]


def test_rows_of_a_file_have_cells_of_a_bound() -> None:
    reason = ("timeout " * 30)[:59] + "…"
    assert reason in fitted_table(CLASSES, None)


def test_a_terminal_too_narrow_for_numbers_breaks_the_line() -> None:
    assert len(fitted_table([{"count": 10**30, "name": "a" * 9}], 20).splitlines()[1]) == 31 + 2 + 8
