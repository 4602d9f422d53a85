"""Retention holds: leases by which readers keep retention from deleting what a long scan has yet to read.

A hold covers any number of queues, each from an offset on, and ends by itself unless it is renewed within its lease, so a
dead reader blocks nothing for longer. Holds are only in the memory of the master. After a restart or a
change of master the reader's next renewal gets HoldNotFound, and it takes a new hold. If retention
was faster meanwhile, the reader finds expired offsets. Slaves delete by their own clocks, whatever is held.

Retention respects a hold (store/retention) until the disk is so full that the oldest files go whatever their age. Pure;
owned by the loop thread; `now_ms` is monotonic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...model.errors import HoldNotFound, InvalidParameter, TooManyHolds

LEASE_MS_MAX: Final = 3_600_000
HOLDS_MAX: Final = 1024
SHARE: Final = 4  # a user may take a quarter of the holds, and of the queues
QUEUES_MAX: Final = 65_536  # of all holds together
OWNER_LENGTH_MAX: Final = 255

HeldQueue = tuple[str, int, int]  # topic, queue id, first offset


@dataclass(frozen=True, slots=True)
class Hold:
    """`owner`: the reader's name, for people. `user`: who took it, "" where nobody needs a key. `ends_ms`: monotonic."""

    hold_id: str
    user: str
    owner: str
    queues: tuple[HeldQueue, ...]
    ends_ms: int

    def document(self, now_ms: int) -> dict[str, Any]:
        """For statistics."""
        return {
            "hold_id": self.hold_id,
            "owner": self.owner,
            "queues": len(self.queues),
            "topics": sorted({topic for topic, _, _ in self.queues}),
            "ends_in_seconds": max(0, self.ends_ms - now_ms) / 1000,
        }


@dataclass(slots=True)
class RetentionHolds:
    """The holds of one master. `Needs` (store/retention_needs) is retention's view of them. `revision`: how
    many were taken."""

    _holds: dict[str, Hold] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)  # {hold id: the revision in which it was taken}
    revision: int = 0

    def take(
        self, now_ms: int, hold_id: str, owner: str, queues: Sequence[HeldQueue], lease_ms: int, *, user: str = ""
    ) -> Hold:
        """Takes a hold. `user`: who may renew and end it, and has a share of them; "" = whoever.

        Raises InvalidParameter, TooManyHolds; then nothing is held.
        """
        check_lease(lease_ms)
        if not 1 <= len(owner) <= OWNER_LENGTH_MAX or not owner.isprintable():
            raise InvalidParameter("owner", owner[:64], f"printable characters only, 1 to {OWNER_LENGTH_MAX} of them")
        if not queues:
            raise InvalidParameter("queues", "()", "at least one queue")
        for _, _, offset in queues:
            if offset < 0:
                raise InvalidParameter("offset", offset, "0 or more")
        self.lapse(now_ms)
        self._check_room(tuple(self._holds.values()), len(queues), 1, "")
        if user:
            own = tuple(hold for hold in self._holds.values() if hold.user == user)
            self._check_room(own, len(queues), SHARE, f" of user {user}")
        hold = self._holds[hold_id] = Hold(hold_id, user, owner, tuple(queues), now_ms + lease_ms)
        self.revision += 1
        self._taken[hold_id] = self.revision
        return hold

    @staticmethod
    def _check_room(holds: Sequence[Hold], queues: int, share: int, whose: str) -> None:
        if len(holds) >= HOLDS_MAX // share:
            raise TooManyHolds(HOLDS_MAX // share, f"holds{whose}")
        if sum(len(hold.queues) for hold in holds) + queues > QUEUES_MAX // share:
            raise TooManyHolds(QUEUES_MAX // share, f"held queues{whose}")

    def held(self, now_ms: int, hold_id: str, *, user: str = "") -> Hold:
        """The hold, if this user took it. Raises HoldNotFound if it has ended, is unknown or another's."""
        self.lapse(now_ms)
        hold = self._holds.get(hold_id)
        if hold is None or hold.user != user:
            raise HoldNotFound(hold_id[:64])
        return hold

    def renew(self, now_ms: int, hold_id: str, lease_ms: int, *, user: str = "") -> Hold:
        """Gives a whole lease from now. Raises InvalidParameter, HoldNotFound as `held`."""
        check_lease(lease_ms)
        hold = self._holds[hold_id] = replace(self.held(now_ms, hold_id, user=user), ends_ms=now_ms + lease_ms)
        return hold

    def release(self, hold_id: str) -> None:
        """Ends a hold; an unknown one has already ended."""
        self._holds.pop(hold_id, None)
        self._taken.pop(hold_id, None)

    def lapse(self, now_ms: int) -> list[Hold]:
        """Ends and returns the holds whose lease is over."""
        over = [hold for hold in self._holds.values() if hold.ends_ms <= now_ms]
        for hold in over:
            self.release(hold.hold_id)
        return over

    def clear(self) -> None:
        """This broker is no longer master."""
        self._holds.clear()
        self._taken.clear()

    def since(self, revision: int | None) -> Iterator[HeldQueue]:
        """What is held, by all holds or by those that were taken after a revision."""
        found = [hold for hold in self._holds.values() if revision is None or self._taken[hold.hold_id] > revision]
        return (queue for hold in found for queue in hold.queues)

    def first(self, topic: str, queue_id: int) -> int | None:
        """The lowest held offset of a queue."""
        held = (queue for hold in self._holds.values() for queue in hold.queues)
        return min((offset for name, number, offset in held if (name, number) == (topic, queue_id)), default=None)

    def document(self, now_ms: int) -> list[dict[str, Any]]:
        """For statistics: the holds, those that end first in front."""
        return [hold.document(now_ms) for hold in sorted(self._holds.values(), key=lambda hold: hold.ends_ms)]


def check_lease(lease_ms: int) -> None:
    """Raises InvalidParameter."""
    if not 1 <= lease_ms <= LEASE_MS_MAX:
        raise InvalidParameter("lease_ms", lease_ms, f"1 to {LEASE_MS_MAX}")
