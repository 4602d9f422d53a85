"""How many wrong signatures one machine may have asked about: each costs a broker a question. Pure.

A machine has a bucket of tokens; a wrong signature takes one. Where none is left, nothing is asked any more, but for access
keys that signed rightly at that machine a while ago: many clients may share one address, and one of them be set up wrongly.
"""

from __future__ import annotations

from typing import Final

from ..model.errors import BrokerBusy

TOKENS: Final = 100
TOKEN_MS: Final = 100
"""A new one comes each so much."""
MACHINES_MAX: Final = 10_000
SIGNERS_MAX: Final = 10_000
SIGNED_MS: Final = 600_000
"""So long an access key that signed rightly at a machine is asked about there, whatever else comes from it."""
_V6_PREFIX_PARTS: Final = 4


class WrongSignatures:
    """Of one process. Times are monotonic."""

    def __init__(self) -> None:
        self._full_ms: dict[str, int] = {}  # machine: when it has all tokens again
        self._signed_ms: dict[tuple[str, str], int] = {}  # (machine, access key): when it last signed rightly

    def __len__(self) -> int:
        """What is remembered."""
        return len(self._full_ms) + len(self._signed_ms)

    def check(self, machine: str, access_key: str, now_ms: int) -> None:
        """Raises BrokerBusy where nothing may be asked for that machine now."""
        over_ms = self._full_ms.get(machine, now_ms) - now_ms - (TOKENS - 1) * TOKEN_MS
        if over_ms > 0 and self._signed_ms.get((machine, access_key), -SIGNED_MS) + SIGNED_MS <= now_ms:
            raise BrokerBusy(over_ms, f"too many wrong signatures came from {machine}")

    def on_wrong(self, machine: str, now_ms: int) -> None:
        """A signature was asked about, and is wrong."""
        full_ms = max(now_ms, self._full_ms.pop(machine, now_ms)) + TOKEN_MS
        self._full_ms[machine] = min(full_ms, now_ms + TOKENS * TOKEN_MS)
        if len(self._full_ms) > MACHINES_MAX:
            del self._full_ms[next(iter(self._full_ms))]

    def on_right(self, machine: str, access_key: str, now_ms: int) -> None:
        """A signature was asked about, and is right."""
        self._signed_ms.pop((machine, access_key), None)
        self._signed_ms[machine, access_key] = now_ms
        if len(self._signed_ms) > SIGNERS_MAX:
            del self._signed_ms[next(iter(self._signed_ms))]

    def drop_old(self, now_ms: int) -> None:
        """Now and then: what is of no use any more is forgotten."""
        self._full_ms = {machine: at_ms for machine, at_ms in self._full_ms.items() if at_ms > now_ms}
        self._signed_ms = {one: at_ms for one, at_ms in self._signed_ms.items() if at_ms + SIGNED_MS > now_ms}


def machine_of(address: str) -> str:
    """The machine at an address, with a port or without. Of IPv6 the first half says it: a machine may have all of the rest."""
    host = address[1:].partition("]")[0] if address.startswith("[") else address
    if host.count(":") < 2:
        return host.partition(":")[0]
    begin, has_gap, end = host.partition("::")
    parts = begin.split(":") if begin else []
    if has_gap:
        rest = end.split(":") if end else []
        parts += ["0"] * (8 - len(parts) - len(rest)) + rest
    return ":".join(part.lstrip("0").lower() or "0" for part in parts[:_V6_PREFIX_PARTS]) + "::"
