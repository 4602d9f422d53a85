"""`zenit restore`: a broker's store of a backup."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ...options import ConfigFile, Json
from ...output import readable_bytes, show
from ...progress import bytes_progress
from .backup import GroupName, TargetAddress, TargetOptions, check_group, open_chosen


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("restore")(restore)


def restore(
    target: TargetAddress,
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="An empty directory, or one that does not exist yet.")
    ],
    group: GroupName,
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", metavar="ID", help="Refuse a backup of another cluster than this one.")
    ] = "",
    as_cluster: Annotated[
        str,
        typer.Option("--as-cluster", metavar="ID", help="Give the store to this cluster, whatever the backup's was."),
    ] = "",
    alone: Annotated[
        bool, typer.Option("--alone", help="For a broker without a group: the store leaves the group for good.")
    ] = False,
    begin: Annotated[
        int, typer.Option("--from", metavar="OFFSET", min=0, help="Leave out older log; see zenit backup status.")
    ] = 0,
    stretch: Annotated[
        int | None, typer.Option("--stretch", metavar="N", min=0, help="What lies before a gap: 0 = the oldest part.")
    ] = None,
    config: ConfigFile = None,
    option: TargetOptions = None,
    as_json: Json = False,
) -> None:
    """Make a broker's store of a backup; every object is held to its checksum.

    Start a broker on it: as the group's first replica (docs/backup.md), or with --alone as a broker without a group.
    """
    from ....broker.config import BrokerConfig
    from ....deploy.backup.restore import RestoreChoice
    from ....deploy.backup.restore import restore as restore_store
    from ....model.config import load_config

    settings = load_config(BrokerConfig, "broker", file=config, environ=os.environ, overrides=())
    choice = RestoreChoice(cluster_id=cluster_id, as_cluster=as_cluster, is_alone=alone, begin=begin, stretch=stretch)
    to = open_chosen(target, option)
    with bytes_progress("restore") as report:
        document = restore_store(to, check_group(group), directory, settings, choice, report)
    of = f"of group {document['group_id']}" if document["group_id"] else "of no group"
    text = (
        f"{directory}: {of}, bytes {document['begin_offset']} to {document['end_offset']} of the log,"
        f" {readable_bytes(document['bytes'])}"
    )
    show(document, as_json, lambda: typer.echo(text))
