"""`zenit cluster`: the brokers that the name servers know, and what each reports about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from ...model.errors import ZenitError
from ...model.route import MASTER_ID
from ..options import Json, Namesrv
from ..output import print_table, show
from ..watch import watched

if TYPE_CHECKING:
    from ...client.admin import Admin

ASK_S: Final = 1.0
"""Longer: a broker that does not answer delays the list; shorter: a busy one would not be shown."""
COLUMNS: Final = (
    "cluster",
    "cluster_id",
    "broker_name",
    "broker_id",
    "address",
    "role",
    "epoch",
    "lag_bytes",
    "last_heartbeat_ms_ago",
    "writeable",
)


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("cluster")(cluster)


@watched
def cluster(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List the brokers that are registered with a name server.

    Each broker is asked for its role, and how far it is behind its master. `writeable` says whether a master takes writes now.
    `-` means that the broker does not answer.
    """
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.cluster()
        told = {broker["address"]: _told(admin, broker["address"]) for broker in document["brokers"]}
    ends = {one["broker_name"]: _written(told[one["address"]]) for one in document["brokers"] if _leads(one)}
    for broker in document["brokers"]:
        statistics = told[broker["address"]]
        broker["role"] = _role(statistics)
        broker["lag_bytes"] = _lag_bytes(_written(statistics), ends.get(broker["broker_name"]))
        broker["refuses_writes"] = statistics["store"]["refuses_writes"] if _leads(broker) and statistics else None
        broker["writeable"] = broker["writeable"] and broker["refuses_writes"] is None
    show(document, as_json, lambda: _print(document["brokers"]))


def _told(admin: Admin, address: str) -> dict[str, Any]:
    """A broker's statistics; {} if it does not answer."""
    try:
        statistics: dict[str, Any] = admin.scrub_statistics([address], timeout=ASK_S)[address]
    except ZenitError:
        return {}
    return statistics


def _leads(broker: dict[str, Any]) -> bool:
    return bool(broker["broker_id"] == MASTER_ID)


def _role(statistics: dict[str, Any]) -> str | None:
    if not statistics:
        return None
    replication = statistics.get("replication") or {"role": "master"}  # a broker without replicas
    return "halted" if replication.get("halted") else str(replication["role"])


def _written(statistics: dict[str, Any]) -> int | None:
    return int(statistics["positions"]["written_offset"]) if statistics else None


def _lag_bytes(written: int | None, end: int | None) -> int | None:
    return None if written is None or end is None else max(0, end - written)


def _print(brokers: list[dict[str, Any]]) -> None:
    print_table(COLUMNS, [[broker[column] for column in COLUMNS] for broker in brokers])
    for broker in brokers:
        if broker["refuses_writes"]:
            typer.echo(f"{broker['broker_name']} takes no writes: {broker['refuses_writes']}")
