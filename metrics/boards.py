"""The boards for Grafana: Cluster, Topic and group, Broker inside. Pure.

A board is rows of panels, a panel is a title, a unit and what it draws. The data source and the cluster are chosen on the
board.
"""

from __future__ import annotations

from typing import Any, Final

from ..model.plain_dataclass import dataclass

WIDTH: Final = 24
PANEL_WIDTH: Final = 8
PANEL_HEIGHT: Final = 8
SCHEMA_VERSION: Final = 39
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
CLUSTER: Final = 'cluster=~"$cluster"'


@dataclass(frozen=True, slots=True)
class BoardPanel:
    """`lines`: (expression, legend), CLUSTER and other selectors written out. `unit`: Grafana's name of it. `is_number`: its
    last value alone is shown."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """`name`: of its file. `choices`: {variable: the query of its values} besides source and cluster."""

    name: str
    title: str
    panels: tuple[BoardPanel, ...]
    choices: tuple[tuple[str, str], ...] = ()


def _quantile(family: str, by: str, more: str = "") -> str:
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({family}_bucket{{{CLUSTER}{more}}}[$__rate_interval])))"


def _rate(family: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({family}{{{CLUSTER}{more}}}[$__rate_interval]))"


_TOPIC: Final = ', topic=~"$topic"'
_NODE: Final = ', node_id=~"$node"'

BOARDS: Final = (
    Board(
        "cluster",
        "ZenitMQ: cluster",
        (
            BoardPanel(
                "Groups with a master",
                "short",
                ((f"sum by (group) (zenit_replica_is_master{{{CLUSTER}}})", "{{group}}"),),
                is_number=True,
            ),
            BoardPanel(
                "In sync, of replicas",
                "short",
                (
                    (f"zenit_group_in_sync{{{CLUSTER}}}", "{{group}} in sync"),
                    (f"zenit_group_min_in_sync{{{CLUSTER}}}", "{{group}} minimum"),
                    (f"zenit_group_replicas{{{CLUSTER}}}", "{{group}} replicas"),
                ),
            ),
            BoardPanel("Not ready", "short", ((f"zenit_ready{{{CLUSTER}}} == 0", "{{node_id}}"),), is_number=True),
            BoardPanel("Messages in", "cps", ((_rate("zenit_messages_in_total", "group"), "{{group}}"),)),
            BoardPanel("Messages out", "cps", ((_rate("zenit_messages_out_total", "group"), "{{group}}"),)),
            BoardPanel("Bytes in", "Bps", ((_rate("zenit_throughput_in_bytes_total", "group"), "{{group}}"),)),
            BoardPanel(
                "Send, 99th percentile",
                "s",
                ((_quantile("zenit_rpc_seconds", "group", ', request=~"Send.*"'), "{{group}}"),),
            ),
            BoardPanel("Canary", "s", (("zenit_canary_seconds", "{{group}}"),)),
            BoardPanel(
                "Ten latest groups",
                "s",
                (
                    (
                        f"topk(10, max by (consumer_group, topic) (zenit_consumer_lag_latency_seconds{{{CLUSTER}}}))",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
            ),
            BoardPanel("Disk free", "bytes", ((f"zenit_store_disk_free_bytes{{{CLUSTER}}}", "{{node_id}}"),)),
            BoardPanel("Replica behind", "bytes", ((f"zenit_replica_lag_bytes{{{CLUSTER}}}", "{{replica}}"),)),
            BoardPanel(
                "Elections",
                "short",
                (
                    (
                        f"sum by (group, forced) (increase(zenit_elections_total{{{CLUSTER}}}[1h]))",
                        "{{group}} {{forced}}",
                    ),
                ),
            ),
        ),
    ),
    Board(
        "topics",
        "ZenitMQ: topic and group",
        (
            BoardPanel("Messages in", "cps", ((_rate("zenit_messages_in_total", "topic", _TOPIC), "{{topic}}"),)),
            BoardPanel("Bytes in", "Bps", ((_rate("zenit_throughput_in_bytes_total", "topic", _TOPIC), "{{topic}}"),)),
            BoardPanel(
                "Messages out",
                "cps",
                ((_rate("zenit_messages_out_total", "topic, consumer_group", _TOPIC), "{{topic}} {{consumer_group}}"),),
            ),
            BoardPanel(
                "Yet to consume",
                "short",
                (
                    (
                        f"sum by (topic, consumer_group) (zenit_consumer_lag_messages{{{CLUSTER}{_TOPIC}}})",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
            ),
            BoardPanel(
                "Age of the oldest",
                "s",
                (
                    (
                        f"max by (topic, consumer_group) (zenit_consumer_lag_latency_seconds{{{CLUSTER}{_TOPIC}}})",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
            ),
            BoardPanel(
                "Popped and not acknowledged",
                "short",
                (
                    (
                        f"sum by (topic, consumer_group) (zenit_consumer_inflight_messages{{{CLUSTER}{_TOPIC}}})",
                        "{{consumer_group}} {{topic}}",
                    ),
                ),
            ),
            BoardPanel(
                "Members",
                "short",
                ((f"sum by (consumer_group) (zenit_consumer_connections{{{CLUSTER}}})", "{{consumer_group}}"),),
            ),
            BoardPanel(
                "Retries and dead letters",
                "cps",
                (
                    (_rate("zenit_send_back_messages_total", "group"), "{{group}} retries"),
                    (_rate("zenit_send_to_dlq_messages_total", "group"), "{{group}} dead letters"),
                ),
            ),
            BoardPanel(
                "Delayed, and transactions",
                "short",
                (
                    (f"sum(zenit_timing_messages{{{CLUSTER}}})", "delayed"),
                    (f"sum(zenit_half_messages{{{CLUSTER}}})", "not decided"),
                ),
            ),
        ),
        (("topic", f"label_values(zenit_messages_in_total{{{CLUSTER}}}, topic)"),),
    ),
    Board(
        "broker",
        "ZenitMQ: broker inside",
        (
            BoardPanel(
                "Turn of the loop, 99th percentile",
                "s",
                ((_quantile("zenit_loop_turn_seconds", "node_id", _NODE), "{{node_id}}"),),
            ),
            BoardPanel("CPU", "percentunit", ((_rate("process_cpu_seconds_total", "node_id", _NODE), "{{node_id}}"),)),
            BoardPanel(
                "Memory",
                "bytes",
                (
                    (f"process_resident_memory_bytes{{{CLUSTER}{_NODE}}}", "{{node_id}} with file pages"),
                    (f"zenit_process_anonymous_bytes{{{CLUSTER}{_NODE}}}", "{{node_id}} own"),
                ),
            ),
            BoardPanel("Requests", "cps", ((_rate("zenit_lane_handled_total", "lane", _NODE), "{{lane}}"),)),
            BoardPanel(
                "Waiting in lanes", "short", ((f"sum by (lane) (zenit_lane_waiting{{{CLUSTER}{_NODE}}})", "{{lane}}"),)
            ),
            BoardPanel("Refused", "cps", ((_rate("zenit_lane_refused_total", "lane", _NODE), "{{lane}}"),)),
            BoardPanel(
                "Errors",
                "cps",
                ((_rate("zenit_rpc_failed_total", "request, response_code", _NODE), "{{request}} {{response_code}}"),),
            ),
            BoardPanel(
                "Sync, 99th percentile",
                "s",
                ((_quantile("zenit_store_flush_seconds", "node_id", _NODE), "{{node_id}}"),),
            ),
            BoardPanel(
                "Written and not flushed",
                "bytes",
                ((f"zenit_store_flush_behind_bytes{{{CLUSTER}{_NODE}}}", "{{node_id}}"),),
            ),
            BoardPanel("Log", "bytes", ((f"zenit_store_size_bytes{{{CLUSTER}{_NODE}}}", "{{node_id}}"),)),
            BoardPanel("Sends that wait", "short", ((f"zenit_sends_waiting{{{CLUSTER}{_NODE}}}", "{{node_id}}"),)),
            BoardPanel(
                "Pulls and pops that wait",
                "short",
                (
                    (f"zenit_pulls_waiting{{{CLUSTER}{_NODE}}}", "{{node_id}} pulls"),
                    (f"zenit_pops_waiting{{{CLUSTER}{_NODE}}}", "{{node_id}} pops"),
                ),
            ),
            BoardPanel(
                "Another replica caught up",
                "s",
                ((f"zenit_replica_caught_up_seconds{{{CLUSTER}{_NODE}}}", "{{replica}}"),),
            ),
            BoardPanel(
                "Damage",
                "bytes",
                ((f"zenit_store_quarantined_bytes{{{CLUSTER}{_NODE}}}", "{{node_id}}"),),
            ),
            BoardPanel("Refused to strangers", "cps", ((_rate("zenit_auth_refused_total", "why", _NODE), "{{why}}"),)),
        ),
        (("node", f"label_values(zenit_replica_is_master{{{CLUSTER}}}, node_id)"),),
    ),
)


def document(board: Board) -> dict[str, Any]:
    """The board as Grafana imports it."""
    choices = [("cluster", "label_values(zenit_replica_is_master, cluster)"), *board.choices]
    source = {"name": "source", "label": "source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"zenit-{board.name}",
        "title": board.title,
        "tags": ["zenitmq"],
        "timezone": "utc",
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, *(_choice(name, query) for name, query in choices)]},
        "panels": [_panel(number, panel) for number, panel in enumerate(board.panels)],
    }


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: BoardPanel) -> dict[str, Any]:
    across = WIDTH // PANEL_WIDTH
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "stat" if panel.is_number else "timeseries",
        "datasource": SOURCE,
        "gridPos": {
            "x": number % across * PANEL_WIDTH,
            "y": number // across * PANEL_HEIGHT,
            "w": PANEL_WIDTH,
            "h": PANEL_HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
            for place, (expression, legend) in enumerate(panel.lines)
        ],
    }
