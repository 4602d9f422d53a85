"""The table of jobs: name, purpose, module. A job, and Spark with it, is imported only when it is used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ...model.errors import InvalidParameter
from .job import Job


@dataclass(frozen=True, slots=True)
class JobEntry:
    """One job. `module`: the module of its `JOB`, relative to this package."""

    meaning: str
    module: str


JOBS: Final[Mapping[str, JobEntry]] = MappingProxyType(
    {
        "archive": JobEntry("topics to Parquet files, each message once", ".archive"),
        "compact": JobEntry("merge an archive's small files of past days", ".compact"),
        "verify": JobEntry("hold an archive against its manifest and the brokers: gaps, duplicates, CRCs", ".verify"),
        "replay": JobEntry("send messages of an archive or of past offsets to a topic", ".replay"),
        "dlq-report": JobEntry("dead letters by group, topic, tag and kind of failure", ".dlq_report"),
        "dlq-redrive": JobEntry("send chosen dead letters again, at a pace", ".dlq_redrive"),
        "lag-report": JobEntry("how far groups are behind, held against limits", ".lag_report"),
        "trace-report": JobEntry("where messages lose their time: hops, retry storms, failures", ".trace_report"),
        "dedup": JobEntry("topics to another topic, each message once", ".dedup"),
        "window": JobEntry("count and sum by key over windows of time", ".window"),
    }
)


def find_job(name: str) -> Job[Any]:
    """Imports a job. Raises InvalidParameter with the nearest name."""
    entry = JOBS.get(name)
    if entry is None:
        nearest = difflib.get_close_matches(name, JOBS, 1)
        raise InvalidParameter("job", name, f"{nearest[0]}?" if nearest else f"one of {', '.join(JOBS)}")
    job: Job[Any] = importlib.import_module(entry.module, __package__).JOB
    return job
