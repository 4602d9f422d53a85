"""Running a job: its summary, what a user is told where it fails, and where Spark's own words go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from zenitmq.model.config import setting
from zenitmq.model.errors import InvalidParameter, JobFailed, RequirementMissing, TopicNotFound
from zenitmq.pipeline.jobs import runner
from zenitmq.pipeline.jobs.job import Job, Report, Session
from zenitmq.pipeline.jobs.runner import PreparedJob, job_named, prepare, run_job
from zenitmq.pipeline.jobs.summary import JobProgress


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    rows: int = setting(7, "How many.")


def plan(options: Options, session: Session) -> dict[str, Any]:
    del session
    return {"rows": options.rows, "to": "nowhere"}


class FakeSession:
    """What the runner does with a session is to end it."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


def prepared(run: Callable[[Options, Session, Report], dict[str, Any]]) -> PreparedJob:
    return PreparedJob(Job("copy", Options, plan, run), Options())


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSession:
    """Spark, as far as the runner is concerned: it and its workers talk on stderr."""
    session = FakeSession()

    def start(_prepared: PreparedJob) -> Any:
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('WARN: noise')"], check=True)
        return session

    monkeypatch.setattr(runner, "_session", start)
    monkeypatch.setattr(runner.tempfile, "tempdir", str(tmp_path))
    return session


def test_a_summary_names_the_job_and_its_rate(
    spark: FakeSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(options: Options, session: Session, report: Report) -> dict[str, Any]:
        assert session() is session()
        report(JobProgress(3, 1.0))
        return {"rows": options.rows, "to": "there", "passed": True}

    told: list[JobProgress] = []
    summary = run_job(prepared(run), told.append)
    assert list(summary) == ["job", "dry_run", "rows", "seconds", "rows_per_second", "to", "passed"]
    assert (summary["job"], summary["dry_run"], summary["rows"]) == ("copy", False, 7)
    assert told == [JobProgress(3, 1.0)]
    assert spark.stopped
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_only_plans(spark: FakeSession) -> None:
    summary = run_job(prepared(lambda *_: pytest.fail("it was run")), lambda _: None, dry_run=True)
    assert (summary["dry_run"], summary["rows"], summary["to"]) == (True, 7, "nowhere")
    assert not spark.stopped


def test_what_spark_said_stays_where_it_gave_up(
    spark: FakeSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(_options: Options, session: Session, _report: Report) -> dict[str, Any]:
        session()
        raise RuntimeError("Job aborted.\njava.io.IOException: No space left on device\n\tat x")

    with pytest.raises(JobFailed, match="No space left on device") as failed:
        run_job(prepared(run), lambda _: None)
    assert spark.stopped
    assert Path(failed.value.log_path).read_text() == "WARN: noise"
    assert Path(failed.value.log_path).parent == tmp_path
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [TopicNotFound("x"), RuntimeError("no Spark yet")])
def test_nothing_is_kept_where_there_is_nothing_to_read(error: Exception, spark: FakeSession, tmp_path: Path) -> None:
    def run(*_: Any) -> dict[str, Any]:
        raise error

    with pytest.raises((TopicNotFound, JobFailed)) as failed:
        run_job(prepared(run), lambda _: None)
    assert "log:" not in str(failed.value)
    assert os.listdir(tmp_path) == []
    assert not spark.stopped


def test_the_command_line_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("copy", Options, plan, lambda *_: {})
    monkeypatch.setattr(runner, "find_job", lambda _name: job)
    assert prepare("copy", ["--rows", "9"], master="local[1]") == PreparedJob(job, Options(rows=9), "local[1]")
    with pytest.raises(InvalidParameter, match="--rows"):
        prepare("copy", ["--rows", "x"])


def test_without_spark_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(module: str) -> Callable[[str], Any]:
        def find(_name: str) -> Any:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)

        return find

    monkeypatch.setattr(runner, "find_job", without("pyarrow.parquet"))
    with pytest.raises(RequirementMissing, match=r"pip install 'zenitmq\[spark\]'"):
        job_named("archive")
    monkeypatch.setattr(runner, "find_job", without("zenitmq.nowhere"))
    with pytest.raises(ModuleNotFoundError):
        job_named("archive")
