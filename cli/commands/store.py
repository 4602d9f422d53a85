"""`zenit store inspect | stats | verify | dump | export | join | leave | copy | cluster | convert | hand-over | repair`:
offline tools without network access; only the last seven write. `scrub` and `import` ask running brokers.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import ConnectionLost, RequestTimeout
from ..message_text import record_document
from ..options import ConfigFile, Json, Namesrv
from ..output import counted, json_line, note, print_facts, print_table, readable_bytes, readable_time, show
from ..progress import count_progress
from .store_export import export, note_broker_beside
from .store_import import import_

if TYPE_CHECKING:
    from ...client.admin import Admin
    from ...record.kernel import StoredMessage
    from ...store.offline.offline_log import DamagedRange

SCRUB_COLUMNS: Final = (
    "read_bytes",
    "vouched_bytes",
    "damaged_ranges",
    "damaged_bytes",
    "damaged_units",
    "damaged_entries",
    "mended_entries",
)
SCRUB_TOLD_BELOW: Final = ("quarantined", "damaged_entry", "error")  # printed as lines of their own, not in the table
UP, DOWN, FAILED, REPLACED = "up", "down", "failed", "replaced"  # state of a replica to be scrubbed
POLL_MS: Final = 300
MEND_WAIT_MS: Final = 15_000  # for the last damage to be fetched from a replica

StoreDirectory = Annotated[
    str, typer.Argument(metavar="DIR", help="A broker's store (store_dir in zenit status --json).")
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    store_app = typer.Typer()
    store_app.command("inspect")(inspect)
    store_app.command("stats")(stats)
    store_app.command("verify")(verify)
    store_app.command("dump")(dump)
    store_app.command("export")(export)
    store_app.command("import")(import_)
    store_app.command("join")(join)
    store_app.command("leave")(leave)
    store_app.command("copy")(copy)
    store_app.command("convert")(convert)
    store_app.command("hand-over")(hand_over)
    store_app.command("repair")(repair)
    store_app.command("cluster")(cluster)
    store_app.command("scrub")(scrub)
    app.add_typer(store_app, name="store")


def inspect(directory: StoreDirectory, as_json: Json = False) -> None:
    """Show what a store holds: files, positions, topics and queues."""
    from ...store.offline.offline import inspect_store

    document = inspect_store(directory)
    begins = ", ".join(map(str, document["segments"]))
    files = counted(len(document["segments"]), "file") + (f", beginning at {begins}" if begins else "")
    show(document, as_json, lambda: print_facts(document | {"segments": files}))


def stats(directory: StoreDirectory, as_json: Json = False) -> None:
    """Show how much a store holds: bytes of its files, of each topic and queue; offsets of groups; what waits.

    Reads only. Beside a running broker it is a look at something that moves.
    """
    from ...broker.repair.stored_state import store_statistics

    document = store_statistics(directory)
    show(document, as_json, lambda: _print_statistics(document))
    if document["in_use"]:
        note(f"zenit: a broker runs on {directory}: these numbers are of different moments")
    if not document["state_is_whole"]:
        note("zenit: the log behind the snapshots of the state is damaged: offsets and leases may be old")


def _print_statistics(document: dict[str, Any]) -> None:
    for part in ("log", "queues", "index", "checksums"):
        files = document[part]
        facts = {name: readable_bytes(files[name]) for name in ("bytes", "disk_bytes")}
        times = {name: readable_time(value) for name, value in files.items() if name.endswith("_at_ms")}
        print_facts({part: files | facts | times})
    if document["compacted"]["queues"]:
        compacted = document["compacted"]
        print_facts({"compacted": compacted | {"bytes": readable_bytes(compacted["bytes"])}})
    light = document["light_queues"]
    if light["queues"]:
        print_facts({"light_queues": light | {"bytes": readable_bytes(light["bytes"])}})
    print_facts({"waiting": document["waiting"]})
    rows = [
        [topic, queue_id, queue["min_offset"], queue["max_offset"], queue["messages"], readable_bytes(queue["bytes"])]
        for topic, entry in sorted(document["topics"].items())
        for queue_id, queue in sorted(entry["queues"].items(), key=lambda pair: int(pair[0]))
    ]
    print_table(("topic", "queue_id", "min_offset", "max_offset", "messages", "bytes"), rows)
    offsets = [
        [group, topic, queue_id, offset]
        for group, topics in document["groups"].items()
        for topic, queues in topics.items()
        for queue_id, offset in queues.items()
    ]
    if offsets:
        print_table(("group", "topic", "queue_id", "offset"), offsets)


def verify(directory: StoreDirectory, as_json: Json = False) -> None:
    """Check every record with its entry in its queue and its checksum; exits 1 and names each damaged range."""
    from ...store.offline.offline import verify_store

    note_broker_beside(directory)
    document = verify_store(directory)
    show(document, as_json, lambda: _print_verdict(document))
    names = ("damaged", "damaged_entries", "damaged_compacted")
    counts = document["damaged_units"], *(len(document[name]) for name in names)
    if any(counts):
        found = ", ".join(
            (
                counted(counts[1], "damaged range"),
                counted(counts[0], "damaged unit of queues", "damaged units of queues"),
                counted(counts[2], "damaged checksum entry", "damaged checksum entries"),
                counted(counts[3], "damaged compacted file"),
            )
        )
        note(f"zenit: {found} in {directory}; docs/operate.md says what to do")
        raise typer.Exit(1)


def dump(
    directory: StoreDirectory,
    begin: Annotated[
        int, typer.Option("--from", metavar="OFFSET", min=0, help="Byte of the log to begin at; see --queue.")
    ] = 0,
    end: Annotated[
        int | None, typer.Option("--until", metavar="OFFSET", min=0, help="Byte of the log to end before.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic's records.")] = None,
    queue: Annotated[
        int | None,
        typer.Option(
            "--queue", metavar="N", min=0, help="Only this queue of --topic; --from and --until are then its offsets."
        ),
    ] = None,
    physical: Annotated[
        bool, typer.Option("--physical", help="With --queue: --from and --until are bytes of the log.")
    ] = False,
    maximum: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="End after N records.")] = None,
) -> None:
    """Print the records of a store, one JSON object a line; exits 1 if there is damage between them, and names each range.

    Records in a damaged range that still have their form are printed too, with a field `damaged`.
    """
    from ...store.offline.offline import checked_store

    if queue is not None and topic is None:
        raise typer.BadParameter("a queue is one of a topic: give --topic too", param_hint="--queue")
    note_broker_beside(directory)
    by_bytes = queue is None or physical
    limits = (begin, end) if by_bytes else (0, None)
    count = damaged = 0
    for message, reason in _told_damage(checked_store(directory, *limits)):
        if message is None:
            damaged += 1
            continue
        is_wanted = topic in (None, message.topic) and queue in (None, message.queue_id)
        if not by_bytes:
            is_wanted = is_wanted and begin <= message.queue_offset and (end is None or message.queue_offset < end)
        if not is_wanted:
            continue
        document = record_document(message)
        if reason:
            document.setdefault("damaged", reason)
        sys.stdout.write(json_line(document) + "\n")
        count += 1
        if count == maximum:
            break
    if damaged:
        raise typer.Exit(1)


def _told_damage(pieces: Iterable[StoredMessage | DamagedRange]) -> Iterator[tuple[StoredMessage | None, str]]:
    """(record, "" or what is wrong around it). Names each damaged range to the user; it comes as (None, what) before its
    records.
    """
    from ...store.offline.offline_log import DamagedRange

    for piece in pieces:
        if not isinstance(piece, DamagedRange):
            yield piece, ""
            continue
        note(f"zenit: damaged: bytes [{piece.begin}, {piece.end}) of the log: {piece.reason}")
        yield None, piece.reason
        for message in piece.records:
            yield message, piece.reason


def join(
    directory: StoreDirectory,
    group_id: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Id of the group (zenit controller status); else a new id, made from the store's."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Declare that a store's log is a copy of a group's log, or the first log of a new group; its broker must be stopped.

    For a log that a broker alone or a static master has written. The claim is not checked: in a wrong group, clients would read
    this log as if it were the group's.
    """
    from ...broker.group.group_membership import join_group

    document = join_group(directory, group_id)
    text = f"{directory}: of group {document['group_id']}, up to epoch {document['epoch']}"
    show(document, as_json, lambda: typer.echo(text))


