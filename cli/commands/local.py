"""`zenit up`, `down`, `status`: a real cluster of local processes in one directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...model.clock import sleep_ms
from ...model.errors import ClusterNotStarted, InvalidParameter, NoCluster
from ..options import DEFAULT_DIRECTORY, Directory, Json, check_directory, usage_of_values
from ..output import note, print_facts, print_table, readable_time, show
from ..watch import watched

if TYPE_CHECKING:
    from ...deploy.cluster_record import ClusterRecord, Shape
    from ...deploy.local_cluster import ProcessCluster

WATCH_MS: Final = 500


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)


def up(
    directory: Directory = DEFAULT_DIRECTORY,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Brokers that hold each message; 1 unless the cluster has more.")
    ] = None,
    groups: Annotated[int | None, typer.Option(min=1, help="Replica groups; topics spread over them.")] = None,
    controllers: Annotated[int | None, typer.Option(min=1, help="Controllers, from two replicas on.")] = None,
    no_controller: Annotated[
        bool,
        typer.Option("--no-controller", help="The first replica is always the master: no failover, no ZooKeeper."),
    ] = False,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A ZooKeeper that runs already; else `up` starts one.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the broker, kept for the next start; repeatable."
        ),
    ] = None,
    namesrv_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, metavar="PORT", help="Port of the name server, kept for the next start; else a free one."
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="With keys, users and rights: keys are written to DIR/keys. A cluster stays secured."
        ),
    ] = False,
    proxy: Annotated[
        bool,
        typer.Option("--proxy", help="With a proxy for RocketMQ's own clients. A cluster that had one has it again."),
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the cluster is up.")] = False,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="How long one process may take to start.")
    ] = 60,
    as_json: Json = False,
) -> None:
    """Start a name server and brokers on this machine, or those that are down; if one does not start, nothing changes.

    They take ports 9876 and 10911, or the next free ones ten higher. From two replicas on, ZooKeeper (2181) and controllers
    (9878) run too, and elect a new master when one dies. With --no-controller there is no election: the group waits for its
    master. Without --detach, Ctrl-C stops the cluster.
    """
    from ...deploy.local_cluster import ProcessCluster

    cluster = ProcessCluster(directory, say=note, ready_timeout_ms=round(timeout * 1000))
    if no_controller and controllers is not None:
        raise typer.BadParameter("expected nothing beside --no-controller", param_hint="--controllers")
    asked = {"replicas": replicas, "groups": groups, "controllers": controllers, "zookeeper": zookeeper}
    shape = _shape(cluster, {name: value for name, value in asked.items() if value is not None}, no_controller)
    with usage_of_values():
        record = cluster.up(settings=settings or (), shape=shape, namesrv_port=namesrv_port, secure=secure, proxy=proxy)
    document = _up_document(cluster.directory, record)
    if detach:
        show(document, as_json, lambda: _print_endpoints(document))
        return
    try:
        show(document, as_json, lambda: _print_endpoints(document))
        sys.stdout.flush()
        _watch(cluster)
    except KeyboardInterrupt:
        note("ending the cluster")
    finally:
        cluster.down()


def _up_document(directory: str, record: ClusterRecord) -> dict[str, Any]:
    document = {
        "cluster": record.cluster,
        "cluster_id": record.cluster_id,
        "namesrv": record.namesrv,
        "directory": directory,
        "processes": [
            {"role": p.role, "name": p.name, "pid": p.pid, "address": p.address, "store_dir": p.store_dir}
            | ({"metrics": p.metrics} if p.metrics else {})
            | ({"remoting": p.remoting} if p.remoting else {})
            for p in record.processes
        ],
    }
    return document | ({"keys": record.keys} if record.keys else {})


def _shape(cluster: ProcessCluster, asked: dict[str, Any], no_controller: bool) -> Shape:
    """The wanted shape of the cluster: its present one, with the given changes. Raises typer.BadParameter."""
    from ...deploy.cluster_plan import check_shape
    from ...deploy.cluster_record import Shape
    from ...deploy.left_stores import left_shape
    from ...model.groups.group_limits import check_address

    record = cluster.read()
    shape = replace(record.shape if record is not None else left_shape(cluster.directory) or Shape(), **asked)
    if no_controller and shape.is_replicated:  # a single replica has none anyway
        shape = replace(shape, controllers=0)
    try:
        check_shape(shape)
        if shape.zookeeper:
            check_address("--zookeeper", shape.zookeeper)
    except InvalidParameter as error:
        raise typer.BadParameter(f"expected {error.expected}", param_hint=error.name) from None
    return shape


def down(directory: Directory = DEFAULT_DIRECTORY, as_json: Json = False) -> None:
    """Stop the processes of a cluster; its data stays."""
    from ...deploy.local_cluster import ProcessCluster, last_directory

    try:
        ended = ProcessCluster(directory, say=note).down()
    except NoCluster as error:
        raise NoCluster(error.directory, last_directory() or "") from error
    document = {"ended": [{"role": p.role, "name": p.name, "pid": p.pid} for p in ended]}
    names = ", ".join(process.name for process in ended)
    show(document, as_json, lambda: typer.echo(f"ended: {names}" if ended else "nothing was running"))


@watched
def status(
    directory: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            callback=check_directory,
            help="Where the cluster lives; else the one `zenit up` started last here.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which processes run, where, and how far each broker's log reaches."""
    from ...deploy.local_cluster import ProcessCluster, last_directory

    document = ProcessCluster(directory or last_directory() or DEFAULT_DIRECTORY).status()
    show(document, as_json, lambda: _print_status(document))


