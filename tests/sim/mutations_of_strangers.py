"""What passes for what it is not without a rule: logs, stores, nodes, rows (R2, R4, R9 to R14); what is forgotten (R6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zenitmq.broker.group import beginning_anew
from zenitmq.broker.replication import epochs, master, replica_log
from zenitmq.broker.replication.effects import Effect
from zenitmq.broker.replication.frames import Opening
from zenitmq.controller import leadership_term
from zenitmq.controller.group import detection, forcing, group_state, registration
from zenitmq.model.groups.group import GroupNode, Incarnation

from . import store
from .mutation_table import Patch, mutation


@mutation("group-id", "R9: a log of another group of the same name is let in")
def _() -> list[Patch]:
    register = registration.register

    def mutant(node: GroupNode | None, request: Any, **facts: Any) -> Any:
        known = node is not None and request.group_id
        return register(node, replace(request, group_id=node.group_id) if known else request, **facts)

    return [(registration, "register", mutant), (leadership_term, "register", mutant)]


@mutation("R14-store", "R14: any store may open a session in a member's name")
def _() -> list[Patch]:
    on_opening = master.MasterState._on_opening

    def mutant(self: master.MasterState, peer: str, frame: Opening, now_ms: int) -> list[Effect]:
        member = self._members.get(peer)
        if member is not None and member.incarnation is not None:
            frame = replace(frame, incarnation=Incarnation(member.incarnation.store_id, frame.incarnation.starts))
        return on_opening(self, peer, frame, now_ms)

    return [(master.MasterState, "_on_opening", mutant)]


@mutation("node-lost", "R2: a replica obeys a node below its promised epoch")
def _() -> list[Patch]:
    return [(one, "check_not_lost", lambda *_: None) for one in (group_state, registration, forcing)]


@mutation("R12", "R12: a slave whose log begins later gets no snapshot of what came before")
def _() -> list[Patch]:
    tell = beginning_anew.beginning_document
    return [(beginning_anew, "beginning_document", lambda said: tell(replace(said, queue_minimums={})))]


@mutation("R4-recovered", "R4: rows that begin above the recovered end stay")
def _() -> list[Patch]:
    return [(epochs.EpochList, "recovered", lambda self, _: self)]


@mutation("R10-dead", "R10: an operator may force a replica while the master lives")
def _() -> list[Patch]:
    force = forcing.force_election

    def mutant(*who: Any, **facts: Any) -> Any:
        return force(*who, **{**facts, "wait_ms": 0})

    return [(detection, "force_election", mutant)]


@mutation("R4-begin", "R4: a cut below the log's begin is carried out")
def _() -> list[Patch]:
    return [(replica_log.ReplicaLog, "shortest", property(lambda self: self.guard))]


@mutation("R6-remember", "R6: a restart forgets what was confirmed")
def _() -> list[Patch]:
    return [(store.SimulatedStore, "remembered_confirm", property(lambda _: 0))]
