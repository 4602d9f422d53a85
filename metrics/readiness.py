"""Whether a process is alive and ready, and why not. Pure.

Alive: its loop has turned within ALIVE_MS. A process that is not alive is to be ended and started again. Not ready means:
alive, but it cannot do its work now; it gets no clients, and is left alone.
"""

from __future__ import annotations

from typing import Final

from ..model.plain_dataclass import dataclass

ALIVE_MS: Final = 10_000
STARTING: Final = "starting"
"""It has not begun to serve: it opens its store, or recovers it."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """`reasons`: why it is not ready, one line each; none if it is. `what`: what it is ready as: "master"."""

    what: str
    reasons: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Nothing is in the way."""
        return not self.reasons

    def text(self) -> str:
        """The body of /readyz."""
        if self.is_ready:
            return f"ready: {self.what}\n"
        return "".join(f"not ready: {reason}\n" for reason in self.reasons)


def liveness(turned_ms: int | None, now_ms: int) -> tuple[bool, str]:
    """Whether it is alive, and the body of /livez. `turned_ms`: when the loop turned last, None before it runs; a start may
    take as long as it takes."""
    if turned_ms is None:
        return True, "alive: starting\n"
    silent_ms = now_ms - turned_ms
    if silent_ms <= ALIVE_MS:
        return True, "alive\n"
    return False, f"not alive: the loop has not turned for {silent_ms // 1000} s\n"
