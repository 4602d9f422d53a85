"""`zenit drill list`, `drill run NAME`: failover drills. deploy/drills runs them; this module prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import typer

from ...deploy.drills.catalogue import DRILLS, LIMITS, Drill
from ..endings import ENDINGS
from ..options import Json, usage_of_values
from ..output import note, print_facts, print_table, show

Secure = Annotated[bool, typer.Option("--secure", help="With keys, users and rights.")]

COLUMNS: Final = (
    "run",
    "acknowledged",
    "lost",
    "changed",
    "duplicated",
    "reordered",
    "first_write_ms",
    "longest_gap_ms",
    "gap_before_fault_ms",
)


def _between(name: str) -> dict[str, float]:
    """The limits of an option, for its help and its check."""
    least, most = LIMITS[name]
    return {"min": least, "max": most}


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    drill = typer.Typer(no_args_is_help=True)
    drill.command("list")(list_drills)
    drill.command("run")(run_drill)
    drill.command("campaign")(run_campaign)
    app.add_typer(drill, name="drill")


def list_drills(as_json: Json = False) -> None:
    """List the drills."""
    rows = [
        {
            "name": drill.name,
            "meaning": drill.meaning,
            "replicas_min": drill.replicas_min,
            "needs": _needs(drill),
            "containers": drill.is_for_containers,
            "faults": [str(fault) for fault in drill.faults],
        }
        for drill in DRILLS.values()
    ]
    columns = ("name", "replicas_min", "containers", "needs", "meaning")
    show(rows, as_json, lambda: print_table(columns, [[row[column] or None for column in columns] for row in rows]))


def _needs(drill: Drill) -> str:
    if drill.cuts_network:
        return "root and iptables"
    return "a C compiler" if drill.cuts_power or drill.fails_disk else ""


def run_drill(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A drill of `zenit drill list`.")],
    runs: Annotated[int, typer.Option(**_between("runs"), help="Number of runs.")] = 1,
    replicas: Annotated[int, typer.Option(**_between("replicas"), help="Brokers of the group.")] = 3,
    controllers: Annotated[int, typer.Option(min=0, help="Controllers, from two replicas on; 0: a static master.")] = 2,
    groups: Annotated[int, typer.Option(**_between("groups"), help="Replica groups; each fault hits one of them.")] = 1,
    seconds: Annotated[
        float | None,
        typer.Option(**_between("seconds"), help="How long each fault is held; else as the drill says."),
    ] = None,
    rate: Annotated[
        float, typer.Option(**_between("rate"), help="Messages a second, of all producers together.")
    ] = 5_000,
    batch: Annotated[
        int | None, typer.Option(**_between("batch"), help="Messages in each send; else as many as the rate needs.")
    ] = None,
    size: Annotated[int, typer.Option(**_between("body_bytes"), help="Body bytes of a message.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of what is random.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(**_between("minutes"), help="random: how long; else half an hour.")
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="random: draw power cuts, not partitions (flush mode sync).")
    ] = False,
    disks: Annotated[
        bool,
        typer.Option("--disks", help="random: draw disks that hang or are full, not partitions (flush mode sync)."),
    ] = False,
    topics: Annotated[
        str, typer.Option(metavar="KIND", help="What the load is sent to: topics that are plain, batches or compacted.")
    ] = "plain",
    secure: Secure = False,
    directory: Annotated[
        str | None,
        typer.Option(
            "--dir", metavar="DIR", help="Directory of a running cluster; else one is started, and stopped at the end."
        ),
    ] = None,
    compose: Annotated[
        str | None,
        typer.Option(metavar="PROJECT", help="Compose project that is up; its containers are harmed, and run on."),
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="DIR", help="Write the report and pictures there.")] = None,
    as_json: Json = False,
) -> None:
    """Inject a fault into a cluster under load, and look for every acknowledged message at every replica.

    Exit code 1 if an acknowledged message is lost, changed or out of order, or if writes did not continue.
    """
    from ...deploy.drills.run import DrillOptions, run

    with usage_of_values():
        options = DrillOptions(
            drill=name,
            runs=runs,
            replicas=replicas,
            controllers=controllers,
            groups=groups,
            power=power,
            disks=disks,
            seconds=seconds,
            rate=rate,
            batch=batch,
            body_bytes=size,
            seed=seed,
            minutes=minutes,
            topics=topics,
            secure=secure,
            directory=directory,
            compose=compose,
            report_directory=report,
        )
    ENDINGS.take(ignored_too=True)  # a shell makes background processes ignore Ctrl-C
    with _progress() as say:
        document = run(options, say)
    show(document, as_json, lambda: _print_document(document))
    if not document["passed"]:
        raise typer.Exit(1)


def run_campaign(
    hours: Annotated[float, typer.Option(**_between("hours"), help="How long; the last leg runs to its end.")],
    seed: Annotated[int, typer.Option(help="Seed of all that is random.")] = 1,
    rate: Annotated[
        float, typer.Option(**_between("rate"), help="Messages a second, of all producers together.")
    ] = 5_000,
    batch: Annotated[int, typer.Option(**_between("batch"), help="Messages in each send.")] = 16,
    leg_minutes: Annotated[
        float, typer.Option(**_between("leg_minutes"), help="How long each leg injects faults.")
    ] = 4,
    secure: Secure = False,
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the account, page and picture there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Inject random faults into clusters of every kind, one leg after another, and check each leg.

    Exit code 1 if a leg broke a promise or broke off; 130 if it was interrupted: it still reports what ran.
    """
    from ...deploy.drills.campaigns.campaign_run import CampaignOptions, run_campaign

    with usage_of_values():
        options = CampaignOptions(
            hours=hours,
            seed=seed,
            rate=rate,
            batch=batch,
            leg_minutes=leg_minutes,
            secure=secure,
            report_directory=report,
        )
    ENDINGS.take(ignored_too=True)  # a shell makes background processes ignore Ctrl-C
    with _progress() as say:
        document = run_campaign(options, say)
    show(document, as_json, lambda: _print_campaign(document))
    if document["interrupted"]:
        raise KeyboardInterrupt
    if not document["passed"]:
        raise typer.Exit(1)


