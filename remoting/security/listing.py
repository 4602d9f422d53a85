"""What a listing tells its sender: only what it may see, so that nobody is refused who asks what there is.

The row of such a request needs `listed(...)`: the guard lets every user in, and the handler leaves out what `visible` denies.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.security.rights import Action, Resource
from ..commands import Request
from ..server import Call


def visible(call: Call[Request], resource: Resource) -> Callable[[str], bool]:
    """Whether the sender may see the thing of this name: it may list it, or may list the cluster and no rule denies it.

    Rules with addresses do not count here: a rule that allows from some shows nothing, one that denies to some hides nothing.
    """
    guard = call.loop.guard
    if guard is None:
        return _everything
    user, table = guard.user_of(call.key), guard.table
    if user is None:
        return _nothing
    sees_all = table.decide(user, Action.LIST, Resource.CLUSTER, "").allowed

    def is_seen(name: str) -> bool:
        decision = table.decide(user, Action.LIST, resource, name)
        return decision.allowed or (sees_all and decision.rule is None)

    return is_seen


def _everything(_: str) -> bool:
    return True


def _nothing(_: str) -> bool:
    return False
