"""docs/metrics.md's table of families, made of the table in code. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .family import Exporter, Family

TITLES: Final = (
    (Exporter.BROKER, "Brokers"),
    (Exporter.NAME_SERVER, "Name servers"),
    (Exporter.CONTROLLER, "Controllers"),
    (Exporter.CANARY, "The canary"),
    (Exporter.BACKUP, "A backup"),
    (Exporter.PROXY, "A proxy"),
    (Exporter.CLIENT, "Clients"),
)


def families_page(families: Iterable[Family]) -> str:
    """A table for every kind of process; what several serve stands under the first of them."""
    told: set[str] = set()
    parts = []
    for exporter, title in TITLES:
        rows = [family for family in families if exporter in family.exporters]
        shared = [family.name for family in rows if family.name in told]
        lines = [f"### {title}\n", "| family | type | labels | what it says | RocketMQ |", "|---|---|---|---|---|"]
        lines += [_row(family) for family in rows if family.name not in told]
        text = "\n".join(lines)
        if shared:
            text += f"\n\nAnd as above: {', '.join(f'`{name}`' for name in shared)}."
        parts.append(text)
        told.update(family.name for family in rows)
    return "\n\n".join(parts) + "\n"


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
    old = f"`{family.rocketmq}`" + (", ms" if family.rocketmq_scale == 1000 else "") if family.rocketmq else "-"
    detail = "; at `/metrics/detail`" if family.is_detail else ""
    return f"| `{family.name}` | {family.kind.value} | {labels} | {family.help}{detail} | {old} |"
