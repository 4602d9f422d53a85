"""The job `dlq-redrive`: sends selected dead letters of several groups again, at a given rate.

It uses the client's redrive: the same properties, the same order, the same stored progress, separate for each selection. It
needs no Spark: one sender sends the letters, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...client.admin import Admin
from ...model.clock import datetime_of_ms, monotonic_ms
from ...model.config import check_settings, setting
from .job import Document, Job, Report, Session, moment_ms, required
from .letters import groups_with_letters, selection_of
from .summary import JobProgress


@dataclass(frozen=True, kw_only=True, slots=True)
class RedriveOptions:
    """Which letters, and where they go."""

    groups: tuple[str, ...] = setting((), "Groups whose letters are sent again (needed).")
    origins: tuple[str, ...] = setting((), "Only letters that came from these topics.")
    tags: tuple[str, ...] = setting((), "Only letters with one of these tags.")
    reason: str = setting("", "Only letters whose reason holds this text.")
    since: str = setting("", "Given up at or after this time.")
    until: str = setting("", "Given up at or before this time.")
    to: str = setting("", "Topic to send to; else the one that each came from.")
    rate: float = setting(0.0, "Letters a second at most; 0 = as fast as it goes.", minimum=0)
    max_letters: int = setting(0, "Of each group at most so many, the oldest; 0 = all.", minimum=0)
    again: bool = setting(False, "Those that were sent again before, too.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")

    def __post_init__(self) -> None:
        check_settings(self)
        required("groups", self.groups, "groups; zenit job run dlq-report tells which have letters")
        moment_ms("since", self.since)
        moment_ms("until", self.until)


def plan(options: RedriveOptions, session: Session) -> Document:
    """Examines the letters and reports what would be sent where."""
    del session
    return _redrive(options, lambda _progress: None, dry_run=True)


def run(options: RedriveOptions, session: Session, report: Report) -> Document:
    """Sends. A group ends at its first letter that cannot be sent, and then `passed` is False."""
    del session
    return _redrive(options, report, dry_run=False)


JOB = Job("dlq-redrive", RedriveOptions, plan, run)


def _redrive(options: RedriveOptions, report: Report, *, dry_run: bool) -> Document:
    begin_ms = monotonic_ms()
    done: dict[str, Document] = {}

    def on_progress(looked_at: int, to_look_at: int) -> None:
        before = sum(row["redriven"] for row in done.values())
        report(JobProgress(before + looked_at, (monotonic_ms() - begin_ms) / 1000, max(0, to_look_at - looked_at)))

    with Admin(options.namesrv or None) as admin:
        for row in groups_with_letters(admin, options.groups):
            done[row["group"]] = admin.redrive_dead_letters(
                row["group"],
                to=options.to or None,
                since=_moment("since", options.since),
                until=_moment("until", options.until),
                max_messages=options.max_letters or None,
                select=selection_of(options),
                rate=options.rate or None,
                dry_run=dry_run,
                again=options.again,
                on_progress=on_progress,
            )
    results = list(done.values())
    return {
        "rows": sum(row["letters"] if dry_run else row["redriven"] for row in results),
        "failed": sum(row["failed"] for row in results),
        "groups": [
            {
                "group": row["group"],
                "letters": row["letters"],
                "redriven": row["redriven"],
                "to": ", ".join(f"{topic} {count}" for topic, count in row["topics"].items()),
                "error": row["error"],
            }
            for row in results
        ],
        "passed": not any(row["failed"] for row in results),
    }


def _moment(key: str, text: str) -> datetime | None:
    at_ms = moment_ms(key, text)
    return None if at_ms is None else datetime_of_ms(at_ms)
