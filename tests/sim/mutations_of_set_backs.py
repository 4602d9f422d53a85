"""What becomes of a group whose node was lost or set back, without a rule (R1, R2, R10, the group's id)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zenitmq.controller import hearing
from zenitmq.controller.group import registration, set_back
from zenitmq.model.groups import log_reach
from zenitmq.model.groups.group import KnownGroup, Seen, Sighting

from .mutation_table import Patch, mutation


@mutation("seen", "R1: the controller forgets a registration that it refused because of a later epoch")
def _() -> list[Patch]:
    return [(Seen, "with_sighting", lambda self, _: self)]


@mutation("seenver", "R1: a later version of the node in the same epoch is ignored")
def _() -> list[Patch]:
    def is_newer(sighting: Sighting, known: KnownGroup | None) -> bool:
        return sighting.epoch > (0 if known is None else known.node.epoch)

    return [(set_back, "is_newer", is_newer)]


@mutation("seenset", "R7: while a replica knows more than the node, no election takes place, but sets change")
def _() -> list[Patch]:
    return [(module, "check_not_set_back", lambda *_: None) for module in (set_back, hearing)]


@mutation("hearfirst", "R1: a new leading controller writes before it has heard which replicas live")
def _() -> list[Patch]:
    return [(hearing.Hearing, "listen", lambda *_: False)]


@mutation("newsep", "R2: a later epoch counts as old if the node's version is lower")
def _() -> list[Patch]:
    return [(KnownGroup, "is_news_after", lambda self, adopted: self.version > adopted.version)]


@mutation("bestrow", "R10: an operator forces the longest log, whatever its epoch")
def _() -> list[Patch]:
    return [(log_reach, "worth", lambda log, _: (0, 0, log.end))]


@mutation("logid", "R9: a log without a group id counts as a copy of the group's")
def _() -> list[Patch]:
    return [(registration, "_check_log_is_new", lambda *_: None)]


@mutation("foundrow", "R1: a group begins at epoch 1, whatever epochs its founder's log has")
def _() -> list[Patch]:
    founded = registration._founded

    def mutant(*facts: Any) -> Any:
        return replace(founded(*facts), epoch=0)

    return [(registration, "_founded", mutant)]
