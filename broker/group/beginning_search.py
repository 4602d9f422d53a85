"""A slave whose log cannot begin where it ended asks its master for the state that it must begin with, until it has it (R12).

    begin --asked of whoever is master now--> answered --written down (`beginning.zenit`)--> the broker is opened anew
               ^                                  |
               '--- no answer, no room, no master '        withdrawn at any time before it was written down

Loop thread; answers come from the client's threads and are posted to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ...model.errors import BufferFull, ZenitError
from ...model.groups.group import KnownGroup
from ...remoting import commands
from ...remoting.client import RemotingClient
from ...remoting.server import RequestLoop
from ...store.opening.small_file import needs_room
from ..replication.beginning import note_beginning, parse_beginning
from ..replication.replica_question import question_stamp
from .store_directory import StoreDirectory

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
TIMEOUT_MS: Final = 10_000
GIVE_UP_MS: Final = TIMEOUT_MS + RETRY_MS  # an answer that has not even failed by then was dropped


class BeginningSearch:
    """`on_noted`: the answer is on the disk; the store must be closed and opened anew."""

    def __init__(
        self,
        client: RemotingClient,
        loop: RequestLoop,
        directory: StoreDirectory,
        *,
        name: str,
        store_id: str,
        known: Callable[[], KnownGroup | None],
        on_noted: Callable[[], None],
    ) -> None:
        """`name`, `store_id`: this replica's. `known`: the newest news of its group."""
        self._client = client
        self._loop = loop
        self._directory = directory
        self._name = name
        self._store_id = store_id
        self._known = known
        self._on_noted = on_noted
        self._is_noted = False
        self._try = 0  # grows with each: what comes of an earlier one settles nothing

    def begin(self) -> None:
        """Asks, again and again."""
        self._ask(self._try)

    def withdraw(self) -> bool:
        """Asks no more; False where the answer is on the disk already."""
        if not self._is_noted:
            self._try += 1
        return not self._is_noted

    def _ask(self, this_try: int) -> None:
        if this_try != self._try:
            return
        self._try += 1
        known = self._known()
        master = None if known is None or known.node.master is None else known.node.replica(known.node.master)
        if known is None or master is None or master.name == self._name:
            self._loop.call_later(RETRY_MS, partial(self._ask, self._try))
            return
        self._loop.call_later(GIVE_UP_MS, partial(self._ask, self._try))
        try:
            self._client.send_nowait(
                master.address,
                commands.GetBeginning(*question_stamp(known.node, self._store_id)),
                None,
                timeout_ms=TIMEOUT_MS,
                on_reply=partial(self._post, self._try),
            )
        except ZenitError as error:
            self._on_answer(self._try, b"", error)

    def _post(self, this_try: int, _reply: commands.Reply | None, data: bytes, error: ZenitError | None) -> None:
        """Any thread: brings an answer to the loop."""
        try:
            self._loop.post(partial(self._on_answer, this_try, data, error))
        except BufferFull:
            log.warning("a beginning of the store was dropped: the loop is behind")

    def _on_answer(self, this_try: int, data: bytes, error: ZenitError | None) -> None:
        if this_try != self._try:
            return
        self._try += 1
        try:
            if error is not None:
                raise error
            beginning = parse_beginning(data)
            with needs_room():
                note_beginning(self._directory, beginning)
        except ZenitError as problem:
            log.warning("no beginning from the master yet error=%s", problem)
            self._loop.call_later(RETRY_MS, partial(self._ask, self._try))
            return
        self._is_noted = True
        self._on_noted()
