"""Writes what a soak found into the documentation: a section of Markdown between two marks, and its picture beside the page.

    python -m tests.soak.figures REPORT --page docs/soak.md

REPORT: the report directory of a soak. Prints the section where no page is given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import page, picture
from .process_samples import METRICS

BEGIN: Final = "<!-- figures of a soak: begin -->"
END: Final = "<!-- figures of a soak: end -->"
PICTURE: Final = "soak.svg"


def section(account: Mapping[str, Any]) -> str:
    """The figures of a soak, from its document, in Markdown."""
    messages, machine = account["messages"], account["environment"]
    begun = (
        f"`{account['command']}`, {account['seconds'] / 60:.0f} minutes at revision {machine['revision']}, on "
        f"{machine['cores']} cores of {machine['cpu']} that other work shared: {page.verdict(account)}."
    )
    slopes = (
        f"Slopes an hour from minute {account['warm_up_s'] / 60:.0f} on (a life that began later: from its own warm-up "
        "on), with the interval of 95 %; what has no verdict cannot be told from 0:"
    )
    lines = [
        begun,
        "",
        *_table(("figure", "value"), page.message_figures(messages)),
        "",
        "Duplicates, by group and cause:",
        "",
        *_table(("group", "cause", "messages"), page.duplicate_rows(messages)),
        "",
        slopes,
        "",
        *_table(("process", "life", "minutes", *METRICS.values()), page.slope_rows(account["lives"])),
        "",
        f"![the series of each process]({PICTURE})",
    ]
    return "\n".join(lines) + "\n"


def put_into(text: str, figures: str) -> str:
    """The page with these figures between its marks. Raises ValueError where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} ... {END} in the page")
    return f"{before}{BEGIN}\n{figures}{END}{after}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [_row(columns), "|---" * len(columns) + "|", *map(_row, rows)]


def _row(cells: Sequence[object]) -> str:
    shown = (f"{cell:,}" if isinstance(cell, int | float) else "-" if cell is None else str(cell) for cell in cells)
    return f"| {' | '.join(shown)} |"


def main(arguments: Sequence[str]) -> int:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.figures")
    parser.add_argument("report", type=Path)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    account = json.loads((given.report / "soak.json").read_text(encoding="utf-8"))
    figures = section(account)
    if given.page is None:
        sys.stdout.write(figures)
        return 0
    given.page.write_text(put_into(given.page.read_text(encoding="utf-8"), figures), encoding="utf-8")
    (given.page.parent / PICTURE).write_text(picture.picture(account), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
