"""`zenit job list`, `zenit job run NAME`: the Spark jobs. pipeline/jobs does the work; this module prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ..endings import no_child_outlives
from ..options import Json
from ..output import print_facts, print_rows, print_table, show

if TYPE_CHECKING:
    from ...pipeline.jobs.job import Document, Report
    from ...pipeline.jobs.summary import JobProgress

# Each job has options of its own, which the job parses.
TAKES_ANY = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    job = typer.Typer(no_args_is_help=True)
    job.command("list")(list_jobs)
    job.command("run", context_settings=TAKES_ANY)(run)
    app.add_typer(job, name="job")


def list_jobs(as_json: Json = False) -> None:
    """List the jobs."""
    from ...pipeline.jobs.registry import JOBS

    rows = [{"name": name, "meaning": entry.meaning} for name, entry in JOBS.items()]
    show(rows, as_json, lambda: print_table(("name", "meaning"), [list(row.values()) for row in rows]))


def run(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME [--help]", show_default=False, help="A job of `zenit job list`; its options follow."
        ),
    ] = None,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, ...")
    ] = "local[*]",
    shuffle_partitions: Annotated[
        int,
        typer.Option(
            "--shuffle-partitions",
            metavar="N",
            min=0,
            help="Partitions of steps that sort or count; 0 = one for each core.",
        ),
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Run a job; `zenit job run NAME --help` lists its options.

    Exit code 0: done; 1: it failed, or found what it looks for (verify); 2: wrong usage.
    """
    if name is None:
        raise typer.BadParameter("give the name of a job: zenit job list", ctx=context, param_hint="NAME")
    if name in ("--help", "-h"):
        typer.echo(context.get_help())
        return
    arguments = list(context.args)
    if {"--help", "-h"} & set(arguments):
        _print_help(name)
        return
    from ...model.errors import InvalidParameter
    from ...pipeline.jobs.runner import prepare, run_job

    try:
        prepared = prepare(name, arguments, master=master, shuffle_partitions=shuffle_partitions)
    except InvalidParameter as error:
        raise typer.BadParameter(str(error), ctx=context) from None
    with no_child_outlives(), _progress() as report:
        document = run_job(prepared, report, dry_run=dry_run)
    show(document, as_json, lambda: _print_document(document))
    if document.get("passed") is False:
        raise typer.Exit(1)


def _print_help(name: str) -> None:
    from ...pipeline.jobs.job import option_help
    from ...pipeline.jobs.registry import JOBS
    from ...pipeline.jobs.runner import job_named

    job = job_named(name)
    typer.echo(f"zenit job run {name} [OPTIONS]: {JOBS[name].meaning}\n")
    common = [
        ("--master URL", "Where Spark runs [local[*]]"),
        ("--shuffle-partitions N", "Of steps that sort or count [as many as cores]"),
        ("--dry-run", "Only tell what would be done"),
        ("--json", "Print JSON"),
    ]
    rows = [*option_help(job.options), *common]
    width = max(len(written) for written, _ in rows)
    for written, meaning in rows:
        typer.echo(f"  {written.ljust(width)}  {meaning}")


def _print_document(document: Document) -> None:
    tables = {
        name: rows for name, rows in document.items() if isinstance(rows, list) and rows and isinstance(rows[0], dict)
    }
    print_facts({name: value for name, value in document.items() if name not in tables})
    for rows in tables.values():
        print_rows(rows)


@contextlib.contextmanager
def _progress() -> Iterator[Report]:
    """Yields a callback for progress: one line that is redrawn on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _progress: None
        return

    def draw(progress: JobProgress) -> None:
        sys.stderr.write(f"\r\x1b[K{progress.line()}")
        sys.stderr.flush()

    try:
        yield draw
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
