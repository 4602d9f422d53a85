"""What the controller writes without a rule (R1, R7, R9, R10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from zenitmq.controller import leadership_term
from zenitmq.controller.group import detection, group_settings, group_state, registration
from zenitmq.model.groups.group import GroupNode

from .mutation_table import Patch, mutation


def everywhere(name: str, value: Any) -> list[Patch]:
    """A function of group_state, wherever it was imported to."""
    modules = (group_state, group_settings, registration, leadership_term, detection)
    return [(module, name, value) for module in modules if hasattr(module, name)]


@mutation("eligclear", "R9: the write that reaches the minimum does not empty the eligible set")
def _() -> list[Patch]:
    with_in_sync = group_state.with_in_sync

    def mutant(node: GroupNode, members: Any, *, forgetful: frozenset[str] = frozenset()) -> GroupNode:
        after = with_in_sync(node, members, forgetful=forgetful)
        kept = {*after.eligible, *node.eligible} - set(after.in_sync) - forgetful
        return replace(after, eligible=tuple(sorted(kept)))

    return everywhere("with_in_sync", mutant)


@mutation("R9-elig", "R9: there is no eligible set")
def _() -> list[Patch]:
    with_in_sync = group_state.with_in_sync

    def mutant(node: GroupNode, members: Any, *, forgetful: frozenset[str] = frozenset()) -> GroupNode:
        return replace(with_in_sync(node, members, forgetful=forgetful), eligible=())

    return everywhere("with_in_sync", mutant)


@mutation("propver", "R7: the controller applies a proposal to a node newer than the one it was built on")
def _() -> list[Patch]:
    on_alter = leadership_term.LeadershipTerm.on_alter_in_sync

    def mutant(self: leadership_term.LeadershipTerm, call: Any) -> None:
        call.request = replace(call.request, version=self._detection.known(call.request.broker_name).version)
        on_alter(self, call)

    return [
        (group_state, "check_version", lambda known, _: known.node),
        (leadership_term.LeadershipTerm, "on_alter_in_sync", mutant),
    ]


@mutation("wipeid", "R9: a store of another identity stays in the sets")
def _() -> list[Patch]:
    why = registration._why_unclean

    def mutant(request: Any, present: Any, *facts: Any) -> str | None:
        return why(replace(request, store_id=present.store_id), present, *facts)

    return [(registration, "_why_unclean", mutant)]


@mutation("R9-unclean", "R9: a replica that may have forgotten stays in the sets")
def _() -> list[Patch]:
    return [(registration, "_why_unclean", lambda *_: None)]


@mutation("R9-confirm", "R9: a log that ends below what was confirmed counts as undamaged")
def _() -> list[Patch]:
    why = registration._why_unclean

    def mutant(request: Any, present: Any, flush_mode: Any, _: int) -> str | None:
        return why(replace(request, confirm_heard=0), present, flush_mode, 0)

    return [(registration, "_why_unclean", mutant)]


@mutation("R10", "R10: any replica may be elected")
def _() -> list[Patch]:
    every = lambda node: frozenset(replica.name for replica in node.replicas)  # noqa: E731
    best = detection.Detection._best

    def mutant(self: detection.Detection, group: Any, now_ms: int) -> str | None:
        found = best(self, group, now_ms)
        names = [name for name in sorted(every(group.known.node)) if self._alive(group, name, now_ms)]
        return found or (names[0] if names else None)

    return [(group_state, "electable", every), (detection.Detection, "_best", mutant)]


@mutation("R1", "R1: an election does not give a new epoch")
def _() -> list[Patch]:
    def crowned(node: GroupNode, replica: Any) -> GroupNode:
        return replace(node, epoch=max(1, node.epoch), master=replica.name, master_incarnation=replica.incarnation)

    return [(group_state, "crowned", crowned)]


@mutation(
    "modeepoch", "R1: the flush mode changes within an epoch, and each replica counts by it from when it hears of it"
)
def _() -> list[Patch]:
    return everywhere("begin_epoch_anew", lambda node, **_: node)


@mutation("setback", "R9: a disk that was set back to an earlier state counts as undamaged")
def _() -> list[Patch]:
    why, register = registration._why_unclean, registration.register

    def mutant(request: Any, present: Any, flush_mode: Any, _: int) -> str | None:
        forgiven = replace(request, set_back=False, clean_marker=True, marker_end=0, confirm_heard=0)
        return why(forgiven, present, flush_mode, 0)

    def forgiving(node: GroupNode | None, request: Any, **facts: Any) -> Any:
        if not request.set_back:
            return register(node, request, **facts)
        with patch.object(registration, "_why_unclean", mutant):
            return register(node, request, **facts)

    return [(registration, "register", forgiving), (leadership_term, "register", forgiving)]