def _watch(cluster: ProcessCluster) -> None:
    """Waits until a signal raises KeyboardInterrupt. Raises ClusterNotStarted if a process ends by itself."""
    note("Ctrl-C ends the cluster")
    while (dead := cluster.first_dead()) is None:
        sleep_ms(WATCH_MS)
    raise ClusterNotStarted(dead.name, f"ended: {cluster.last_words(dead.name)}", cluster.log_path(dead.name))


def _print_endpoints(document: dict[str, Any]) -> None:
    has_proxy = any("remoting" in process for process in document["processes"])
    columns = ("role", "name", "address", *(("remoting",) if has_proxy else ()), "metrics", "pid", "store_dir")
    print_table(columns, [[process.get(name) for name in columns] for process in document["processes"]])


def _scrub_rows(document: dict[str, Any]) -> Iterator[list[object]]:
    for group in document["groups"]:
        for replica in group["replicas"]:
            scrub = replica["scrub"]
            if scrub is not None:
                counts = [scrub[f"{name}_ranges"] for name in ("damaged", "mended", "quarantined")]
                yield [replica["name"], readable_time(scrub["ended_ms"]), _scrub_now(scrub["under_way"]), *counts]


def _scrub_now(under_way: dict[str, Any] | None) -> str | None:
    if under_way is None:
        return None
    percent = f"{100 * under_way['done_bytes'] // max(1, under_way['size_bytes'])} %"
    return f"{percent}, broker busy" if under_way["is_waiting_for_calm"] else percent


def _scrub_lines(name: str, scrub: dict[str, Any]) -> Iterator[str]:
    if scrub["error"]:
        yield f"{name}: its last scrub could not read the log to its end: {scrub['error']}"
    if scrub["damaged_entry"]:
        yield f"{name}: a checksum entry is damaged: {scrub['damaged_entry']}"
    if scrub["quarantined"]:
        more = ", ..." if scrub["quarantined_ranges"] > len(scrub["quarantined"]) else ""
        ranges = ", ".join(f"[{low}, {high})" for low, high in scrub["quarantined"])
        yield f"{name}: quarantined bytes of its log: {ranges}{more}"


def _is_in_sync(group: dict[str, Any], replica: dict[str, Any]) -> bool | None:
    """None if unknown."""
    return None if group["in_sync"] is None else replica["name"] in group["in_sync"]


