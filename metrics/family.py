"""A family of metrics, and what a reader says about it at a scrape. Pure.

Numbers are in base units: seconds, bytes, or a count of things. A *series* is one combination of label values.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ..model.plain_dataclass import dataclass
from .histogram import HistogramReading


class FamilyKind(Enum):
    """As Prometheus has them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Exporter(Enum):
    """The processes that serve a family: the label `node_type`."""

    BROKER = "broker"
    NAME_SERVER = "nameserver"
    CONTROLLER = "controller"
    CLIENT = "client"
    CANARY = "canary"
    BACKUP = "backup"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table.

    `name`: complete, with its unit and `_total`. `labels`: besides those of the process. `is_detail`: only at
    /metrics/detail. `rocketmq`: the name that RocketMQ 5 gives it, "" if it has none; `rocketmq_scale`: its numbers are ours
    times this (it has milliseconds).
    """

    name: str
    kind: FamilyKind
    unit: str
    labels: tuple[str, ...]
    help: str
    exporters: tuple[Exporter, ...]
    rocketmq: str = ""
    rocketmq_scale: int = 1
    is_detail: bool = False


Value = int | float | HistogramReading
Sample = tuple[tuple[str, ...], Value]
"""(the values of the family's labels, the number)."""


Reading = tuple[Family, Sequence[Sample]]
"""All series of one family at one moment."""

Labels = tuple[tuple[str, str], ...]
"""((name, value), ...)."""
