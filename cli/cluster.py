"""`zenit cluster`: what the name servers know of brokers."""

from __future__ import annotations

import typer

from .options import Json, Namesrv
from .output import print_table, show
from .watch import watched

COLUMNS = (
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
    """List the brokers that are registered with a name server."""
    from ..client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.cluster()
    rows = [[broker[column] for column in COLUMNS] for broker in document["brokers"]]
    show(document, as_json, lambda: print_table(COLUMNS, rows))
