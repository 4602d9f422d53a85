"""What the alerts are tried on: scrapes that a drill took, and what of them a test changes because no drill can wait for it.

A scene goes on from one scrape to the next. Between them each series keeps its value; one that the next scrape lacks is stale,
as Prometheus has it when a process does not answer. `edits`: {family: what all its series are, in promtool's notation}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrape_kit import Scrape

from zenitmq.metrics.alert import families_in
from zenitmq.metrics.alerts import ALERTS

SCRAPES = Path(__file__).parent / "unit" / "metrics" / "scrapes"
QUIET_MINUTES = 15
CLOCK = {"zenit_clock_seconds": "0+60x120"}
"""Promtool's time begins in 1970."""


@dataclass(frozen=True, slots=True)
class Scene:
    """First QUIET_MINUTES of the healthy cluster, then `scrape` with its edits; `after` minutes later the alert fires `count`
    times, and before that change not at all."""

    alert: str
    scrape: str
    after: int
    edits: dict[str, str] = field(default_factory=dict)
    count: int = 1


SCENES = (
    Scene("Down", "one-down", 3),
    Scene("NotReady", "below-minimum", 7),
    Scene("NoMaster", "no-master", 2, count=2),  # of its group, and of all groups: no broker is left
    Scene("NoMaster", "nobody-elected", 2),
    Scene("TwoMasters", "healthy", 2, {"zenit_replica_is_master": "1x30"}),
    Scene("BelowMinInSync", "below-minimum", 2),
    Scene("ReplicaMissing", "one-down", 12),
    Scene("Elections", "healthy", 7, {'zenit_elections_total{forced="false"}': "1+1x30"}),
    Scene("ForcedElection", "forced", 2),
    Scene("ReplicaBehind", "one-down", 4),
    Scene("SlowFlush", "healthy", 11, {"zenit_store_flush_seconds_bucket": "slow"}, count=3),
    Scene("DiskFillsSoon", "healthy", 45, {"zenit_store_disk_free_bytes": "1000000000-10000000x60"}, count=3),
    Scene("NotWritable", "healthy", 2, {"zenit_store_writable": "0x30"}, count=3),
    Scene("UnreadDeleted", "healthy", 2, {"zenit_store_unread_deleted_total": "7x30"}, count=3),
    Scene("Damage", "healthy", 2, {"zenit_store_damaged_ranges_total": "1x30"}, count=3),
    Scene("Damage", "healthy", 2, {"zenit_store_quarantined_bytes": "4096x30"}, count=3),
    Scene("GroupLate", "unread", 25, {'zenit_consumer_lag_latency_seconds{topic="trades"}': "310+60x40"}),
    Scene("NobodyConsumes", "unread", 12),
    Scene("DeadLetters", "healthy", 2, {"zenit_send_to_dlq_messages_total": "1x30"}, count=3),
    Scene("Refusing", "healthy", 12, {'zenit_lane_refused_total{lane="pull"}': "0+600x40"}, count=5),
    Scene("LoopSlow", "healthy", 11, {"zenit_loop_turn_seconds_bucket": "slow"}, count=5),
    Scene("DelaysLate", "healthy", 3, {"zenit_timer_dequeue_lag_seconds": "11x30"}, count=3),
    Scene("HalvesOld", "healthy", 2, {"zenit_half_parked_total": "1x30"}, count=3),
    Scene("HalvesOld", "healthy", 2, {"zenit_half_overdue_seconds": "601x30"}, count=3),
    Scene("AuthRefused", "healthy", 12, {'zenit_auth_refused_total{why="request"}': "0+600x40"}, count=5),
    Scene("ProxyFails", "no-master", 12, {"zenit_proxy_errors_total": "0+600x40"}),
    Scene("ClockApart", "healthy", 7, {"zenit_clock_seconds": "962+60x40"}, count=8),
    Scene("Canary", "below-minimum", 2),
    Scene("Canary", "no-canary", 8),
    Scene("BackupGap", "healthy", 2, {"zenit_backup_missed_bytes": "4096x30"}),
    Scene("BackupLate", "healthy", 8, {"zenit_backup_age_seconds": "1900+60x30"}),
    Scene("BackupLate", "healthy", 8, {"zenit_backup_held": "1x30"}),
    Scene("SeriesDropped", "healthy", 12, {"zenit_metrics_series_dropped": "5x30"}, count=8),
)

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series_of(scrape: str, wanted: set[str] | None = None) -> Series:
    """`wanted`: of these families; None = all."""
    text = (SCRAPES / f"{scrape}.txt").read_text(encoding="utf-8")
    return {
        (name, tuple(sorted(labels.items()))): value
        for name, labels, value in Scrape.parse(text).rows
        if wanted is None or (families_in(name) or {name}) & wanted
    }


