"""From when on a term makes what ZooKeeper has nothing of: a group's first node, a cluster's id. Pure; the term asks.

ZooKeeper may be empty because it was emptied. Replicas that live say so as they register; but one that was cut off may wait
for an answer that was lost, and come to this controller seconds later. So a term that has just begun listens for
FOUND_LISTEN_MS before it founds. A group that is really new need not wait so long: once as many replicas as the operator says
it has have registered, and none of them knows of anything, nobody is left to be heard.
"""

from __future__ import annotations

from typing import Final

from ...remoting.commands import RegisterReplica

FOUND_LISTEN_MS: Final = 4500
"""A link waits 3 s for what it asked, pauses 1 s at most, and asks again; half a second for the rest."""


class Founding:
    """Of one term. `replicas`: how many a new group has, by the operator's word; 0 = not known."""

    def __init__(self, *, listen_ms: int, replicas: int) -> None:
        self._listen_ms = listen_ms
        self._replicas = replicas
        self._until_ms: int | None = None
        self._new: dict[str, set[str]] = {}  # group -> its replicas that know of nothing
        self._known: set[str] = set()  # groups of which somebody knows

    def until_ms(self, now_ms: int) -> int:
        """Until then whoever knows more than ZooKeeper may still come; the first call begins that time."""
        if self._until_ms is None:
            self._until_ms = now_ms + self._listen_ms
        return self._until_ms

    def on_registration(self, request: RegisterReplica) -> None:
        """A replica says what it knows, whatever is made of it."""
        if request.epoch or request.newest_epoch or request.log_end or request.group_id:
            self._known.add(request.broker_name)
        elif self._replicas:
            self._new.setdefault(request.broker_name, set()).add(request.name)

    def may_found(self, broker_name: str, now_ms: int) -> bool:
        """Whoever knows of this group was heard, or had the time to be."""
        if now_ms >= self.until_ms(now_ms):
            return True
        heard = len(self._new.get(broker_name, ()))
        return broker_name not in self._known and 0 < self._replicas <= heard
