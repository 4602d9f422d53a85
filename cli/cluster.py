"""`zenit cluster`: what the name servers know of brokers, and which of these take no writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from ..model.errors import ZenitError
from ..model.route import MASTER_ID
from .options import Json, Namesrv
from .output import print_table, show
from .watch import watched

if TYPE_CHECKING:
    from ..client.admin import Admin

ASK_S: Final = 1.0
"""Longer: a broker that does not answer holds the list up; shorter: a busy one is not known to refuse writes."""
COLUMNS: Final = (
    "cluster",
    "cluster_id",
    "broker_name",
    "broker_id",
    "address",
    "epoch",
    "last_heartbeat_ms_ago",
    "writeable",
)


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("cluster")(cluster)


@watched
def cluster(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List the brokers that are registered with a name server, and say which take no writes at present."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.cluster()
        for broker in document["brokers"]:
            broker["refuses_writes"] = _refusal(admin, broker)
            broker["writeable"] = broker["writeable"] and broker["refuses_writes"] is None
    show(document, as_json, lambda: _print(document["brokers"]))


def _refusal(admin: Admin, broker: dict[str, Any]) -> str | None:
    """Why a master takes no writes, by its own word; None where it takes them, or does not answer."""
    if broker["broker_id"] != MASTER_ID:
        return None
    try:
        facts = admin.broker_statistics(broker["address"], timeout=ASK_S)
    except ZenitError:
        return None
    reason: str | None = facts["store"]["refuses_writes"]
    return reason


def _print(brokers: list[dict[str, Any]]) -> None:
    print_table(COLUMNS, [[broker[column] for column in COLUMNS] for broker in brokers])
    for broker in brokers:
        if broker["refuses_writes"]:
            typer.echo(f"{broker['broker_name']} takes no writes: {broker['refuses_writes']}")
