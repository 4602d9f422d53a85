"""Decides when a term may make what ZooKeeper lacks: a group's first node, a cluster's id. Pure; the term asks.

ZooKeeper may be empty because its data was deleted. Living replicas say so when they register; but one that was cut off may
wait for a lost answer, and reach this controller seconds later. So a term that has just begun listens for
FOUND_LISTEN_MS before it founds. A really new group need not wait so long: once as many replicas as the operator configured
have registered, and none of them knows of an epoch, nobody is left to be heard."""

from __future__ import annotations

from typing import Final

from ...remoting.commands import RegisterReplica

FOUND_LISTEN_MS: Final = 4500
"""A link waits 3 s for an answer, pauses 1 s at most, and asks again; half a second for the rest."""


class Founding:
    """The foundings of one term. `replicas`: of a new group, as the operator configured; 0 = unknown."""

    def __init__(self, *, listen_ms: int, replicas: int) -> None:
        self._listen_ms = listen_ms
        self._replicas = replicas
        self._until_ms: int | None = None
        self._new: dict[str, set[str]] = {}  # group -> its replicas that know of no epoch
        self._known: set[str] = set()  # groups of which some replica knows

    def until_ms(self, now_ms: int) -> int:
        """Until then a replica that knows more than ZooKeeper may still come; the first call begins that time."""
        if self._until_ms is None:
            self._until_ms = now_ms + self._listen_ms
        return self._until_ms

    def on_registration(self, request: RegisterReplica) -> None:
        """A replica reports what it knows, whether it is let in or not."""
        if request.epoch or request.newest_epoch or request.log_end or request.group_id:
            self._known.add(request.broker_name)
        elif self._replicas and not request.is_follower:
            self._new.setdefault(request.broker_name, set()).add(request.name)

    def may_found(self, broker_name: str, now_ms: int) -> bool:
        """All replicas that may know of this group were heard, or had the time to be."""
        if now_ms >= self.until_ms(now_ms):
            return True
        heard = len(self._new.get(broker_name, ()))
        return broker_name not in self._known and 0 < self._replicas <= heard
