"""Events of the state log whose kind this version does not know: they stop the broker. Pure.

A broker that skipped such an event would have another state than the one that wrote it, so it stops: it is
older than the log's writer. docs/operations.md, "Upgrade", has the order of upgrades that avoids this.

A newer version may mark a kind of event as optional ("optional": true) if nothing is lost when it is ignored for good: an older
version skips it. docs/formats/state-events.md has the rule.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from ...model.errors import StoreFormatError

OPTIONAL: Final = "optional"


def is_passed_over(event: Mapping[str, Any], known: Container[object]) -> bool:
    """True if a reader that knows these kinds of event may skip this one."""
    return event.get(OPTIONAL) is True and event.get("event") not in known


def unknown_event(subject: str, event: Mapping[str, Any]) -> StoreFormatError:
    """The error to raise. `subject`: what the event is about, in one word."""
    return StoreFormatError(
        f"the {subject} events of the log",
        f"this version does not know the event {str(event)[:200]}. If a newer version wrote it, start this broker with that"
        ' version, or a later one (docs/operations.md, "Upgrade")',
    )
