"""`zenit backup run | status | verify`: a replica's log to a directory or bucket, and whether it is whole there."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ....model.clock import now_ms
from ....model.events.log_lines import TEXT_FORMAT
from ...options import Json, MetricsTokenFile, parse_duration, parse_pairs, usage_of_values
from ...output import note, print_facts, print_table, readable_bytes, readable_time, show
from ...progress import bytes_progress
from ...roles import measured, stop_on_signals

if TYPE_CHECKING:
    from ....deploy.backup.backup import BackupRules
    from ....deploy.backup.target import BackupTarget
    from ....deploy.backup.uploads import BackupFigures
    from ....metrics.config import MetricsConfig

TargetAddress = Annotated[
    str, typer.Argument(metavar="TARGET", help="A directory, or a bucket: s3://NAME/PREFIX, gs://..., az://...")
]
TargetOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Of a bucket: endpoint, region and so on; keys come from the environment.",
    ),
]
GroupName = Annotated[str, typer.Option("--group", metavar="NAME", help="The group's name: its brokers' `name`.")]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    backup_app = typer.Typer()
    backup_app.command("run")(run)
    backup_app.command("status")(status)
    backup_app.command("verify")(verify)
    app.add_typer(backup_app, name="backup")


def run(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The store of one replica of the group.")],
    target: TargetAddress,
    group: GroupName,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until SIGTERM or Ctrl-C, beside the broker.")] = False,
    tail_every: Annotated[
        str, typer.Option("--tail-every", metavar="TIME", help="With --follow: upload the open segment so often.")
    ] = "5m",
    state_every: Annotated[
        str, typer.Option("--state-every", metavar="TIME", help="Upload the state so often: offsets, topics, groups.")
    ] = "6h",
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", metavar="N", min=0, help="Forget what is older; else keep all.")
    ] = None,
    keep_gib: Annotated[
        float | None,
        typer.Option("--keep-gib", metavar="N", min=0, help="Forget the oldest beyond this; else keep all."),
    ] = None,
    past_damage: Annotated[
        bool, typer.Option("--past-damage", help="Leave out a segment that is damaged and no replica can mend.")
    ] = False,
    mend: Annotated[
        bool, typer.Option("--mend", help="First read the whole backup; upload anew what is damaged or missing there.")
    ] = False,
    metrics_bind: Annotated[
        str,
        typer.Option("--metrics-bind", metavar="HOST:PORT", help="With --follow: where metrics and health are served."),
    ] = "",
    metrics_token_file: MetricsTokenFile = "",
    option: TargetOptions = None,
    as_json: Json = False,
) -> None:
    """Upload what is new of a replica's log, with the state that a store needs to begin with it.

    Only what is confirmed and on the disk goes up. Run it again, or with --follow; of each group one process may.
    """
    from ....deploy.backup.backup import Backup
    from ....deploy.backup.log_source import BackupSource

    rules = _rules(keep_days, keep_gib, state_every, past_damage=past_damage, mend=mend)
    tail_ms = int((parse_duration(tail_every, "--tail-every") or _never()).total_seconds() * 1000)
    to = open_chosen(target, option)
    _check_apart(directory, to.name)
    source = BackupSource(directory)
    backup = Backup(source, to, check_group(group), rules)
    if follow:
        logging.basicConfig(level=os.environ.get("ZENIT_LOG", "INFO").upper(), format=TEXT_FORMAT, force=True)
        _follow(backup, to, group, source.look().cluster_id, tail_ms, _measured_at(metrics_bind, metrics_token_file))
        return
    with bytes_progress("backup") as report:
        figures = backup.run(with_tail=True, report=report)
    document = _figures_document(figures)
    show(document, as_json, lambda: print_facts(document | {"uploaded": readable_bytes(figures.uploaded_bytes)}))
    for begin, end in figures.gaps:
        note(f"zenit: bytes {begin} to {end} of the log were deleted before they were uploaded: they are in no backup")
    if figures.stopped_at is not None:
        note(
            f"zenit: the log is damaged at byte {figures.stopped_at}, the backup ends before it; a replica mends it, else"
            " --past-damage leaves that segment out"
        )
    if figures.gaps or figures.stopped_at is not None:
        raise typer.Exit(1)


def _check_apart(directory: str, target: str) -> None:
    """Raises typer.BadParameter if the target is a directory of the store. A bucket's name is no path."""
    store, place = os.path.realpath(directory), os.path.realpath(target)
    if os.path.isdir(target) and os.path.commonpath([store, place]) == store:
        said = f"{target} is in the store, and goes with it: name a directory on another disk"
        raise typer.BadParameter(said, param_hint="TARGET")


