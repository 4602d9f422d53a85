"""docs/reference/ shows every name that users may import, as the code has it. ZENIT_REWRITE_DOCS=1 writes it anew."""

from __future__ import annotations

import ast
import os

import pytest
from api_pages import AIO, PAGES, ROOT, Page, members_of, page_text, shown

import zenitmq
import zenitmq.aio
import zenitmq.testing

REFERENCE = ROOT / "docs" / "reference"
REWRITE = "ZENIT_REWRITE_DOCS" in os.environ


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reference_page_shows_what_the_code_has(page: Page) -> None:
    path, expected = REFERENCE / f"{page.stem}.md", page_text(page)
    if REWRITE:
        path.write_text(expected, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == expected


def test_every_public_name_is_in_the_reference() -> None:
    entries = {entry for page in PAGES for entry in page.entries}
    assert {name for module, name in entries if module == "zenitmq"} == set(zenitmq.__all__)
    assert {name for module, name in entries if module == AIO} == set(zenitmq.aio.__all__)
    assert sorted(path.stem for path in REFERENCE.glob("*.md")) == sorted(page.stem for page in PAGES)


def silent_names(module: str, name: str) -> list[str]:
    """What of a class or function, and of a class's members, has no docstring."""
    home, node = shown(module, name)
    if isinstance(node, ast.FunctionDef):
        return [] if ast.get_docstring(node) else [name]
    if not isinstance(node, ast.ClassDef):
        return []
    methods = members_of(home, node).methods.items()
    members = [f"{name}.{key}" for key, method in methods if key != "__init__" and not ast.get_docstring(method.node)]
    return members if ast.get_docstring(node) else [name, *members]


def test_every_public_name_says_what_it_is() -> None:
    assert not [silent for page in PAGES for module, name in page.entries for silent in silent_names(module, name)]
