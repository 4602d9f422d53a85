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
