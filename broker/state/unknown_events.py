"""An event of the state log of a kind that this version does not know. Pure.

Whoever passed over it would take another state for the cluster's than the one who wrote it, so a broker that meets it ends:
it is older than the one that wrote the log. docs/operate.md, "Upgrading", has the order in which that cannot happen.

A newer version may say of a kind of event that nothing is lost where it is forgotten for good ("optional": true): then an older
one passes over it. docs/formats/state-events.md has the rule for who may say so.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from ...model.errors import StoreFormatError

OPTIONAL: Final = "optional"


def is_passed_over(event: Mapping[str, Any], known: Container[object]) -> bool:
    """Whether a reader that knows these kinds of event goes on without this one."""
    return event.get(OPTIONAL) is True and event.get("event") not in known


def unknown_event(subject: str, event: Mapping[str, Any]) -> StoreFormatError:
    """The error to raise. `subject`: what the event is about, in one word."""
    return StoreFormatError(
        f"the {subject} events of the log",
        f"this version does not know the event {str(event)[:200]}. If a newer version wrote it, start this broker with that"
        ' version, or a later one (docs/operate.md, "Upgrading")',
    )