def leave(directory: StoreDirectory, as_json: Json = False) -> None:
    """Take a store out of its group for good, so that its broker may serve it alone; the broker must be stopped.

    Controllers never accept its log for that group again. For a replica of that group, start with an empty directory.
    """
    from ...broker.group.group_membership import leave_group

    document = leave_group(directory)
    was = f"left group {document['group_id'] or 'of a static master'}, whose epoch {document['epoch']} it knew"
    text = f"{directory}: {was if document['epoch'] or document['group_id'] else 'in no group'}"
    show(document, as_json, lambda: typer.echo(text))


def copy(
    directory: StoreDirectory,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An empty directory, or one that does not exist yet.")
    ],
    as_json: Json = False,
) -> None:
    """Copy a replica's store, damage included, for one more replica of its group; its broker must be stopped.

    For a replica that cannot get the group's log over the network because a range is damaged at all the others.
    """
    from ...broker.repair.replica_copy import copy_replica

    document = copy_replica(directory, target)
    group = f"of group {document['group_id']}" if document["group_id"] else "of the same static master"
    text = f"{target}: another replica {group}, {document['bytes']} bytes copied"
    show(document, as_json, lambda: typer.echo(text))


def cluster(
    directory: StoreDirectory,
    cluster_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Move it to this cluster; the broker must be stopped."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --id: even if the store holds messages; they move too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show which cluster a store belongs to, or move it to another one."""
    from ...broker.group.store_cluster import move_to_cluster, read_cluster

    document = (
        read_cluster(directory) if cluster_id is None else move_to_cluster(directory, cluster_id, with_messages=force)
    )
    held = f"of the cluster with the id {document['cluster_id']}" if document["cluster_id"] else "of no cluster yet"
    unsettled = "" if document["settled"] or not document["cluster_id"] else ", which has not let it in yet"
    show(document, as_json, lambda: typer.echo(f"{directory}: {held}{unsettled}"))


class EngineName(StrEnum):
    """What may keep consume queues."""

    file = "file"
    rocksdb = "rocksdb"


def convert(
    directory: StoreDirectory,
    to: Annotated[EngineName, typer.Option("--to", help="What is to keep the queues.")],
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Convert a store's consume queues to another engine; its broker must be stopped.

    Set store.consume_queue to the same before the broker starts again. If it is interrupted, run it again: until it is
    done, the old queues are whole.
    """
    from ...broker.config import BrokerConfig
    from ...model.config import load_config
    from ...store.offline.convert import convert_store

    settings = load_config(BrokerConfig, "broker", file=config, environ=os.environ, overrides=()).store
    with count_progress("messages") as report:
        document = convert_store(directory, to.value, settings, report=report)
    show(document, as_json, lambda: typer.echo(convert_text(directory, document)))


def convert_text(directory: str, document: dict[str, Any]) -> str:
    """What was done, and what to set."""
    engine = document["engine"]
    if document["was"] is None:
        return f"{directory}: it has no queues yet"
    if document["was"] == engine:
        return f"{directory}: its queues are in {'RocksDB' if engine == EngineName.rocksdb else 'files'} already"
    queues, messages = counted(document["queues"], "queue"), counted(document["messages"], "message")
    gaps = f"; {counted(document['gaps'], 'damaged message')} not" if document["gaps"] else ""
    return f'{directory}: {queues} with {messages} converted{gaps}; set store.consume_queue = "{engine}"'


def hand_over(
    directory: StoreDirectory,
    config: ConfigFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is pending; change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Make a store ready for a broker of RocketMQ, delayed messages included; its broker must be stopped.

    Prints the settings for RocketMQ's broker.conf. Give --config if our broker was started with a file. If it is interrupted,
    run it again: no message is lost or stored twice.
    """
    from ...broker.config import BrokerConfig
    from ...broker.group.hand_over import hand_over as hand_over_waits
    from ...model.clock import SystemClock
    from ...model.config import load_config

    settings = load_config(BrokerConfig, "broker", file=config, environ=os.environ, overrides=()).store
    with count_progress("messages") as converting, count_progress("delayed messages") as report:
        document = hand_over_waits(
            directory, settings, clock=SystemClock(), report=report, converting=converting, dry_run=dry_run
        )
    show(document, as_json, lambda: typer.echo(hand_over_text(directory, document, dry_run=dry_run)))
    if document["damaged"]:
        waiting = counted(document["damaged"], "delayed message")
        note(f"zenit: {waiting} in {directory} cannot be read and stay there; see zenit store verify")
        raise typer.Exit(1)


def hand_over_text(directory: str, document: dict[str, Any], *, dry_run: bool) -> str:
    """The results of the hand-over, actual or planned, and a broker.conf."""
    waiting = counted(document["waiting"], "delayed message")
    if dry_run:
        return f"{directory}: the log ends at {document['log_end']}; {waiting} would be handed on; nothing was changed"
    over = f", {document['over']} not, since they are over" if document["over"] else ""
    topics, spare = counted(document["retry_topics"], "retry topic"), counted(document["spare_files"], "spare file")
    popped = counted(document["popped"], "popped message")
    converted = f"# {counted(document['converted'], 'queue')} converted from RocksDB to files"
    again, unbound = counted(document["lite_again"], "message"), ", ".join(document["lite_unbound"])
    lites = (
        *((f"# {again} of lite topics come again, though they are acknowledged",) if document["lite_again"] else ()),
        *(
            (f"# RocketMQ gives nothing of lite topics to {unbound}: set lite.bind.topic to their parent",)
            if unbound
            else ()
        ),
    )
    done = (
        *((converted,) if document["converted"] else ()),
        f"# {directory}: {waiting} handed on{over}; {popped} in retry topics",
        *lites,
        f"# {topics} made; the log ends at {document['log_end']}, behind it are zeros; {spare} deleted",
        "# broker.conf:",
    )
    return "\n".join([*done, *(f"{name}={value}" for name, value in document["broker_conf"].items())])


def repair(
    directory: StoreDirectory,
    copy: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="A replica's store of the same group, or a copy of this store."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be repaired; change nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Repair damaged ranges of a store's log, and its queues; the brokers of both stores must be stopped.

    Only bytes that checksums prove are written. Exits 1 if damage is left, and names each range. If it is interrupted, run it
    again.
    """
    from ...broker.repair.store_repair import repair_store

    try:
        with count_progress("bytes checked") as report:
            document = repair_store(directory, copy, report=report, dry_run=dry_run)
    except KeyboardInterrupt:
        note(f"zenit: interrupted; {directory} has what was repaired so far, and the rest is as it was: run it again")
        raise
    show(document, as_json, lambda: _print_repair(document))
    if document["left"]:
        ranges = counted(len(document["left"]), "damaged range")
        remedy = (
            "docs/operate.md says what to do" if copy else "--from DIR, a replica's store or a copy, has their bytes"
        )
        note(f"zenit: {ranges} left in {directory}; {remedy}")
        raise typer.Exit(1)


def _print_repair(document: dict[str, Any]) -> None:
    if document["repaired"]:
        columns = ("begin", "end", "by")
        print_table(columns, [[found[column] for column in columns] for found in document["repaired"]])
    if document["left"]:
        columns = ("begin", "end", "reason")
        print_table(columns, [[found[column] for column in columns] for found in document["left"]])
    would_be = "would be " if document["dry_run"] else ""
    parts = [f"{counted(len(document['repaired']), 'damaged range')} {would_be}repaired"]
    if document["units"]:
        units = counted(document["units"], "damaged unit of queues", "damaged units of queues")
        parts.append(f"{units} {would_be}rebuilt")
    is_whole = not (document["repaired"] or document["left"] or document["units"])
    typer.echo("nothing is damaged" if is_whole else f"{document['directory']}: {', '.join(parts)}")


def scrub(
    broker: Annotated[
        str | None,
        typer.Argument(metavar="[BROKER]", help="A broker's name (all its replicas) or HOST:PORT; else all."),
    ] = None,
    rate: Annotated[
        int,
        typer.Option(
            "--rate",
            metavar="BYTES",
            min=0,
            help="Bytes a second of each broker, at least 4096; 0 = the broker's own setting.",
        ),
    ] = 0,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Have running brokers read and check their logs.

    Exits 1 if damage is left that no replica could mend, or if a log was not read to its end.
    """
    from ...broker.config import SCRUB_RATE_MIN
    from ...client.admin import Admin

    if 0 < rate < SCRUB_RATE_MIN:
        raise typer.BadParameter(f"expected 0 (as set) or {SCRUB_RATE_MIN} and more", param_hint="--rate")
    with Admin(namesrv) as admin, _told_that_it_goes_on(), count_progress("bytes") as report:
        begun = admin.scrub(broker, bytes_per_second=rate)
        ends = {address: scrub_end(statistics) for address, statistics in begun.items()}
        settled_ms = 0
        lost: set[str] = set()
        while True:
            found = _ask_each(admin, ends.keys() - lost)
            lost |= ends.keys() - found.keys()
            done = [scrub_progress(statistics, ends[address]) for address, statistics in found.items()]
            report(sum(count for count, _ in done), sum(size for _, size in ends.values()))
            is_over = all(ended for _, ended in done)
            settled_ms = settled_ms or (monotonic_ms() if is_over else 0)
            is_mending = any(statistics.get("repairs", {}).get("awaited_ranges", 0) for statistics in found.values())
            if is_over and (not is_mending or monotonic_ms() - settled_ms >= MEND_WAIT_MS):
                break
            sleep_ms(POLL_MS)
    down = {address: begun[address]["broker_name"] for address in lost} | _down_brokers(broker, namesrv, begun)
    rows = [scrub_result(address, found[address], ends[address][0]) for address in begun if address in found]
    rows += [scrub_down(address, name) for address, name in sorted(down.items())]
    columns = [name for name in rows[0] if name not in SCRUB_TOLD_BELOW]
    show({"replicas": rows}, as_json, lambda: print_table(columns, [[row[name] for name in columns] for row in rows]))
    unread = [row for row in rows if row["state"] in (FAILED, REPLACED)]
    for row in unread:
        note(f"zenit: {row['address']}: not scrubbed to the end: {row['error']}")
    for row in rows:
        if row["quarantined"]:
            more = ", ..." if row["quarantined_ranges"] > len(row["quarantined"]) else ""
            ranges = ", ".join(f"[{low}, {high})" for low, high in row["quarantined"])
            note(f"zenit: {row['address']}: quarantined bytes of its log: {ranges}{more}")
    left = sum(row["quarantined_ranges"] or 0 for row in rows)
    if left:
        note(f"zenit: {left} damaged {'range is' if left == 1 else 'ranges are'} left; docs/operate.md says what to do")
    if down:
        note(f"zenit: not scrubbed, since they are down: {', '.join(sorted(down))}")
    unvouched = [row for row in rows if row["damaged_entry"]]
    for row in unvouched:
        count = counted(
            row["damaged_entries"] - row["mended_entries"], "damaged checksum entry", "damaged checksum entries"
        )
        note(f"zenit: {row['address']}: {count}, the first is {row['damaged_entry']}")
    for row in rows:
        if bare := (row["read_bytes"] or 0) - (row["vouched_bytes"] or 0):
            note(
                f"zenit: {row['address']}: no checksum vouches for {bare} bytes: their records' bodies were checked only"
            )
    if left or down or unread or unvouched:
        raise typer.Exit(1)


@contextlib.contextmanager
def _told_that_it_goes_on() -> Iterator[None]:
    """If the user interrupts the wait, says where the result will be."""
    try:
        yield
    except KeyboardInterrupt:
        note("zenit: the brokers go on with the scrub; `zenit status` says how far they are, and what was found")
        raise


def _ask_each(admin: Admin, addresses: Iterable[str]) -> dict[str, dict[str, Any]]:
    """{address: statistics} of brokers that answer."""
    found: dict[str, dict[str, Any]] = {}
    for address in addresses:
        with contextlib.suppress(ConnectionLost, RequestTimeout):
            found |= admin.scrub_statistics([address])
    return found


def _down_brokers(broker: str | None, namesrv: str | None, begun: Iterable[str]) -> dict[str, str]:
    """{address: broker name} of brokers of the local cluster that were not asked, because name servers forget a stopped
    broker.
    """
    from ...client.connection.cluster import name_servers
    from ...deploy.cluster_record import BROKER
    from ...deploy.local_cluster import ProcessCluster, last_directory

    directory = last_directory()
    record = ProcessCluster(directory).read() if directory is not None else None
    if record is None or record.namesrv not in name_servers(namesrv):
        return {}
    known = {process.address: process.group or process.name for process in record.of_role(BROKER)}
    return {
        address: name
        for address, name in known.items()
        if address not in set(begun) and broker in (None, name, address)
    }


def scrub_end(statistics: dict[str, Any]) -> tuple[int, int]:
    """(begin time of the requested round, its size in bytes), from a broker's statistics."""
    current = statistics["scrub"]["current"] or statistics["scrub"]["last"]
    return current["begun_ms"], current["end"] - current["begin"]


def scrub_progress(statistics: dict[str, Any], asked: tuple[int, int]) -> tuple[int, bool]:
    """(bytes of that round that are done, whether it is over): it ended, or another one was started since."""
    begun_ms, size = asked
    current = statistics["scrub"]["current"]
    if current is None or current["begun_ms"] != begun_ms:
        return size, True
    return current["position"] - current["begin"], False


def scrub_result(address: str, statistics: dict[str, Any], begun_ms: int) -> dict[str, Any]:
    """The result of one replica.

    `damaged`: found by the round that began at `begun_ms`, `mended`: since the broker's start, `quarantined`: now.
    """
    last = statistics["scrub"]["last"] or {}
    state, error = UP, last.get("error") or None
    if last.get("begun_ms") != begun_ms:
        state, error, last = REPLACED, "another scrub was begun, or the broker was started, meanwhile; scrub again", {}
    elif error is not None:
        state, error = FAILED, f"{error}; see that the broker can read its files, then scrub again"
    return {
        "broker_name": statistics["broker_name"],
        "address": address,
        "state": state,
        **{name: last.get(name) for name in SCRUB_COLUMNS},
        "mended_ranges": statistics.get("repairs", {}).get("mended_ranges", 0),
        "quarantined_ranges": statistics["store"]["quarantined_ranges"],
        "quarantined": statistics["store"].get("first_quarantined", []),
        "damaged_entry": last.get("damaged_entry") or None,
        "error": error,
    }


def scrub_down(address: str, broker_name: str) -> dict[str, Any]:
    """The same for one that does not answer: all values are unknown."""
    unknown = (*SCRUB_COLUMNS, "mended_ranges", "quarantined_ranges", *SCRUB_TOLD_BELOW)
    return {"broker_name": broker_name, "address": address, "state": DOWN, **dict.fromkeys(unknown)}


def _print_verdict(document: dict[str, Any]) -> None:
    facts = {"records": document["records"], "bytes": readable_bytes(document["bytes"])}
    print_facts(facts | {"without a checksum": readable_bytes(document["unvouched_bytes"])})
    if document["damaged"]:
        columns = ("begin", "end", "reason")
        print_table(columns, [[damage[column] for column in columns] for damage in document["damaged"]])
    if document["damaged_units"]:
        columns = ("topic", "queue_id", "queue_offset")
        print_table(columns, [[unit[column] for column in columns] for unit in document["first_units"]])
    if document["damaged_entries"]:
        columns = ("file", "entry", "offset")
        print_table(columns, [[entry[column] for column in columns] for entry in document["damaged_entries"]])
    if document["damaged_compacted"]:
        print_table(("file", "reason"), [[one["file"], one["reason"]] for one in document["damaged_compacted"]])
    if not any(document[name] for name in ("damaged", "damaged_units", "damaged_entries", "damaged_compacted")):
        typer.echo("nothing is damaged")