def _never() -> Any:
    raise typer.BadParameter("'': expected a duration", param_hint="--tail-every")


def _measured_at(bind: str, token_file: str) -> MetricsConfig:
    from ....metrics.config import MetricsConfig
    from ....model.errors import ConfigError

    try:
        return MetricsConfig(bind=bind, token_file=token_file)
    except ConfigError as error:
        raise typer.BadParameter(f"{error.value!r}: expected {error.expected}", param_hint="--metrics-bind") from None


def _follow(backup: Any, target: BackupTarget, group: str, cluster: str, tail_ms: int, config: MetricsConfig) -> None:
    from ....deploy.backup.following import Following

    following = Following(backup, cluster=cluster, group=group, target=target.name, tail_ms=tail_ms)
    with measured(config) as endpoint:
        stop_on_signals(following.stop)
        if endpoint is not None:
            endpoint.serve(following)
        following.run()


def _rules(
    keep_days: float | None, keep_gib: float | None, state_every: str, *, past_damage: bool, mend: bool
) -> BackupRules:
    from ....deploy.backup.backup import BackupRules

    every = parse_duration(state_every, "--state-every")
    return BackupRules(
        keep_ms=None if keep_days is None else int(keep_days * 86_400_000),
        keep_bytes=None if keep_gib is None else int(keep_gib * (1 << 30)),
        point_ms=0 if every is None else int(every.total_seconds() * 1000),
        is_past_damage=past_damage,
        is_mending=mend,
    )


def _figures_document(figures: BackupFigures) -> dict[str, Any]:
    return {
        "end_offset": figures.end,
        "lag_bytes": figures.lag_bytes,
        "uploaded_bytes": figures.uploaded_bytes,
        "objects": figures.objects,
        "deleted_objects": figures.deleted,
        "missed_bytes": figures.missed_bytes,
        "stopped_at": figures.stopped_at,
        "gaps": [{"begin": begin, "end": end} for begin, end in figures.gaps],
    }


def status(target: TargetAddress, group: GroupName, option: TargetOptions = None, as_json: Json = False) -> None:
    """Show what a backup holds: from where to where, its age, its gaps, and whether a store can be made of it."""
    from ....deploy.backup.verify import read_manifest_of, status_document

    document = status_document(read_manifest_of(open_chosen(target, option), check_group(group)), now_ms())
    show(document, as_json, lambda: _print_status(document))


def _print_status(document: dict[str, Any]) -> None:
    told = {name: value for name, value in document.items() if name not in ("points", "gaps", "written_ms")}
    print_facts(told | {"bytes": readable_bytes(document["bytes"]), "written": readable_time(document["written_ms"])})
    rows = [
        [point["begin_offset"], point["needs_end_offset"], readable_time(point["taken_ms"])]
        for point in document["points"]
    ]
    print_table(("state_for_log_from", "needs_log_to", "taken"), rows)
    for gap in document["gaps"]:
        note(f"zenit: bytes {gap['begin']} to {gap['end']} of the log are in no backup")


def verify(target: TargetAddress, group: GroupName, option: TargetOptions = None, as_json: Json = False) -> None:
    """Read a whole backup and hold every object to its checksum; exits 1 and names each that is damaged or missing."""
    from ....deploy.backup.verify import find_lasting_damage, status_document

    to = open_chosen(target, option)
    with bytes_progress("verify") as report:
        manifest, damaged = find_lasting_damage(to, check_group(group), report)
    document = status_document(manifest, now_ms()) | {
        "damaged": [{"object": each.name, "reason": each.reason} for each in damaged]
    }
    show(
        document, as_json, lambda: _print_status({name: value for name, value in document.items() if name != "damaged"})
    )
    for each in damaged:
        note(f"zenit: {each.reason}")
    if damaged:
        note(f"zenit: {len(damaged)} damaged; zenit backup run --mend uploads anew what the store still has")
        raise typer.Exit(1)


def open_chosen(address: str, option: list[str] | None) -> BackupTarget:
    """The target of a command line. Raises typer.BadParameter, RequirementMissing."""
    from ....deploy.backup.target_choice import open_target

    with usage_of_values():
        return open_target(address, parse_pairs(option, "--option"))


def check_group(name: str) -> str:
    """A group's name, which becomes a folder's. Raises InvalidName."""
    from ....model.groups.group_limits import check_name

    return check_name("group", name)
