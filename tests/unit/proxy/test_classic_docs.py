"""docs/formats/classic.md shows the tables of the code; ZENIT_REWRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

from zenitmq.proxy.classic.codes import STATUSES, ClassicCode
from zenitmq.proxy.classic.fields import ROWS, ClassicField

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "classic.md"
MARKED = re.compile(r"(<!-- (classic-\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def field_text(field: ClassicField) -> str:
    name = f"{field.name} ({field.short})" if field.short else field.name
    if field.default is None:
        return name
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"{name} = {default}" if default != "" else f"{name} ="


def requests() -> list[str]:
    rows = ["| code | request | fields |", "|---|---|---|"]
    for code, row in sorted(ROWS.items()):
        fields = ", ".join(map(field_text, row.fields)) or "(none)"
        rows.append(f"| {int(code)} | {ClassicCode(code).name} | {fields} |")
    return rows


def statuses() -> list[str]:
    rows = ["| code | name | errors |", "|---|---|---|"]
    for status in sorted({status for _, status in STATUSES}):
        errors = ", ".join(kind.__name__ for kind, told in STATUSES if told is status)
        rows.append(f"| {int(status)} | {status.name} | {errors} |")
    return rows


TABLES = {"classic-requests": requests, "classic-statuses": statuses}


def test_the_page_shows_the_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    expected = MARKED.sub(lambda mark: mark[1] + "\n".join(TABLES[mark[2]]()) + "\n" + mark[4], text)
    assert [mark[2] for mark in MARKED.finditer(text)] == list(TABLES)
    if "ZENIT_REWRITE_DOCS" in os.environ:
        PAGE.write_text(expected, encoding="utf-8")
        text = expected
    assert text == expected