def _damage_ahead(group: dict[str, Any], replica: dict[str, Any]) -> list[int] | None:
    """The first damaged range of the master's log, [begin, end), that a slave has not passed: it gets nothing of it."""
    master = next((other for other in group["replicas"] if other["name"] == group["master"]), None)
    if replica["role"] != "slave" or master is None or master["scrub"] is None:
        return None
    ranges: list[list[int]] = master["scrub"]["quarantined"]
    return next((found for found in ranges if replica["written_offset"] < found[1]), None)


def _is_short(group: dict[str, Any]) -> bool:
    """Whether fewer replicas than its minimum are in sync with its master, so that writes wait."""
    known = group["blocked"] is None and group["in_sync"] is not None and group["master"] is not None
    return known and len(group["in_sync"]) < group["min_in_sync"]


def _replica_lines(group: dict[str, Any], replica: dict[str, Any]) -> Iterator[str]:
    """The problems of a replica."""
    name = replica["name"]
    if replica["hole_at"] is not None:
        yield f"{name}: its log has a hole at {replica['hole_at']}, and counts up to there only"
    if replica["halted"]:
        yield f"{name} is halted: {replica['halted']}"
    if replica["drain"]:
        yield f"{name} drains ({replica['drain']}), and is not to lead: zenit broker drain {name} --undo"
    ahead = _damage_ahead(group, replica)
    if ahead is not None:
        yield (
            f"{name} gets its master's log only up to what is damaged there, [{ahead[0]}, {ahead[1]}), "
            "until that is mended or leaves with its segment; lost everywhere: zenit store copy"
        )
    if replica["refuses_writes"]:
        yield f"{name} takes no writes: {replica['refuses_writes']}"
    if replica["deletes_early"]:
        yield f"{name}: {replica['deletes_early']}"
    if replica["delayed_damaged"]:
        held = f"{replica['delayed_damaged']} delayed messages are held up by damage"
        yield f"{name}: {held}, {replica['delayed_lost']} of them lost"
    if replica["scrub"] is not None:
        yield from _scrub_lines(name, replica["scrub"])


def _print_status(document: dict[str, Any]) -> None:
    facts = {"cluster": document["cluster"], "cluster id": document["cluster_id"], "name servers": document["namesrv"]}
    if "controller" in document:
        facts["leading controller"] = document["controller"]
    print_facts(facts)
    has_proxy = any("remoting" in process for process in document["processes"])
    columns = ("role", "name", "pid", "address", *(("remoting",) if has_proxy else ()), "metrics", "up", "store_dir")
    print_table(columns, [[process.get(name) for name in columns] for process in document["processes"]])
    names = ("name", "role", "epoch", "newest_epoch", "written_offset", "flushed_offset", "confirm_offset", "lag_bytes")
    rows = [
        [group["broker_name"], *(replica[name] for name in names), _is_in_sync(group, replica)]
        for group in document["groups"]
        for replica in group["replicas"]
    ]
    print_table(("group", "replica", *names[1:], "in_sync"), rows)
    if "controller" in document and document["controller"] is None:
        typer.echo(
            "no controller leads: groups keep working, but no master is elected, and it is not known who is in sync"
        )
    for group in document["groups"]:
        if group["blocked"]:
            typer.echo(f"{group['broker_name']}: {group['blocked']}")
        if group["no_master"]:
            typer.echo(f"{group['broker_name']}: no master: {group['no_master']}")
        elif _is_short(group):
            typer.echo(
                f"{group['broker_name']} takes no writes: {len(group['in_sync'])} in sync, {group['min_in_sync']} needed: "
                "start the replicas that are down; writes go on by themselves"
            )
        for replica in group["replicas"]:
            for line in _replica_lines(group, replica):
                typer.echo(line)
    scrubs = ("replica", "scrub_ended", "scrub_now", "damaged", "mended", "quarantined")
    print_table(scrubs, [*_scrub_rows(document)])
    shown = ("owner", "queues", "topics", "ends_in_seconds")
    holds = [
        [group["broker_name"], *(hold[name] for name in shown)]
        for group in document["groups"]
        for hold in group["retention_holds"]
    ]
    if holds:
        print_table(("group", "held_by", *shown[1:]), holds)
