"""Whom a server lets in: the answer to one ZAP question, from the key and the address of who wants to connect. Pure.

ZAP is ZeroMQ's authentication protocol (RFC 27). The answer 200 lets a peer in, 400 refuses it for good, 300 for
now. A client of ours connects anew in both cases, when its user wants something. A server that has just started does not know
all users yet, so who has a key that it does not know waits for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...model.plain_dataclass import dataclass
from ...model.security.principals import User, UserKind

WELCOME: Final = "200"
LATER: Final = "300"
NO: Final = "400"
NOT_YET: Final = ""
"""No answer of ZAP: the server learns its users, and the question is to be asked again soon."""

OPEN_KEY: Final = "(open)"
"""Stands for the key of those who come by the open port, without one."""

IPS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Admission:
    """`status`: as above; `key`: by which requests of that connection name their user."""

    status: str
    reason: str
    key: str = ""


class Doorkeeper:
    """Answers for one process. `handshakes_per_second`: of one IP address, with as many at once; 0 = unlimited."""

    def __init__(
        self, user_of: Callable[[str], User | None], *, handshakes_per_second: int, has_open_port: bool
    ) -> None:
        """`user_of`: the present user of a key, for any thread."""
        self._user_of = user_of
        self._rate = handshakes_per_second
        self._has_open_port = has_open_port
        self._spent: dict[str, tuple[float, int]] = {}  # IP address: (handshakes that count against it, at this time)
        self.on_let_in: Callable[[str, str, str], None] = _nothing  # user, key, address; in the thread that asks
        self.is_learning: Callable[[], bool] = _never  # whether users may exist that are not known yet; any thread
        self.refused = 0
        self.put_off = 0

    def decide(
        self,
        mechanism: str,
        key: str,
        address: str,
        now_ms: int,
        *,
        only_servers: bool = False,
        is_asked_again: bool = False,
    ) -> Admission:
        """`key`: Z85, "" where the mechanism has none. `is_asked_again`: the answer before was NOT_YET."""
        if not is_asked_again and not self._has_room(address, now_ms):
            self.put_off += 1
            return Admission(LATER, "too many connections from this address in a second")
        if mechanism == "NULL" and self._has_open_port:
            key = OPEN_KEY
        elif mechanism != "CURVE":
            return self._refuse("only clients with a key")
        is_learning = self.is_learning()  # before the look at the users: what is learnt in between is seen by it
        user = self._user_of(key)
        if user is None and is_learning and key != OPEN_KEY:
            return Admission(NOT_YET, "the server has just started, and does not know all users yet")
        if user is None:
            return self._refuse("the key is not known")
        if user.disabled:
            return self._refuse("the user is disabled")
        if only_servers and user.kind is not UserKind.SERVER:
            return self._refuse("only servers")
        self.on_let_in(user.name, key, address)
        return Admission(WELCOME, "OK", key)

    def _refuse(self, reason: str) -> Admission:
        self.refused += 1
        return Admission(NO, reason)

    def _has_room(self, address: str, now_ms: int) -> bool:
        if not self._rate:
            return True
        if len(self._spent) >= IPS_MAX and address not in self._spent:
            self._spent = {each: spent for each, spent in self._spent.items() if now_ms - spent[1] < 1000}
            if len(self._spent) >= IPS_MAX:
                return False
        spent, at_ms = self._spent.get(address, (0.0, now_ms))
        spent = max(0.0, spent - (now_ms - at_ms) * self._rate / 1000)
        has_room = spent + 1 <= self._rate
        self._spent[address] = (spent + 1 if has_room else spent, now_ms)
        return has_room


def _never() -> bool:
    """All users are known."""
    return False


def _nothing(_: str, __: str, ___: str) -> None:
    """Nobody notes who comes in."""
