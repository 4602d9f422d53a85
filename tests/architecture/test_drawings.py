"""Drawings and tables at the head of a module begin four columns in, so that one moved line is seen."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from measured_files import ROOT, package_files

COLUMNS = 4


def drawings(text: str) -> Iterator[list[str]]:
    """The indented paragraphs of a module's docstring that follow one that is not indented."""
    docstring = ast.get_docstring(ast.parse(text), clean=False) or ""
    before = True
    for paragraph in re.split(r"\n[ ]*\n", docstring.rstrip()):
        indented = paragraph.startswith(" ")
        if indented and not before:
            yield paragraph.splitlines()
        before = indented


def test_each_begins_four_columns_in_and_reaches_no_further_left() -> None:
    moved = [
        f"{file.relative_to(ROOT)}: {lines[0].strip()}"
        for file in package_files()
        for lines in drawings(file.read_text("utf-8"))
        if len(lines[0]) - len(lines[0].lstrip()) != COLUMNS or min(len(x) - len(x.lstrip()) for x in lines) < COLUMNS
    ]
    assert not moved
