"""`zenit bench WORK`: how fast this machine is, and how close to its own limit. bench/ measures; this module prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer
from typer.core import TyperCommand

from ...bench.options import (
    GROUP_WORKS,
    PROXY_WORKS,
    REPLICATED_WORKS,
    SPARK_WORKS,
    STORE_WORKS,
    WORKS,
    BenchOptions,
    bench_options,
)
from ...deploy.cluster_plan import REPLICAS_MAX
from ..endings import no_child_outlives
from ..options import Json, Namesrv, NamesrvOrEngine, UsageError, usage_of_values
from ..output import note, print_facts, readable_bytes, show

if TYPE_CHECKING:
    from ...bench.options import BenchProgress

MEANINGS: Final = {
    "produce": "Send as fast as the cluster takes it.",
    "consume": "Read a backlog.",
    "e2e": "Time from when a message is due until it is received.",
    "latency": "Time of one synchronous send after another.",
    "transactions": "Commit transactions, several at a time.",
    "pop": "Receive a backlog with simple consumers, and acknowledge it.",
    "limits": "Measure only the raw path of this machine, without a broker.",
    "restart": "How long a killed broker takes to serve again.",
    "catch-up": "How fast a wiped slave gets its log back.",
    "backup": "How fast a store is backed up, and made anew.",
    "proxy": "What RocketMQ's own clients get from a proxy.",
    "spark": "Read and write topics with Spark, compared with Parquet.",
}
GROUP_MIN: Final = 2
PICTURED: Final = WORKS
TYPES: Final = get_type_hints(BenchOptions)


def register(app: typer.Typer) -> None:
    """Adds the commands, one per work."""
    bench = typer.Typer()
    for work in MEANINGS:
        bench.command(work, cls=_Work, help=MEANINGS[work])(command_of(work))
    app.add_typer(bench, name="bench")


class _Work(TyperCommand):
    """The command of a work. An option of other works is refused with the names of those works."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises UsageError."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            name = getattr(error, "option_name", None)
            works = [work for work, command in ctx.parent.command.commands.items() if name in _flags(command)]
            if not works or self.name in works:
                raise
            raise UsageError(f"{name} belongs to {', '.join(f'`zenit bench {work}`' for work in works)}", ctx) from None


def _flags(command: TyperCommand) -> set[str]:
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}


def command_of(work: str) -> Callable[..., None]:
    """The function behind `zenit bench WORK`; its parameters are the work's options."""

    def command(**chosen: Any) -> None:
        _run(work, **chosen)

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, **kept) for name, kept in _parameters(work).items()]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameters(work: str) -> dict[str, dict[str, Any]]:
    """{name: its default and annotation}."""
    defaults = BenchOptions(work=work)
    found: dict[str, dict[str, Any]] = {}
    for name, known in bench_options(work).items():
        flag = typer.Option(known.flag_of(name), help=known.meaning)
        annotation = _namesrv_of(work) if name == "namesrv" else Annotated[TYPES[name], flag]
        found[name] = {"default": getattr(defaults, name), "annotation": annotation}
    if work in REPLICATED_WORKS:
        meaning = "Brokers that hold each message; more than 1: beside a single one."
        found["replicas"] = {
            "default": 1,
            "annotation": Annotated[int, typer.Option(min=1, max=REPLICAS_MAX, help=meaning)],
        }
    if work in GROUP_WORKS:
        brokers = typer.Option(min=GROUP_MIN, max=REPLICAS_MAX, help="Brokers of the group that is started.")
        found["replicas"] = {"default": GROUP_MIN, "annotation": Annotated[int, brokers]}
    if work in PICTURED:
        picture = typer.Option(metavar="FILE.svg", help="Write a picture of the run.")
        found["plot"] = {"default": None, "annotation": Annotated[str | None, picture]}
    return {**found, "as_json": {"default": False, "annotation": Json}}


def _namesrv_of(work: str) -> Any:
    """Tasks of Spark and a proxy are other processes, which reach no engine."""
    return Namesrv if work in (*SPARK_WORKS, *PROXY_WORKS) else NamesrvOrEngine


def _run(work: str, *, as_json: bool, replicas: int = 1, plot: str | None = None, **chosen: Any) -> None:
    if plot is not None:
        _check_can_write(plot)
    with usage_of_values():
        options = BenchOptions(work=work, **chosen)
    if work in SPARK_WORKS:
        from .bench_spark import run_spark

        with no_child_outlives(), _live_table() as report:
            document = run_spark(options, report)
        show(document, as_json, lambda: print_facts(document))
        return
    if work in PROXY_WORKS:
        from ...proxy.installation import check_installed

        check_installed()  # before an import that needs it
        from ...bench.proxy.proxy_bench import run_proxy

        with no_child_outlives(), _live_table() as report:
            document = run_proxy(options, report)
        show(document, as_json, lambda: print_facts(document))
        return
    if work in STORE_WORKS:
        from .bench_backup import run_backup

        with _live_table() as report:
            document = run_backup(options, report)
        show(document, as_json, lambda: print_facts(document))
        return
    from ...bench.runner import run
    from .bench_catch_up import run_catch_up
    from .bench_replicas import run_on_replicas

    if work in GROUP_WORKS:
        with _live_table() as report:
            document = run_catch_up(options, replicas, report)
        show(document, as_json, lambda: print_facts(document))
        return
    with usage_of_values(), _live_table() as report:
        result = run(options, report) if replicas == 1 else run_on_replicas(options, replicas, report)
    if plot is not None:
        with open(plot, "w", encoding="utf-8") as file:
            file.write(result.svg)
    show(dict(result.document), as_json, lambda: print_facts(result.document))


def _check_can_write(path: str) -> None:
    """Raises typer.BadParameter, before a run that may take minutes, if its picture could not be written."""
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
    """Yields a callback for progress: a live table on a terminal, else one line per phase on stderr."""
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
