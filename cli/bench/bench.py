"""`zenit bench WORK`: how fast this machine is, and how close to its own limit. Measuring is bench/'s; this prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...bench.options import APIS, FLUSH_MODES, GROUP_WORKS, SPARK_WORKS, WORKS, BenchOptions
from ..endings import no_child_outlives
from ..options import Json, Namesrv, usage_of_values
from ..output import note, print_facts, readable_bytes, show

if TYPE_CHECKING:
    from ...bench.options import BenchProgress

USUAL: Final = BenchOptions(work="produce")
ON, OFF = True, False


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("bench")(bench)


def bench(
    work: Annotated[
        str, typer.Argument(metavar="WORK", help=f"One of {', '.join((*WORKS, *GROUP_WORKS, *SPARK_WORKS))}.")
    ],
    size: Annotated[int, typer.Option(help="Body bytes of a message.")] = USUAL.size,
    batch: Annotated[int, typer.Option(help="Messages a request.")] = USUAL.batch,
    producers: Annotated[int, typer.Option(help="Processes that produce.")] = USUAL.producers,
    consumers: Annotated[int, typer.Option(help="Processes that consume.")] = USUAL.consumers,
    seconds: Annotated[float, typer.Option(help="Length of the measured part.")] = USUAL.seconds,
    replicas: Annotated[
        int, typer.Option(min=1, help="Brokers that hold each message; more than 1: beside a single one.")
    ] = 1,
    flush: Annotated[
        str, typer.Option(help=f"{' or '.join(FLUSH_MODES)}: of a cluster started for the run.")
    ] = USUAL.flush,
    api: Annotated[str, typer.Option(help=f"Road of the producer: {', '.join(APIS)}.")] = USUAL.api,
    prebuilt: Annotated[
        bool, typer.Option("--prebuilt", help="Batches made beforehand: the broker's own ceiling.")
    ] = OFF,
    in_flight: Annotated[
        int, typer.Option(help="Requests in flight of a process; 0 = the work's own.")
    ] = USUAL.in_flight,
    keys: Annotated[int, typer.Option(help="Keys a message, beside its unique id.")] = USUAL.keys,
    tags: Annotated[bool, typer.Option("--tags", help="A tag on every message.")] = OFF,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Key index of a cluster started for the run.")] = ON,
    untouched: Annotated[bool, typer.Option("--untouched", help="consume: whole polls, no message touched.")] = OFF,
    rate: Annotated[int, typer.Option(help="e2e: messages a second, on schedule.")] = USUAL.rate,
    push: Annotated[bool, typer.Option("--push", help="e2e: to the handler of a push consumer.")] = OFF,
    warm: Annotated[bool, typer.Option("--warm", help="Segments whose pages are cached, as recycled ones are.")] = OFF,
    stages: Annotated[bool, typer.Option("--stages", help="Tell where the time goes.")] = OFF,
    topic: Annotated[str | None, typer.Option(help="An existing topic; else one of the run's own.")] = USUAL.topic,
    queues: Annotated[int, typer.Option(help="Queues of the run's own topic.")] = USUAL.queues,
    messages: Annotated[
        int, typer.Option(help="consume: size of the backlog; 0 = by --seconds. spark: how many; 0 = 1000000.")
    ] = USUAL.messages,
    log_gib: Annotated[float, typer.Option("--log-gib", help="restart, catch-up: GiB of log.")] = USUAL.log_gib,
    limit_seconds: Annotated[float, typer.Option(help="Each run of the raw path; 0 = none.")] = USUAL.limit_seconds,
    own_cluster: Annotated[bool, typer.Option("--own-cluster", help="Start a cluster in any case.")] = OFF,
    directory: Annotated[str | None, typer.Option("--dir", help="Where a started cluster keeps its files.")] = None,
    master: Annotated[str, typer.Option(help="spark: where Spark runs.")] = USUAL.master,
    plot: Annotated[str | None, typer.Option(metavar="FILE.svg", help="Write a picture of the run.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Measure the running cluster, or one that is started for the run, and the raw path of this machine beside it."""
    if plot is not None:
        _check_can_write(plot)
    with usage_of_values():
        options = BenchOptions(
            work=work,
            size=size,
            batch=batch,
            producers=producers,
            consumers=consumers,
            seconds=seconds,
            flush=flush,
            api=api,
            prebuilt=prebuilt,
            in_flight=in_flight,
            keys=keys,
            tags=tags,
            index=index,
            untouched=untouched,
            rate=rate,
            push=push,
            warm=warm,
            stages=stages,
            topic=topic,
            queues=queues,
            messages=messages,
            log_gib=log_gib,
            master=master,
            limit_seconds=limit_seconds,
            namesrv=namesrv,
            own_cluster=own_cluster,
            directory=directory,
        )
    if work in SPARK_WORKS:
        from .bench_spark import run_spark

        with no_child_outlives(), _live_table() as report:
            document = run_spark(options, report)
        show(document, as_json, lambda: print_facts(document))
        return
    from ...bench.runner import run
    from .bench_catch_up import run_catch_up
    from .bench_replicas import run_on_replicas

    if work in GROUP_WORKS:
        with _live_table() as report:
            document = run_catch_up(options, max(replicas, 2), report)
        show(document, as_json, lambda: print_facts(document))
        return
    with _live_table() as report:
        result = run(options, report) if replicas == 1 else run_on_replicas(options, replicas, report)
    if plot is not None:
        with open(plot, "w", encoding="utf-8") as file:
            file.write(result.svg)
    show(dict(result.document), as_json, lambda: print_facts(result.document))


def _check_can_write(path: str) -> None:
    """Raises typer.BadParameter, before a run that may take minutes, where its picture could not be written."""
    directory = os.path.dirname(os.path.abspath(path))
    if (
        not path
        or os.path.isdir(path)
        or not os.access(directory, os.W_OK)
        or len(os.fsencode(os.path.basename(path))) > os.pathconf(directory, "PC_NAME_MAX")
        or (os.path.exists(path) and not os.access(path, os.W_OK))
    ):
        raise typer.BadParameter(f"{path!r} cannot be written", param_hint="--plot")


@contextlib.contextmanager
def _live_table() -> Iterator[Callable[[BenchProgress], None]]:
    """A function to be told how the run goes: a live table where a person watches, else a line a phase on stderr."""
    if not sys.stderr.isatty():
        phases: set[str] = set()

        def tell(progress: BenchProgress) -> None:
            if progress.phase not in phases:
                phases.add(progress.phase)
                note(f"bench: {progress.phase} {progress.note}".rstrip())

        yield tell
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    rows: dict[str, tuple[str, ...]] = {}
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:

        def draw(progress: BenchProgress) -> None:
            rows[progress.phase] = _cells(progress)
            table = Table("phase", "time", "messages", "messages/s", "bytes", "")
            for cells in rows.values():
                table.add_row(*cells)
            live.update(table)

        yield draw


def _cells(progress: BenchProgress) -> tuple[str, ...]:
    total = f" / {progress.total_seconds:.0f}" if progress.total_seconds else ""
    return (
        progress.phase,
        f"{progress.elapsed_seconds:.1f}{total} s",
        f"{progress.messages:,}",
        f"{progress.messages_per_second:,.0f}",
        readable_bytes(progress.bytes),
        progress.note,
    )