def _print_campaign(document: dict[str, Any]) -> None:
    print_facts(
        {
            name: document[name]
            for name in ("campaign", "passed", "acknowledged", "lost", "changed", "reordered", "violations")
        }
        | {"faults": sum(fault["times"] for fault in document["faults"].values())}
        | {f"pause_{name}": document["pauses"][name] for name in ("median_ms", "worst_ms")}
        | {f"pauses_{name}": document["pauses"][name] for name in ("too_long", "stalled")}
        | {"never_drawn": ", ".join(document["never_drawn"]) or None}
    )
    for leg in document["legs"]:
        if not leg["passed"]:
            note(f"leg {leg['number'] + 1} ({leg['kind']['name']}, seed {leg['seed']}): {leg['failure'] or 'FAILED'}")
            for stall in leg["stalls"]:
                note(stall)


def _print_document(document: dict[str, Any]) -> None:
    runs = document["runs"]
    print_table(COLUMNS, [[number, *(run[name] for name in COLUMNS[1:])] for number, run in enumerate(runs, 1)])
    facts = {"drill": document["drill"], "passed": document["passed"], "seed": document["seed"]}
    print_facts(facts | {"logs": ", ".join(sorted({run["logs"] for run in runs}))})
    if document["producer_pauses"] is not None:
        print_facts({f"producer_pauses_{name}": value for name, value in document["producer_pauses"].items()})
    for run in runs:
        if run["bits_turned"]:
            print_facts({name: run[name] for name in ("bits_turned", "ranges_found", "ranges_mended")})
        for example in run["examples"]:
            note(example)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yields a callback for progress: one line that is redrawn on a terminal, else one line per change of step."""
    if not sys.stderr.isatty():
        yield lambda text: None if text.endswith(" acknowledged") else note(text)
        return
    step = ""

    def draw(text: str) -> None:
        nonlocal step
        if text.endswith(" acknowledged"):
            text = f"{step}: {text}"
        else:
            step = text
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    try:
        yield draw
    finally:
        sys.stderr.write("\r\x1b[K")
