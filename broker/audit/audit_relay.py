"""Brings what a slave noted for the audit to its master, which writes it: the oldest first, one request at a time.

An entry leaves the slave once the master has taken it. Without a master, or while that has no room, entries wait, as many as
the audit log holds; of others it counts how many were dropped. A lost answer makes the slave tell the same entries again: their
numbers let the master see it, and after an election they may be written twice.

Loop thread; answers come from the client's thread and are posted to the loop.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ...model.clock import Clock
from ...model.errors import BrokerBusy, BufferFull, InvalidParameter, ZenitError
from ...remoting.client import RemotingClient
from ...remoting.commands import Done, TellAudit
from ...remoting.server import Call, RequestLoop
from .audit_log import AuditLog, Entry, decode_entry, encode_entry

log = logging.getLogger(__name__)

ENTRIES_MAX: Final = 100  # of a request
CHARACTERS_MAX: Final = 256 << 10
TIMEOUT_MS: Final = 2000
GIVE_UP_MS: Final = 2 * TIMEOUT_MS  # an answer that has not even failed by then is lost
PAUSE_MS: Final = 500  # after one that failed
RETRY_MS: Final = 500  # told to a slave for which there is no room
REPLICAS_MAX: Final = 64
LIFE_CHARACTERS_MAX: Final = 64


class AuditRelay:
    """The slave's side. `master()`: the address of the group's master; "" while there is none, or it is this broker."""

    def __init__(
        self,
        entries: AuditLog,
        client: RemotingClient,
        loop: RequestLoop,
        clock: Clock,
        *,
        broker_name: str,
        replica: str,
        master: Callable[[], str],
    ) -> None:
        self._log = entries
        self._client = client
        self._loop = loop
        self._clock = clock
        self._broker_name = broker_name
        self._replica = replica
        self._master = master
        self._life = secrets.token_hex(8)
        self._first = 0  # number of the oldest entry that no master has taken
        self._told: list[Entry] = []  # what no master has taken, and was told to one
        self._asked_at_ms: int | None = None  # since when its answer is awaited
        self._number = 0  # of the last request: an answer to an earlier one does not count
        self._not_before_ms = 0

    def on_tick(self) -> None:
        """Tells the master more, if it has taken the last entries."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._not_before_ms or (self._asked_at_ms is not None and now_ms - self._asked_at_ms < GIVE_UP_MS):
            return
        master = self._master()
        if not master:
            return
        self._told = self._told or self._log.take(ENTRIES_MAX)
        if not self._told:
            return
        texts = self._fitting()
        self._asked_at_ms = now_ms
        self._number += 1
        try:
            self._client.send_nowait(
                master,
                TellAudit(self._broker_name, self._replica, self._life, self._first, texts),
                None,
                timeout_ms=TIMEOUT_MS,
                on_reply=partial(self._post_answer, self._number, len(texts)),
            )
        except ZenitError as error:
            self._on_answer(self._number, 0, error)

    def end(self) -> list[Entry]:
        """What no master has taken."""
        left, self._told = self._told, []
        self._first += len(left)
        self._number += 1
        self._asked_at_ms = None
        return left

    def _fitting(self) -> tuple[str, ...]:
        texts: list[str] = []
        size = 0
        for entry in self._told:
            text = encode_entry(entry)
            size += len(text)
            if texts and size > CHARACTERS_MAX:
                break
            texts.append(text)
        return tuple(texts)

    def _post_answer(self, number: int, count: int, _reply: Done | None, _: bytes, error: ZenitError | None) -> None:
        """A thread of the client's. If the loop has no room, the entries are told again after GIVE_UP_MS."""
        with suppress(BufferFull):
            self._loop.post(partial(self._on_answer, number, count, error))

    def _on_answer(self, number: int, count: int, error: ZenitError | None) -> None:
        if number != self._number:
            return
        self._asked_at_ms = None
        if error is None:
            self._first += count
            del self._told[:count]
            return
        log.debug("the master takes no audit entries error=%s", error)
        self._not_before_ms = self._clock.monotonic_ms() + PAUSE_MS


class AuditReceiver:
    """The master's side."""

    def __init__(self, entries: AuditLog) -> None:
        self._log = entries
        self._next: dict[str, tuple[str, int]] = {}  # replica: (life of its process, number of its next entry)

    def on_tell(self, call: Call[TellAudit]) -> Done:
        """Takes all of them, but those that came before. Raises InvalidParameter, BrokerBusy."""
        request = call.request
        if len(request.entries) > ENTRIES_MAX or len(request.life) > LIFE_CHARACTERS_MAX or request.first < 0:
            raise InvalidParameter("entries", str(len(request.entries)), f"at most {ENTRIES_MAX}, with their numbers")
        life, following = self._next.get(request.replica, ("", 0))
        known = max(0, following - request.first) if life == request.life else 0
        entries = [{**decode_entry(text), "replica": request.replica} for text in request.entries[known:]]
        if not self._log.on_told(entries):
            raise BrokerBusy(RETRY_MS, "the audit has no room")
        if request.replica not in self._next and len(self._next) >= REPLICAS_MAX:
            self._next.clear()
        self._next[request.replica] = request.life, max(request.first + len(request.entries), following if known else 0)
        return Done()
