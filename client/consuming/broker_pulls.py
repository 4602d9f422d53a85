"""How the pulls of one consumer go to one broker, of very many queues too. Pure.

    a few queues    long polls: each waits at the broker for a message
    the others      idle: watched, all together in one request that waits (AwaitArrivals)
                    something came, or the last answer had messages: a pull that does not wait

To whoever sends pulls it is all the same: each pull is answered once, when there is something, or an error. The few
that come first save their queues the way by the watch; more would make a broker and a consumer busy with queues that are idle.
A queue that the consumer gives up is watched no more (`drop`); the pull that it had is not answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from ...model.get_status import GetStatus
from ...model.queue import MessageQueue
from ...remoting.commands import ArrivalsReply, AwaitArrivals, PullReply
from .prefetch import Pull

SUSPEND_MS: Final = 15_000
LONG_POLLS_MAX: Final = 64
TOLD_AT_ONCE_MAX: Final = 256
"""Queues that a broker is told of in one request: one that has just started looks each up on its disk."""
AT_ONCE_MAX: Final = 256
"""Pulls that do not wait: an answer may have some 64 KiB or more."""

NOT_WATCHED: Final = -1
"""In place of an offset: the broker is to watch the queue no more."""

QueueKey: TypeAlias = tuple[str, int]
Send: TypeAlias = tuple[Pull, int]
"""A pull to send, and how long it may wait at the broker, in ms."""

_IDLE: Final = frozenset(
    {GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.NO_MATCHED_LOGIC_QUEUE}
)


class BrokerPulls:
    """`new_name`: draws the name of a watch."""

    def __init__(self, new_name: Callable[[], str]) -> None:
        self._new_name = new_name
        self._waiting = 0  # long polls at the broker
        self._at_once = 0  # pulls that do not wait
        self._later: deque[Pull] = deque()
        self._moving: dict[QueueKey, Pull] = {}  # of both
        self._busy: set[QueueKey] = set()  # queues whose last answer had messages
        self._held: dict[QueueKey, Pull] = {}
        self._untold: dict[QueueKey, None] = {}  # held, and the broker is to be told
        self._given_up: dict[QueueKey, None] = {}  # no longer held, and the broker is to be told
        self._watch = ""
        self._number = 0
        self._is_asking = False  # the request with this number waits at the broker
        self._has_watches = True

    @property
    def is_to_ask(self) -> bool:
        """Whether `next_request` has one."""
        if self._given_up:
            return True
        return bool(self._held) and (not self._is_asking or bool(self._untold))

    def begin(self, pull: Pull) -> list[Send]:
        """A pull is to be sent."""
        if self._waiting < LONG_POLLS_MAX or pull.is_doubted or not self._has_watches:
            self._waiting += 1
            return [(pull, SUSPEND_MS)]
        if _key(pull) in self._busy:
            return self._send_at_once(pull)
        self._hold(pull)
        return []

    def on_reply(self, pull: Pull, suspend_ms: int, reply: PullReply | None) -> tuple[bool, list[Send]]:
        """The answer to a pull that was sent; None for an error. Whether it is the pull's answer, or the queue is watched from
        now on; and what is to be sent."""
        if reply is not None and reply.count:
            self._busy.add(_key(pull))
        else:
            self._busy.discard(_key(pull))
        if suspend_ms:
            self._waiting -= 1
            return True, []
        self._at_once -= 1
        is_wanted = self._moving.get(_key(pull)) == pull
        if is_wanted:
            del self._moving[_key(pull)]
        sends = self._send_at_once(self._later.popleft()) if self._later else []
        if reply is None or not is_wanted or not self._has_watches or not _is_idle(pull, reply):
            return True, sends
        self._hold(pull)
        return False, sends

    def drop(self, queue: MessageQueue) -> None:
        """The consumer has given it up."""
        key = queue.topic, queue.queue_id
        held = self._held.get(key)
        if held is not None and held.queue == queue:
            del self._held[key]
            self._untold.pop(key, None)
            if self._number:
                self._given_up[key] = None
        moving = self._moving.get(key)
        if moving is not None and moving.queue == queue:
            del self._moving[key]
        if held is not None or moving is not None:
            self._busy.discard(key)

    def _send_at_once(self, pull: Pull) -> list[Send]:
        self._moving[_key(pull)] = pull
        if self._at_once >= AT_ONCE_MAX:
            self._later.append(pull)
            return []
        self._at_once += 1
        return [(pull, 0)]

    def _hold(self, pull: Pull) -> None:
        key = _key(pull)
        before = self._held.get(key)
        self._held[key] = pull
        self._given_up.pop(key, None)
        if before is None or before.offset != pull.offset:
            self._untold[key] = None

    # ---- the watch

    def next_request(self) -> AwaitArrivals | None:
        """What is to be asked now; None if nothing is."""
        if not self.is_to_ask:
            return None
        if not self._number:
            self._watch = self._new_name()
        self._number += 1
        self._is_asking = True
        topics: dict[str, int] = {}
        queues = []
        for key in list(islice(self._given_up, TOLD_AT_ONCE_MAX)):
            del self._given_up[key]
            queues.append((topics.setdefault(key[0], len(topics)), key[1], NOT_WATCHED))
        for key in list(islice(self._untold, TOLD_AT_ONCE_MAX - len(queues))):
            del self._untold[key]
            queues.append((topics.setdefault(key[0], len(topics)), key[1], self._held[key].offset))
        wait_ms = SUSPEND_MS if self._held and not self._untold and not self._given_up else 0
        return AwaitArrivals(self._watch, self._number, tuple(topics), tuple(queues), wait_ms)

    def on_arrivals(self, request: AwaitArrivals, reply: ArrivalsReply) -> list[Send]:
        """The answer to such a request. Returns what is to be sent; then there may be a next request."""
        if request.watch != self._watch:
            return []
        if request.number == self._number:
            self._is_asking = False
        if not reply.is_known:
            self._begin_anew()
            return []
        sends: list[Send] = []
        for key in ((reply.topics[at], queue_id) for at, queue_id in reply.queues if at < len(reply.topics)):
            pull = self._held.pop(key, None)
            self._untold.pop(key, None)
            if pull is not None:
                self._busy.add(key)
                sends += self._send_at_once(pull)
        return sends

    def on_watch_error(self, request: AwaitArrivals, *, has_watches: bool) -> tuple[list[Pull], list[Send]]:
        """Such a request failed. Returns the pulls that have failed with it, and what is to be sent. `has_watches`: False if
        the broker is too old to know the request: its pulls wait there, one by one."""
        if request.watch != self._watch:
            return [], []
        pulls = list(self._held.values())
        self._held.clear()
        self._begin_anew()
        self._has_watches = has_watches
        if has_watches:
            return pulls, []
        return [], [send for pull in pulls for send in self.begin(pull)]

    def end(self) -> None:
        """The consumer is closed: nothing is watched any more, and what waits for its turn is not sent."""
        self._held.clear()
        self._later.clear()
        self._moving.clear()
        self._begin_anew()
        self._watch, self._has_watches = "", False

    def _begin_anew(self) -> None:
        self._number, self._is_asking = 0, False
        self._untold = dict.fromkeys(self._held)
        self._given_up.clear()


def _key(pull: Pull) -> QueueKey:
    return pull.queue.topic, pull.queue.queue_id


def _is_idle(pull: Pull, reply: PullReply) -> bool:
    """Whether the broker would have let this pull wait."""
    return GetStatus(reply.status) in _IDLE and pull.offset == reply.next_offset == reply.max_offset
