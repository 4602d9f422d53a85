"""Drains without a rule: of who takes over, of what waits meanwhile, of how a member leaves."""

from __future__ import annotations

from typing import Any

from zenitmq.broker.replication import master
from zenitmq.broker.replication.effects import Effect
from zenitmq.broker.replication.frames import Goodbye
from zenitmq.controller.group import candidates

from .mutation_table import Patch, mutation


@mutation("draindeaf", "Detection: a master that says that it drains stays until it is gone")
def _() -> list[Patch]:
    return [(candidates.Candidates, "successor", lambda *_: None)]


@mutation("drainturn", "Detection: a replica that drains may take over from another that drains")
def _() -> list[Patch]:
    drains = candidates.Candidates.drains
    return [
        (candidates.Candidates, "drains", lambda self, node, name: name == node.master and drains(self, node, name))
    ]


@mutation("draincut", "Detection: a master that drains takes messages until another is elected")
def _() -> list[Patch]:
    return [(master.MasterState, "hand_over", lambda *_, **__: None)]


@mutation("byeclose", "R7: a member's goodbye ends its session before the controller has written")
def _() -> list[Patch]:
    on_frame = master.MasterState.on_frame

    def mutant(self: Any, peer: str, frame: Any, now_ms: int) -> list[Effect]:
        if isinstance(frame, Goodbye):
            return self.on_unreachable(peer, frame.session, now_ms)
        return on_frame(self, peer, frame, now_ms)

    return [(master.MasterState, "on_frame", mutant)]
