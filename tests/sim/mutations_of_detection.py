"""Whom the controller elects and when, without a rule; and what keeps a replica from being elected (R11, Detection)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zenitmq.broker.replication import master, slave
from zenitmq.controller.group import candidates, detection, stalls
from zenitmq.controller.group.stalls import Stall

from .mutation_table import Patch, mutation


@mutation("roomwait", "R11: a slave does not stop following while a chunk waits for disk space")
def _() -> list[Patch]:
    return [(slave.SlaveState, "on_no_room", lambda *_: None)]


def _blind_to(is_seen: Callable[[Stall], bool]) -> list[Patch]:
    """The controller does not act on some stalls."""
    stall = stalls.stall

    def mutant(*args: Any, **facts: Any) -> Stall | None:
        found = stall(*args, **facts)
        return found if found is not None and is_seen(found) else None

    return [(detection, "stall", mutant)]


@mutation("promisewait", "Detection: the group waits for the elected replica, whether it promises or not")
def _() -> list[Patch]:
    return _blind_to(lambda found: "promised" not in found.why)


@mutation("hangwait", "Detection: the group waits for a master whose disk hangs in a sync")
def _() -> list[Patch]:
    return _blind_to(lambda found: "sync" not in found.why)


@mutation("cutwait", "Detection: a master that no slave reaches stays as long as it sends heartbeats")
def _() -> list[Patch]:
    return _blind_to(lambda found: "reach each other" not in found.why)


@mutation("anycut", "Detection: one slave that does not reach its master deposes it")
def _() -> list[Patch]:
    sign = candidates.Candidates.sign

    def mutant(self: candidates.Candidates, node: Any, name: str | None) -> Any:
        found = sign(self, node, name)
        return found if found is None or name != node.master else replace(found, cut_off_ms=1 << 30)

    return [
        (candidates.Candidates, "sign", mutant),
        (
            stalls,
            "_enough_others",
            lambda node, counts: any(counts(one.name) for one in node.replicas if one.name != node.master),
        ),
    ]


@mutation("stuckwait", "Detection: sends wait for a member whose disk hangs in a sync as long as for one that is slow")
def _() -> list[Patch]:
    return [(master, "HANGS_MS", 1 << 30)]


@mutation("nopassover", "Detection: a replica that stalled its group may be elected again at once")
def _() -> list[Patch]:
    return [(candidates.Candidates, "is_clear", candidates.Candidates.is_heard)]


@mutation("heardlate", "Detection: every replica heard within the dead time is a candidate")
def _() -> list[Patch]:
    is_heard = candidates.Candidates.is_heard

    def mutant(self: Any, node: Any, name: Any, now_ms: int, within_ms: int = detection.DEAD_AFTER_MS) -> bool:
        return is_heard(self, node, name, now_ms, within_ms)

    return [(candidates.Candidates, "is_heard", mutant)]
