"""What a cell of the matrix says of a fault and a work, and what it may say: never a loss, nor a doubling that is not told.

The table in docs/pipeline.md is made of what was found. What may be found stands here, so that no table can be written that
calls a doubling anything else where the docs promise each row once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from spark.matrix.works import Rows

EXACT: Final = "exact"
AGAIN: Final = "at least once, as documented"
REFUSED: Final = "refused: "
NEVER: Final = "-"

OURS: Final = re.compile(r"\b(?:zenitmq\.)?model\.errors\.\w+\.(\w+)(?=: )")
SHOWN: Final = 3  # rows of each kind

ONCE: Final = frozenset({"sink dedup", "dedup", "archive", "compact", "replay", "window", "source"})
"""Works of which each row comes out once, or which are refused."""

DOUBLES: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("checkpoint new", "source"): "a new checkpoint reads from its start on",
        ("checkpoint new", "sink dedup"): "a new checkpoint is another query",
        ("checkpoint new", "dedup"): "a new checkpoint begins anew",
        ("checkpoint new", "window"): "a new checkpoint begins anew",
        ("checkpoint new", "replay"): "another --state-dir is another replay",
        ("checkpoint set back", "source"): "what was read since is read again",
        ("checkpoint copied", "source"): "each reads on from where it is",
        ("query name reused", "source"): "it begins where the first one of that name began",
    }
)
"""The cells of these works in which rows may come again all the same, and what the docs say of it."""

BY_CHANCE: Final = frozenset(
    {
        (
            "damaged record, `onCorrupt=quarantine`",
            "sink at-least-once",
        ),  # other tasks of the batch that failed may be done
        ("broker failover", "sink at-least-once"),  # what was under way to the master may be sent again
    }
)
"""The cells in which rows come again in some runs only: they say so in each."""

ERRORS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "speculation": frozenset({"InvalidParameter"}),
        "topic made again": frozenset({"TopicReplaced", "ArchivedTopicReplaced"}),
        "retention": frozenset({"DataLost"}),
        "damaged record": frozenset({"DamagedMessage"}),
    }
)
"""What a fault may be refused with, whatever the work."""

ERRORS_OF_BATCHES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sink dedup": frozenset({"BatchChanged", "BatchOutdated"}),
        "dedup": frozenset({"BatchChanged", "BatchOutdated"}),
        "window": frozenset({"BatchChanged", "BatchOutdated"}),
        "archive": frozenset({"CheckpointLost"}),
        "compact": frozenset({"CheckpointLost"}),
        "replay": frozenset({"BatchChanged", "BatchOutdated", "ReplayChanged"}),
    }
)
"""What a work may be refused with where a batch that comes again cannot be the one that was written."""

OF_BATCHES: Final = frozenset(
    {
        *("stage retried", "checkpoint new", "checkpoint set back"),
        *("checkpoint copied", "query name reused", "partitions changed"),
    }
)
"""The faults by which a batch may come again as another one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a cell says. `wrong`: why that may not be; "" where it may."""

    text: str
    wrong: str = ""


def judged(fault: str, work: str, *, found: Rows, wanted: Rows, ever: Rows, error: BaseException | None) -> Verdict:
    """Row by row. Where it was refused, rows may be outstanding, but none may be there that is not to be.

    `ever`: what was to come out before, too.
    """
    excess, missing = found - wanted, wanted - found
    told = f"{sum(excess.values())} too many {some(excess)}, {sum(missing.values())} missing {some(missing)}"
    if error is not None:
        name = name_of(error)
        text = f"{REFUSED}`{name}`"
        if name not in refusals(fault, work):
            return Verdict(text, f"it may not be refused with {name or 'an error that is not ours'}: {error!s:.2000}")
        if excess and work in ONCE:
            return Verdict(text, f"it is refused, and rows are there that are not to be: {told}")
        return Verdict(text)
    if missing:
        return Verdict(AGAIN, f"a loss: {told}")
    may_double = work not in ONCE or (fault, work) in DOUBLES
    if not excess:
        return Verdict(AGAIN if (fault, work) in BY_CHANCE else EXACT)
    if any(row not in ever for row in excess):
        return Verdict(AGAIN, f"rows that were never sent: {told}")
    return Verdict(AGAIN, "" if may_double else f"a doubling that nobody is told of: {told}")


def refusals(fault: str, work: str) -> frozenset[str]:
    """The names of the errors with which a work may refuse to go on."""
    names = frozenset[str]().union(*(errors for prefix, errors in ERRORS.items() if fault.startswith(prefix)))
    return names | ERRORS_OF_BATCHES.get(work, frozenset()) if fault in OF_BATCHES else names


def may_say(fault: str, work: str, text: str) -> bool:
    """Whether a table may have this in a cell."""
    if text.startswith(REFUSED):
        return text.removeprefix(REFUSED).strip("`") in refusals(fault, work)
    if text == AGAIN:
        return work not in ONCE or (fault, work) in DOUBLES
    return text == EXACT


def name_of(error: BaseException) -> str:
    """Our error's name, wherever Spark has put it; "" where it is none."""
    if type(error).__module__.partition(".")[0] == "zenitmq":
        return type(error).__name__
    names = OURS.findall(str(error))
    return names[-1] if names else ""


def some(rows: Rows) -> str:
    """A few of them."""
    return str(list(rows)[:SHOWN]) if rows else ""
