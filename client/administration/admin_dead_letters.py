"""The administrator's calls about dead letters: reads them and sends them again."""

from __future__ import annotations

from datetime import datetime

from ...model.names import check_group
from .admin_calls import AdminCalls
from .admin_merge import Document
from .dead_letters import DeadLetter, DeadLetters
from .letter_selection import EVERY_LETTER, LetterSelection
from .redrive import OnProgress, Redrive


class DeadLetterAdmin(AdminCalls):
    """Calls about dead letters."""

    async def _dead_letter_groups(self, group: str | None = None, *, timeout: float | None = None) -> list[Document]:
        """[{group, topic, letters, redriven, oldest_at_ms, newest_at_ms}] of all groups with dead letters, or of one."""
        letters = self._new_dead_letters(timeout)
        groups = await letters.groups() if group is None else [check_group(group)]
        return [await letters.summary(name) for name in groups]

    async def _dead_letters(
        self, group: str, max_messages: int = 20, *, timeout: float | None = None
    ) -> list[DeadLetter]:
        """A group's dead letters, newest first."""
        return await self._new_dead_letters(timeout).newest(group, max_messages)

    async def _redrive_dead_letters(
        self,
        group: str,
        *,
        to: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        max_messages: int | None = None,
        select: LetterSelection = EVERY_LETTER,
        rate: float | None = None,
        dry_run: bool = False,
        again: bool = False,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Document:
        """Sends a group's dead letters again, oldest first, each to the topic it came from, or all to `to`.

        `since`, `until`: only those that became dead letters within. `select`: only these. `rate`: letters a second.
        `again`: also those that were sent again before; without it, the redrive continues behind them. `on_progress(done,
        to examine)` is called for each. `timeout`: seconds for each letter. Returns {group, topic, dry_run, letters,
        redriven, failed, error, passed_over, topics: {topic: count}}; it ends at the first letter that fails.
        """
        self._deadline(timeout)
        run = Redrive(
            self._connection,
            self._waits,
            group,
            to=to,
            select=select,
            rate=rate,
            dry_run=dry_run,
            on_progress=on_progress,
            timeout_ms=self._milliseconds(timeout),
        )
        return await run.run(since=since, until=until, max_messages=max_messages, again=again)

    def _new_dead_letters(self, timeout: float | None) -> DeadLetters:
        self._deadline(timeout)
        return DeadLetters(self._connection, self._waits, timeout_ms=self._milliseconds(timeout))
