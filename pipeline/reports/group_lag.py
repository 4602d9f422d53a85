"""The lag of consumer groups, measured one or more times, as a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LagLimits:
    """Limits of lag; None = no limit."""

    lag: int | None = None
    lag_seconds: float | None = None

    def broken_by(self, group: GroupLag) -> str | None:
        """The limits that the group exceeds, as text; an unknown lag exceeds none."""
        broken = []
        if self.lag is not None and group.lag is not None and group.lag > self.lag:
            broken.append(f"messages > {self.lag}")
        if self.lag_seconds is not None and group.lag_seconds is not None and group.lag_seconds > self.lag_seconds:
            broken.append(f"seconds > {self.lag_seconds:g}")
        return ", ".join(broken) or None


@dataclass(frozen=True, slots=True)
class GroupLag:
    """One group at one time.

    `lag`: messages, of all queues; `lag_seconds`: of the queue furthest behind; None = unknown. `queues`: as in
    `Admin.describe_group`.
    """

    group: str
    at_ms: int
    members: int
    lag: int | None
    lag_seconds: float | None
    queues: tuple[Mapping[str, Any], ...]

    @staticmethod
    def of(described: Mapping[str, Any], at_ms: int) -> GroupLag:
        """From the result of `Admin.describe_group`."""
        seconds = [row["lag_seconds"] for row in described["queues"] if row["lag_seconds"] is not None]
        return GroupLag(
            described["group"],
            at_ms,
            len(described["members"]),
            described["lag"],
            max(seconds, default=None),
            tuple(described["queues"]),
        )


def lag_summary(looks: Sequence[Sequence[GroupLag]], limits: LagLimits) -> Document:
    """{rows, lag, samples, passed, groups, queues, over_time}: groups and queues of the last sample, furthest behind first.

    `rows`: number of queues; `over_time`: of every sample, if there was more than one.
    """
    last = sorted(looks[-1], key=lambda group: (-(group.lag or 0), group.group))
    broken = {group.group: limits.broken_by(group) for group in last}
    return {
        "rows": sum(len(group.queues) for look in looks for group in look),
        "lag": sum(group.lag or 0 for group in last),
        "samples": len(looks),
        "passed": not any(broken.values()),
        "groups": [
            {
                "group": group.group,
                "members": group.members,
                "lag": group.lag,
                "lag_seconds": group.lag_seconds,
                "beyond": broken[group.group],
            }
            for group in last
        ],
        "queues": [
            {
                "group": group.group,
                **{name: row[name] for name in ("topic", "broker_name", "queue_id", "lag", "lag_seconds", "owner")},
            }
            for group in last
            for row in sorted(group.queues, key=lambda row: -(row["lag"] or 0))
        ],
        "over_time": [
            {"group": group.group, "at_ms": group.at_ms, "lag": group.lag, "lag_seconds": group.lag_seconds}
            for look in looks
            for group in look
            if len(looks) > 1
        ],
    }
