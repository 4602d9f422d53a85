"""One alert: what Prometheus is to watch for, and what an operator does about it. Pure."""

from __future__ import annotations

import re
from typing import Final

from ..model.plain_dataclass import dataclass

PAGE: Final = "page"
"""Wakes somebody: messages are not taken, or may be lost."""
WARN: Final = "warn"
"""Can wait for the next working day."""
_FAMILY: Final = re.compile(r"\b(?:zenit|process)_[a-z0-9_]+")
_SUFFIXES: Final = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`name`: without "Zenit". `wait`: how long `expression` must hold, "" = at once. `summary`: one line, with
    {{ $labels.x }} and {{ $value }}. `means`, `look`, `do`: the three paragraphs of its section in docs/alerts.md."""

    name: str
    expression: str
    wait: str
    severity: str
    summary: str
    means: str
    look: str
    do: str

    @property
    def full_name(self) -> str:
        """As Prometheus knows it."""
        return f"Zenit{self.name}"


def families_in(expression: str) -> set[str]:
    """The families that an expression of PromQL names, without the suffixes of a histogram's series."""
    found = set()
    for name in _FAMILY.findall(expression):
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
        found.add(name.removesuffix(suffix))
    return found


def rules_text(alerts: tuple[Alert, ...], page: str) -> str:
    """The file of alert rules, in YAML. `page`: the address of the page whose section is the alert's runbook."""
    lines = ["# Made of metrics/alerts.py. What each alert means: " + page, "groups:", "  - name: zenit", "    rules:"]
    for alert in alerts:
        lines += [f"      - alert: {alert.full_name}", f"        expr: {_quoted(alert.expression)}"]
        lines += [f"        for: {alert.wait}"] if alert.wait else []
        lines += ["        labels:", f"          severity: {alert.severity}", "        annotations:"]
        lines += [f"          summary: {_quoted(alert.summary)}"]
        lines += [f"          runbook_url: {_quoted(f'{page}#{alert.full_name.lower()}')}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def alerts_page(alerts: tuple[Alert, ...], head: str) -> str:
    """docs/alerts.md: a section for each alert."""
    parts = [head]
    for alert in alerts:
        wait = f" for {alert.wait}" if alert.wait else ""
        parts.append(
            f"## {alert.full_name}\n\n```promql\n{alert.expression}\n```\n\n"
            f"Severity **{alert.severity}**; fires when this holds{wait}.\n\n"
            f"**What it means.** {alert.means}\n\n**What to look at.** {alert.look}\n\n**What to do.** {alert.do}\n"
        )
    return "\n".join(parts)
