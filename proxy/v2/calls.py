"""What a method knows of its call besides the request, and where it writes."""

from __future__ import annotations

from typing import Any, Protocol

from ...model.plain_dataclass import dataclass
from ..back.parts import Back
from .authorization import Caller


@dataclass(frozen=True, slots=True)
class ClientCall:
    """`back`: the way to the cluster, in the caller's name. `deadline_ms`: monotonic, of what is asked there. `left_ms`: until
    the client gives up; None = it does not."""

    caller: Caller
    back: Back
    deadline_ms: int
    left_ms: int | None


class Answers(Protocol):
    """The messages that go to the client of one streamed call, one writer at a time."""

    async def write(self, message: Any) -> None:
        """Sends one. Raises when the client is gone."""
