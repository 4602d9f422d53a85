"""Writes the results of campaigns into the documentation: a section of Markdown between two marks, and pictures.

    python -m zenitmq.deploy.drills.campaigns.campaign_figures REPORT... --page docs/failover.md

REPORT: a report directory of `zenit drill campaign`. Without a page, prints the section.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from . import campaign_picture
from .campaign_picture import faults_over_time

BEGIN: Final = "<!-- figures of campaigns: begin -->"
END: Final = "<!-- figures of campaigns: end -->"
PAUSES: Final = ("seed", "pauses", "median", "longest", "longest by design", "over 4 s, not by design")
COUNTS: Final = ("acknowledged", "lost", "changed", "reordered", "violations", "duplicated")


def section(accounts: Sequence[Mapping[str, Any]]) -> str:
    """The figures of campaigns, one document each, in Markdown."""
    lines = _table(("command", "minutes", "legs", "faults", *COUNTS), [_campaign(account) for account in accounts])
    lines += ["", "Pauses in milliseconds; *by design*: of faults in which writes wait for what was taken away.", ""]
    lines += _table(PAUSES, [_pauses(account) for account in accounts])
    for account in accounts:
        what = f"writes, pauses and faults of the campaign of seed {account['campaign']}"
        lines += ["", f"![{what}]({picture_name(account)})"]
    lines += ["", "By fault:", "", *_faults(accounts)]
    never = sorted(set.intersection(*(set(account["never_drawn"]) for account in accounts)))
    if never:
        lines += ["", f"Never drawn: {', '.join(f'`{name}`' for name in never)}."]
    return "\n".join(lines) + "\n"


def picture_name(account: Mapping[str, Any]) -> str:
    """The name of its picture, beside the page."""
    return f"campaign-{account['campaign']}.svg"


def put_into(page: str, figures: str) -> str:
    """The page with these figures between its marks. Raises ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} ... {END} in the page")
    return f"{before}{BEGIN}\n{figures}{END}{after}"


def _campaign(account: Mapping[str, Any]) -> list[str]:
    minutes = max([0, *(leg["ended_ms"] for leg in account["legs"])]) / 60_000
    faults = sum(fault["times"] for fault in account["faults"].values())
    command = f"`zenit drill campaign --hours {account['hours']:g} --seed {account['campaign']}`"
    return [command, *map(_shown, (round(minutes), len(account["legs"]), faults, *(account[name] for name in COUNTS)))]


def _pauses(account: Mapping[str, Any]) -> list[str]:
    pauses: dict[bool, list[float]] = {False: [0.0], True: [0.0]}
    for leg, _, fault in faults_over_time(account["legs"]):
        pauses[fault["kind"] in leg["waits_by_design"]].append(fault["pause_ms"])
    told = account["pauses"]
    values = (told["count"], told["median_ms"], max(pauses[False]), max(pauses[True]), told["too_long"])
    return [str(account["campaign"]), *map(_shown, values)]


def _faults(accounts: Sequence[Mapping[str, Any]]) -> list[str]:
    pauses: dict[str, list[float]] = {}
    for account in accounts:
        for leg, _, fault in faults_over_time(account["legs"]):
            waits = "; writes wait by design" if fault["kind"] in leg["waits_by_design"] else ""
            alone = ", a static master" if waits and not leg["kind"]["controllers"] else ""
            pauses.setdefault(f"{fault['kind']}{alone}{waits}", []).append(fault["pause_ms"])
    rows = [[name, *map(_shown, (len(found), median(found), max(found)))] for name, found in sorted(pauses.items())]
    return _table(("fault", "times", "median", "longest"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_row(columns), "|---" * len(columns) + "|", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def main(arguments: Sequence[str]) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="campaign_figures")
    parser.add_argument("reports", nargs="+")
    parser.add_argument("--page")
    given = parser.parse_args(arguments)
    accounts = []
    for report in given.reports:
        with open(os.path.join(report, "campaign.json"), encoding="utf-8") as file:
            accounts.append(json.load(file))
    figures = section(accounts)
    if given.page is None:
        sys.stdout.write(figures)
        return 0
    with open(given.page, encoding="utf-8") as file:
        page = put_into(file.read(), figures)
    with open(given.page, "w", encoding="utf-8") as file:
        file.write(page)
    for account in accounts:
        with open(os.path.join(os.path.dirname(given.page), picture_name(account)), "w", encoding="utf-8") as file:
            file.write(campaign_picture.picture(account))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
