"""The job `lag-report`: how far groups are behind, once or over time, compared with limits. It needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...client.admin import Admin
from ...model.clock import monotonic_ms, now_ms, sleep_ms
from ...model.config import check_settings, setting
from ...model.errors import GroupNotFound
from ..options.durations import duration_ms
from ..reports.group_lag import GroupLag, LagLimits, lag_summary
from ..reports.report_pages import lag_parts
from .archives.report_files import check_page, write_page
from .job import Document, Job, Report, Session
from .summary import JobProgress


@dataclass(frozen=True, kw_only=True, slots=True)
class LagReportOptions:
    """Which groups, how often, and the limits."""

    groups: tuple[str, ...] = setting((), "Only these groups; else all that consume something.")
    samples: int = setting(1, "How often to look.", minimum=1, maximum=10_000)
    every: str = setting("5s", "Time between two looks.")
    max_lag: int = setting(0, "A group is too far behind with more messages than this; 0 = never.", minimum=0)
    max_lag_seconds: float = setting(
        0.0, "A group is too far behind with more seconds than this; 0 = never.", minimum=0
    )
    html: str = setting("", "File to write the report to, as a page.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")

    def __post_init__(self) -> None:
        check_settings(self)
        check_page("html", self.html)
        duration_ms("every", self.every)


def plan(options: LagReportOptions, session: Session) -> Document:
    """Which groups would be examined."""
    del session
    with Admin(options.namesrv or None) as admin:
        names = options.groups or [group["name"] for group in admin.groups()]
    return {"rows": 0, "groups": list(names)}


def run(options: LagReportOptions, session: Session, report: Report) -> Document:
    """Measures; `passed` is False if a group was beyond a limit at the last sample. Raises GroupNotFound for a named group."""
    del session
    every_ms = duration_ms("every", options.every)
    begin_ms = monotonic_ms()
    looks: list[list[GroupLag]] = []
    with Admin(options.namesrv or None) as admin:
        for number in range(options.samples):
            sleep_ms(max(0, begin_ms + number * every_ms - monotonic_ms()))
            looks.append(list(_look(admin, options.groups)))
            rows = sum(len(group.queues) for look in looks for group in look)
            report(JobProgress(rows, (monotonic_ms() - begin_ms) / 1000))
    summary = lag_summary(looks, LagLimits(options.max_lag or None, options.max_lag_seconds or None))
    return summary | write_page(options.html, "Consumer lag", lag_parts(summary))


JOB = Job("lag-report", LagReportOptions, plan, run)


def _look(admin: Admin, groups: tuple[str, ...]) -> Iterable[GroupLag]:
    at_ms = now_ms()
    for name in groups or [group["name"] for group in admin.groups()]:
        try:
            described = admin.describe_group(name)
        except GroupNotFound:
            if groups:
                raise
            continue  # deleted a moment ago
        if described["queues"] or groups:
            yield GroupLag.of(described, at_ms)
