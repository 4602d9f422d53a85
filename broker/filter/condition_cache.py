"""A cache of compiled conditions by text, since every pull carries its text. Pure; owned by the loop thread."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ...model.sql92.condition import Condition

COUNT_MAX: Final = 256
LENGTH_MAX: Final = 128 * 1024  # characters of all texts together; a compiled one takes about 20 times its text


class ConditionCache:
    """The most recently used conditions, limited in number and in size."""

    __slots__ = ("_conditions", "_length")

    def __init__(self) -> None:
        self._conditions: OrderedDict[str, Condition] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return len(self._conditions)

    def condition(self, text: str) -> Condition:
        """The compiled condition of the text. Raises SqlSyntaxError; invalid ones are not cached."""
        found = self._conditions.get(text)
        if found is not None:
            self._conditions.move_to_end(text)
            return found
        condition = Condition(text)
        self._conditions[text] = condition
        self._length += len(text)
        while len(self._conditions) > COUNT_MAX or self._length > LENGTH_MAX:
            oldest, _ = self._conditions.popitem(last=False)
            self._length -= len(oldest)
        return condition
