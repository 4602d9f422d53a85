"""The rules, each taken away on its own: a patch of a core (or of the simulated disk, where the rule is the shell's).

Names are those of the design's model and of docs/replication.md. `with mutated("confmin"):` holds for all that runs
inside. A mutation does what an engineer might who has not read the rule; it may do no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

Patch = tuple[Any, str, Any]
"""(object, attribute, what stands there instead)."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """`rule`: which one, and what is left of it."""

    name: str
    rule: str
    patches: Callable[[], list[Patch]]


MUTATIONS: Final[dict[str, Mutation]] = {}


def mutation(name: str, rule: str) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    """Adds one to the table."""

    def add(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        MUTATIONS[name] = Mutation(name, rule, patches)
        return patches

    return add


def cut_open_log(on_disk: Any, offset: int) -> None:
    """What a mutant of the shipped `StoreDisk` does to the simulated log under it, and the real store would refuse."""
    store = on_disk._store
    store._disk.truncate(offset)
    store._flushed = min(store._flushed, offset)


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The rule is gone."""
    with ExitStack() as patched:
        for target, attribute, value in MUTATIONS[name].patches():
            patched.enter_context(patch.object(target, attribute, value, create=True))
        yield
