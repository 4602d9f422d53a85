"""The hint for an unknown topic or group: the most similar name, or where to look. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ..model.errors import GroupNotFound, TopicNotFound


def not_found_text(error: TopicNotFound | GroupNotFound, names: Iterable[str], *, may_create: bool) -> str:
    """One line with the remedy. `names`: all existing ones; `may_create`: the user may want to create it."""
    kind, name = ("topic", error.topic) if isinstance(error, TopicNotFound) else ("group", error.group)
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    if near:
        return f"{kind} {name!r} does not exist; did you mean {near[0]!r}? (all: zenit {kind} list)"
    if kind == "topic" and may_create:
        return str(error)
    return f"{kind} {name!r} does not exist; those that do: zenit {kind} list"