def edit_of(edits: dict[str, str], name: str, labels: tuple[tuple[str, str], ...]) -> str | None:
    """The edit of a series: by its family, or by its family and one label."""
    if name in edits:
        return edits[name]
    told = {f'{name}{{{label}="{value}"}}' for label, value in labels}
    return next((values for one, values in edits.items() if one in told), None)


def notation(begun: float | None, then: float | None, edit: str | None, labels: dict[str, str], minutes: int) -> str:
    """Promtool's values of one series. The edit "slow": of a histogram's buckets, everything falls into the last one."""
    first = f"{begun}x{QUIET_MINUTES}" if begun is not None else f"_x{QUIET_MINUTES + 1}"
    if edit == "slow":
        rest = f"{begun or 0}+600x{minutes}" if labels["le"] == "+Inf" else f"{begun or 0}x{minutes}"
    elif edit is not None:
        rest = edit
    else:
        rest = f"{then}x{minutes}" if then is not None else "stale"
    return f"{first} {rest}"


def promtool_test(scene: Scene) -> dict[str, Any]:
    """One test of `promtool test rules`."""
    (alert,) = (one for one in ALERTS if one.name == scene.alert)
    wanted = families_in(alert.expression) or {"up"}
    healthy, then = series_of("healthy", wanted), series_of(scene.scrape, wanted)
    minutes = scene.after + 5
    inputs = []
    for name, labels in sorted({*healthy, *then}):
        edit = edit_of(scene.edits, name, labels)
        values = notation(healthy.get((name, labels)), then.get((name, labels)), edit, dict(labels), minutes)
        if name in CLOCK:
            values = CLOCK[name] if edit is None else f"0+60x{QUIET_MINUTES} {edit}"
        told = ",".join(f'{label}="{value}"' for label, value in labels)
        inputs.append({"series": f"{name}{{{told}}}", "values": values})
    fired = f'count(ALERTS{{alertname="Zenit{scene.alert}",alertstate="firing"}})'
    return {
        "name": f"{scene.alert} on {scene.scrape}",
        "interval": "1m",
        "input_series": inputs,
        "promql_expr_test": [
            {"expr": fired, "eval_time": f"{QUIET_MINUTES - 1}m", "exp_samples": []},
            {
                "expr": fired,
                "eval_time": f"{QUIET_MINUTES + scene.after}m",
                "exp_samples": [{"labels": "{}", "value": scene.count}],
            },
        ],
    }


def quiet_test() -> dict[str, Any]:
    """A healthy cluster of which nothing is told for an hour."""
    inputs = []
    for (name, labels), value in sorted(series_of("healthy").items()):
        told = ",".join(f'{label}="{text}"' for label, text in labels)
        inputs.append({"series": f"{name}{{{told}}}", "values": CLOCK.get(name, f"{value}x60")})
    everything = 'count(ALERTS{alertstate="firing"})'
    return {
        "name": "nothing on healthy",
        "interval": "1m",
        "input_series": inputs,
        "promql_expr_test": [{"expr": everything, "eval_time": "60m", "exp_samples": []}],
    }
