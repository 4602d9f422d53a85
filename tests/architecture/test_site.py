"""Each page of docs/ can be found: in the site's navigation, and from docs/index.md where no site is built."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted({*PAGES, "CONTRIBUTING.md"})


def test_every_page_is_linked_from_the_first_one() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#:]+\.md)\)", text))
    assert linked == {*PAGES - {"index.md"}, "../CONTRIBUTING.md"}


def test_the_figures_of_the_comparison_are_those_of_the_benchmarks() -> None:
    table = (ROOT / "docs" / "why.md").read_text(encoding="utf-8").partition("\n## How fast\n")[2]
    seen = [row.split("|")[2] for row in table.splitlines() if row.startswith("|")][2:]
    figures = {figure for cell in seen for figure in re.findall(r"\d[\d.]*", cell)}
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert len(figures) > 8
    assert not {figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", measured)}
