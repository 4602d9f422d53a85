"""The settings of a group that an operator may change while it runs, and the consequences. Pure.

Minimum and flush mode are only in the node: a master uses them once it has read them. If the in-sync set reaches a new
minimum, the same write empties the eligible set. Before a change to synchronous flushing every
electable member must have flushed its whole log. Another flush mode means another epoch of the same master: otherwise
a replica that hears of it before the master would count as flushed what the master counts as written.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TypeVar

from ...model.errors import InvalidParameter, NotFlushed
from ...model.groups.group import AckMode, FlushMode, GroupNode, GroupSettings, KnownGroup
from ...model.groups.group_limits import LAG_MS_MAX, LAG_MS_MIN, REPLICAS_MAX
from ...remoting.commands import ChangeGroup
from .group_state import begin_epoch_anew, check_version, electable, with_in_sync

_Choice = TypeVar("_Choice", bound=Enum)


def change_settings(known: KnownGroup, request: ChangeGroup, *, flushed: frozenset[str], epoch_seen: int) -> GroupNode:
    """The node with other settings. `flushed`: the replicas that have flushed their whole logs since the request. `epoch_seen`:
    the highest that a replica reports.

    Raises StaleGroupVersion, InvalidParameter, NotFlushed, GroupNodeLost.
    """
    node = check_version(known, request.version)
    settings = changed_settings(node.settings, request.settings)
    if settings.min_in_sync > max(1, len(node.members)):
        raise InvalidParameter(
            "min_in_sync", settings.min_in_sync, f"at most {len(node.members)}, the replicas there are"
        )
    missing = must_flush(known, request) - flushed
    if missing:
        raise NotFlushed(node.broker_name, ", ".join(sorted(missing)))
    changed = with_in_sync(replace(node, settings=settings), node.in_sync)
    if settings.flush_mode is node.settings.flush_mode:
        return changed
    return begin_epoch_anew(changed, epoch_seen=epoch_seen)


def must_flush(known: KnownGroup, request: ChangeGroup) -> frozenset[str]:
    """The replicas that must flush their whole logs before the change may be written; empty if none must.

    Raises StaleGroupVersion, InvalidParameter.
    """
    node = check_version(known, request.version)
    after = changed_settings(node.settings, request.settings)
    goes_over = (node.settings.flush_mode, after.flush_mode) == (FlushMode.ASYNC, FlushMode.SYNC)
    return electable(node) if goes_over else frozenset()


def changed_settings(settings: GroupSettings, changes: tuple[tuple[str, str], ...]) -> GroupSettings:
    """The settings with those named ((name, text), ...) replaced; raises InvalidParameter."""
    for name, text in changes:
        match name:
            case "min_in_sync":
                settings = replace(settings, min_in_sync=_integer(name, text, 1, REPLICAS_MAX))
            case "lag_ms_max":
                settings = replace(settings, lag_ms_max=_integer(name, text, LAG_MS_MIN, LAG_MS_MAX))
            case "flush_mode":
                settings = replace(settings, flush_mode=_choice(name, text, FlushMode))
            case "ack_mode":
                settings = replace(settings, ack_mode=_choice(name, text, AckMode))
            case _:
                raise InvalidParameter("setting", name[:64], "min_in_sync, flush_mode, ack_mode or lag_ms_max")
    return settings


def _integer(name: str, text: str, minimum: int, maximum: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
    if not minimum <= value <= maximum:
        raise InvalidParameter(name, text[:32], f"an integer from {minimum} to {maximum}")
    return value


def _choice(name: str, text: str, kind: type[_Choice]) -> _Choice:
    for member in kind:
        if member.value == text:
            return member
    raise InvalidParameter(name, text[:32], " or ".join(str(member.value) for member in kind))
