"""The receipt handle of a message of a lite topic, as a foreign client brings it to any proxy. Pure.

    <handle of the part, as in model/handles/lite_handle> <index> <broker name> <group> <parent topic>

It is signed no more than the handle in it: the right to receive for the group is asked for when it comes back.
"""

from __future__ import annotations

from typing import Final

from ...model.errors import HandleRefused, InvalidName
from ...model.handles.lite_handle import LiteHandle
from ...model.handles.receipt_handle import COUNT_MAX
from ...model.names import check_group, check_topic
from ...model.plain_dataclass import dataclass

_PART_WORDS: Final = 5
_WORDS: Final = _PART_WORDS + 4


@dataclass(frozen=True, slots=True)
class LiteReceipt:
    """`part`: the text of a LiteHandle; `index`: of the message in that part."""

    part: str
    index: int
    broker_name: str
    group: str
    topic: str

    def text(self) -> str:
        """As it travels."""
        return f"{self.part} {self.index} {self.broker_name} {self.group} {self.topic}"

    @staticmethod
    def parse(text: str) -> LiteReceipt | None:
        """The reverse; None for a handle of another kind. Raises HandleRefused."""
        words = text.split(" ", _WORDS)
        part = " ".join(words[:_PART_WORDS])
        try:
            handle = LiteHandle.parse(part)
            if handle is None:
                return None
            if len(words) != _WORDS or not (words[5].isascii() and words[5].isdecimal() and len(words[5]) < 4):
                raise HandleRefused("malformed")
            index = int(words[5])
            if index >= min(handle.count, COUNT_MAX):
                raise HandleRefused("malformed")
            return LiteReceipt(part, index, words[6], check_group(words[7]), check_topic(words[8]))
        except InvalidName:
            raise HandleRefused("malformed") from None
