"""Runs a job from its name and its arguments, for `zenit job run`.

Spark starts when the job first asks for it, so errors in options or directories are reported before.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import JobFailed, RequirementMissing
from .failures import failure
from .job import Document, Job, Report, parse_options
from .registry import find_job
from .summary import rate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job and its options. `master`, `shuffle_partitions`: of Spark; 0 = as many as cores."""

    job: Job[Any]
    options: Any
    master: str = "local[*]"
    shuffle_partitions: int = 0


def job_named(name: str) -> Job[Any]:
    """Imports a job. Raises InvalidParameter for an unknown name, RequirementMissing without Spark."""
    try:
        return find_job(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        raise RequirementMissing(
            str(error.name), "the data pipeline needs it: pip install 'zenitmq[spark]', in a clone '.[spark]'"
        ) from None


def prepare(
    name: str, arguments: Sequence[str], *, master: str = "local[*]", shuffle_partitions: int = 0
) -> PreparedJob:
    """Parses a job's command line. Raises InvalidParameter, RequirementMissing without Spark."""
    job = job_named(name)
    return PreparedJob(job, parse_options(job.options, arguments), master, shuffle_partitions)


def run_job(prepared: PreparedJob, report: Report, *, dry_run: bool = False) -> Document:
    """Runs a job, or reports what it would do; returns its summary: `{job, dry_run, rows, seconds, rows_per_second, ...}`.

    The output of Spark and its workers goes into a file, which is kept if Spark failed. Raises ZenitError: the job's own,
    or JobFailed with one line of Spark's error.
    """
    job, options = prepared.job, prepared.options
    descriptor, log_path = tempfile.mkstemp(prefix=f"zenit-{job.name}-", suffix=".log")
    started: list[SparkSession] = []

    def session() -> SparkSession:
        if not started:
            with _stderr_into(descriptor):
                started.append(_session(prepared))
        return started[0]

    begin_ms = monotonic_ms()
    keep = False
    try:
        summary = job.plan(options, session) if dry_run else job.run(options, session, report)
    except Exception as error:  # Spark has many kinds: the user gets one line
        told = failure(job.name, error, log_path if os.fstat(descriptor).st_size else "")
        keep = isinstance(told, JobFailed) and bool(told.log_path)
        raise told from error
    finally:
        for each in started:
            each.stop()
        os.close(descriptor)
        if not keep:
            os.unlink(log_path)
    seconds = (monotonic_ms() - begin_ms) / 1000
    rows = summary.pop("rows", 0)
    head = {"job": job.name, "dry_run": dry_run, "rows": rows, "seconds": round(seconds, 3)}
    return {**head, "rows_per_second": rate(rows, seconds), **summary}


@contextlib.contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """Makes this file the stderr of processes that are started meanwhile."""
    sys.stderr.flush()
    own = os.dup(STDERR)
    os.dup2(descriptor, STDERR)
    try:
        yield
    finally:
        os.dup2(own, STDERR)
        os.close(own)


def _session(prepared: PreparedJob) -> SparkSession:
    from ..session.session import spark_session

    return spark_session(
        f"zenit {prepared.job.name}", prepared.master, shuffle_partitions=prepared.shuffle_partitions or None
    )
