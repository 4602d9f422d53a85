"""Archives of real topics by a real Spark: each message once, whatever ends in between; and what `verify` sees."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from forks.spawning import REAL
from pyspark.sql import DataFrame, SparkSession
from spark.spark_kit import send

from zenitmq.client.administration.pipeline_calls import PipelineCalls, pipeline_calls
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import (
    ArchiveNotWritable,
    ArchiveStartLost,
    CheckpointLost,
    NoRoute,
    TargetInUse,
    TopicNotFound,
)
from zenitmq.pipeline.jobs import archive, compact, verify
from zenitmq.pipeline.jobs.archive import ArchiveOptions, Batches, KeptStart
from zenitmq.pipeline.jobs.archived_rows import archive_frame
from zenitmq.pipeline.jobs.archives import archive_tree
from zenitmq.pipeline.jobs.archives.archive_tree import ArchiveTree
from zenitmq.pipeline.jobs.compact import CompactOptions
from zenitmq.pipeline.jobs.summary import JobProgress
from zenitmq.pipeline.jobs.verify import VerifyOptions
from zenitmq.testing import LocalCluster

Read = Callable[..., DataFrame]
Document = dict[str, Any]
FOR_EVER = "9999-12-31"
ZENIT = str(Path(sys.executable).with_name("zenit"))


def silent(_progress: JobProgress) -> None:
    """Nobody is told how it goes."""


class Jobs:
    """Runs the jobs on one archive of one topic."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, topic: str, target: str) -> None:
        self.spark = spark
        self.cluster = cluster
        self.topic = topic
        self.target = target

    def archive(self, **more: Any) -> Document:
        return archive.run(self.archive_options(**more), lambda: self.spark, silent)

    def archive_options(self, **more: Any) -> ArchiveOptions:
        chosen = {"topics": (self.topic,), "target": self.target, "namesrv": self.cluster.namesrv}
        return ArchiveOptions(**(chosen | more))

    def compact(self, before: str = FOR_EVER) -> Document:
        return compact.run(CompactOptions(target=self.target, before=before), lambda: self.spark, silent)

    def verify(self, **more: Any) -> Document:
        options = VerifyOptions(target=self.target, namesrv=self.cluster.namesrv, **more)
        return verify.run(options, lambda: self.spark, silent)

    def is_start_kept(self) -> bool:
        """Whether the brokers keep where the archive began."""
        with pipeline_calls(self.cluster.namesrv) as calls:
            return calls.query_offsets(f"archive-{self.tree().identity()}") is not None

    def rows(self) -> list[Any]:
        return sorted(map(tuple_of, archive_frame(self.spark, self.target).collect()))

    def tree(self) -> ArchiveTree:
        return ArchiveTree(self.target)


@pytest.fixture
def jobs(spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path) -> Jobs:
    return Jobs(spark, cluster, topic, str(tmp_path / "archive"))


def tuple_of(row: Any) -> tuple[Any, ...]:
    """All of a row, in a form that can be sorted."""
    values = row.asDict()
    return tuple(str(sorted(each.items()) if isinstance(each, dict) else each) for each in values.values())


def stored_rows(read: Read) -> list[Any]:
    return sorted(map(tuple_of, read().collect()))


def test_an_archive_grows_by_what_is_new_and_holds_every_row_as_it_was(jobs: Jobs, read: Read) -> None:
    send(jobs.cluster.namesrv, jobs.topic, 300)
    options = jobs.archive_options()
    planned = archive.plan(options, lambda: jobs.spark)
    assert (planned["rows"], len(planned["queues"])) == (300, 4)
    assert not os.path.exists(jobs.target)
    first = jobs.archive()
    assert (first["rows"], first["batches"], first["rows_archived"]) == (300, 1, 300)
    assert jobs.rows() == stored_rows(read)
    send(jobs.cluster.namesrv, jobs.topic, 50, first=300)
    assert archive.plan(options, lambda: jobs.spark)["rows"] == 50
    assert jobs.archive()["rows"] == 50
    assert jobs.archive()["rows"] == 0
    assert jobs.rows() == stored_rows(read)
    assert pq.read_table(jobs.target).num_rows == 350, "who lists the directories sees the same rows"
    assert jobs.verify()["passed"]

    before = jobs.rows()
    files = len(jobs.tree().listed())
    merged = jobs.compact()
    assert (merged["rows"], merged["files_before"], merged["files_after"]) == (350, files, 1)
    assert len(jobs.tree().listed()) == 1
    assert jobs.rows() == before
    assert jobs.compact()["files_before"] == 0
    send(jobs.cluster.namesrv, jobs.topic, 10, first=350)
    assert jobs.archive()["rows"] == 10
    assert jobs.verify()["passed"]
    assert jobs.compact(before="2020-01-01")["files_before"] == 0


class Stopped(Exception):
    """What ends a run of the archive in the middle."""


def _stop(*_: Any, **__: Any) -> None:
    raise Stopped


@pytest.mark.parametrize("step", ["staged", "committed", "settled"])
def test_wherever_it_ends_the_next_run_leaves_each_row_once(
    step: str, jobs: Jobs, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(jobs.cluster.namesrv, jobs.topic, 100)
    jobs.archive()
    send(jobs.cluster.namesrv, jobs.topic, 100, first=100)
    with monkeypatch.context() as patch:
        if step == "staged":
            patch.setattr(archive_tree, "write_whole", _stop)
        elif step == "committed":
            patch.setattr(ArchiveTree, "_settle", _stop)
        else:
            write = Batches.write
            patch.setattr(Batches, "write", lambda self, frame, number: _stop(write(self, frame, number)))
        with pytest.raises(Exception, match="Stopped"):
            jobs.archive()
    visible = len(jobs.tree().listed())
    committed = [file.path for file in jobs.tree().catalogue().files]
    assert visible == len(committed) if step != "committed" else visible < len(committed)
    send(jobs.cluster.namesrv, jobs.topic, 20, first=200)
    jobs.archive()
    assert jobs.rows() == stored_rows(read)
    assert jobs.verify()["passed"]
    assert len(jobs.tree().listed()) == len(jobs.tree().catalogue().files)


def test_where_it_began_is_kept_until_spark_has_a_batch_done(
    jobs: Jobs, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is in the archive comes again as long as Spark did not hear of it, from where it began."""
    send(jobs.cluster.namesrv, jobs.topic, 50)
    with monkeypatch.context() as patch:
        write = Batches.write
        patch.setattr(Batches, "write", lambda self, frame, number: _stop(write(self, frame, number)))
        with pytest.raises(Exception, match="Stopped"):
            jobs.archive(starting="latest")
    assert jobs.tree().catalogue().last_batch is not None
    assert jobs.is_start_kept()
    send(jobs.cluster.namesrv, jobs.topic, 100, first=50)
    assert jobs.archive(starting="latest")["rows"] == 100
    assert not jobs.is_start_kept()
    send(jobs.cluster.namesrv, jobs.topic, 20, first=150)
    assert jobs.archive(starting="latest")["rows"] == 20
    assert len(jobs.rows()) == 120
    assert set(jobs.rows()) < set(stored_rows(read))


def test_who_stood_still_while_its_beginning_was_dropped_is_told(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began at latest: what came since would be passed over."""
    send(jobs.cluster.namesrv, jobs.topic, 50)
    with monkeypatch.context() as patch:
        patch.setattr(Batches, "write", _stop)
        with pytest.raises(Exception, match="Stopped"):
            jobs.archive(starting="latest")
    with pipeline_calls(jobs.cluster.namesrv) as calls:
        calls.drop_query_offsets(f"archive-{jobs.tree().identity()}")
    send(jobs.cluster.namesrv, jobs.topic, 10, first=60)
    with pytest.raises(ArchiveStartLost, match="--starting"):
        jobs.archive(starting="latest")


def test_an_archive_that_goes_on_drops_where_it_began(jobs: Jobs) -> None:
    send(jobs.cluster.namesrv, jobs.topic, 10)
    deadline_ms = monotonic_ms() + 90_000

    def until_dropped(progress: JobProgress) -> None:
        if (progress.rows == 10 and not jobs.is_start_kept()) or monotonic_ms() > deadline_ms:
            raise KeyboardInterrupt

    options = jobs.archive_options(continuous=True, trigger_seconds=0.1)
    assert archive.run(options, lambda: jobs.spark, until_dropped)["rows"] == 10
    assert monotonic_ms() <= deadline_ms, "it was dropped while the job ran"


def test_a_start_that_cannot_be_dropped_stops_nothing_and_is_dropped_by_the_next_run(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"archive-{secrets.token_hex(5)}"

    def refuse(_self: PipelineCalls, query: str) -> None:
        raise NoRoute(query, "no broker leads at present")

    with pipeline_calls(cluster.namesrv) as calls:
        calls.keep_query_offsets(name, "{}")
        start = KeptStart(name, str(tmp_path), cluster.namesrv)
        start.drop_once_done()
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / ".0.tmp").touch()
        start.drop_once_done()
        assert calls.query_offsets(name) == "{}", "Spark has no batch done"
        (tmp_path / "commits" / "0").touch()
        with monkeypatch.context() as patch:
            patch.setattr(PipelineCalls, "drop_query_offsets", refuse)
            start.drop_once_done()
        assert "of where an archive began stays until its next run" in caplog.text
        KeptStart(name, str(tmp_path), cluster.namesrv).drop_once_done()
        assert calls.query_offsets(name) is None
        KeptStart(name, str(tmp_path), cluster.namesrv).drop_once_done()


def test_a_killed_archive_goes_on_where_it_was(jobs: Jobs, read: Read) -> None:
    """kill -9 of the command while it archives batch after batch."""
    send(jobs.cluster.namesrv, jobs.topic, 200)
    command = [
        str(REAL / "zenit"),
        "job",
        "run",
        "archive",
        "--topics",
        jobs.topic,
        "--target",
        jobs.target,
        "--master",
        "local[2]",
    ]
    command += ["--namesrv", jobs.cluster.namesrv, "--continuous", "--trigger-seconds", "0.1", "--batch-rows", "40"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline_ms = monotonic_ms() + 90_000
        manifests = Path(jobs.target, "_manifest")
        while not list(manifests.glob("batch-2.json")) and process.poll() is None and monotonic_ms() < deadline_ms:
            sleep_ms(20)
        with pytest.raises(TargetInUse, match=f"process {process.pid}"):
            jobs.archive()
        assert jobs.verify()["passed"], "a running archive is whole for those who read by its manifests"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    send(jobs.cluster.namesrv, jobs.topic, 30, first=200)
    jobs.archive()
    assert jobs.rows() == stored_rows(read)
    assert jobs.verify()["passed"]


def test_what_is_wrong_with_an_archive_is_found(jobs: Jobs) -> None:
    send(jobs.cluster.namesrv, jobs.topic, 80)
    jobs.archive()
    send(jobs.cluster.namesrv, jobs.topic, 40, first=80)
    jobs.archive()
    send(jobs.cluster.namesrv, jobs.topic, 7, first=120)
    good = jobs.verify()
    assert (good["passed"], good["rows"], good["rows_behind"]) == (True, 120, 7)
    listed = jobs.tree().listed()
    first, last = listed[0], listed[-1]
    kept = Path(jobs.tree().place(first)).read_bytes()

    Path(jobs.tree().place(first)).write_bytes(kept[:40] + bytes([kept[40] ^ 1]) + kept[41:])
    assert first in [each["path"] for each in jobs.verify(quick=True)["file_findings"]]
    Path(jobs.tree().place(first)).unlink()
    missing = jobs.verify(quick=True)
    assert {"path": first, "problem": "it is missing"} in missing["file_findings"]
    assert not missing["passed"]
    Path(jobs.tree().place(first)).write_bytes(kept)

    shutil.copy(jobs.tree().place(last), jobs.tree().place(last).replace("batch-", "batch-7"))
    unlisted = jobs.verify(quick=True)
    assert [each["problem"] for each in unlisted["file_findings"]] == ["no manifest lists it"]


def test_rows_that_are_not_the_broker_s_are_found(jobs: Jobs, topic: str, cluster: LocalCluster) -> None:
    """An archive of one topic, held against another that has as many messages, of other bodies."""
    other = cluster.create_topic(f"{topic}-other")
    send(cluster.namesrv, topic, 64)
    send(cluster.namesrv, other, 64, first=1000)
    jobs.archive()
    root = Path(jobs.target)
    (root / f"topic={topic}").rename(root / f"topic={other}")
    for manifest in (root / "_manifest").iterdir():
        manifest.write_text(manifest.read_text().replace(f"topic={topic}/", f"topic={other}/"))
    found = jobs.verify()
    assert (found["passed"], found["differing_rows"], found["gap_rows"]) == (False, 64, 0)
    assert jobs.verify(quick=True)["passed"], "offsets alone do not tell"


def never() -> SparkSession:
    raise AssertionError("Spark is not needed to tell")


def test_what_cannot_be_is_told_before_spark_starts(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = jobs.archive_options(target=str(tmp_path / "file" / "x"))
    with pytest.raises(ArchiveNotWritable):
        archive.run(options, never, silent)
    with jobs_locked(jobs), pytest.raises(TargetInUse):
        archive.run(jobs.archive_options(), never, silent)
    with pytest.raises(TopicNotFound):
        archive.plan(jobs.archive_options(topics=("no-such-topic",)), never)


def jobs_locked(jobs: Jobs) -> Any:
    jobs.tree().create()
    return jobs.tree().locked()


def test_an_archive_without_its_checkpoint_is_not_written_twice(jobs: Jobs) -> None:
    send(jobs.cluster.namesrv, jobs.topic, 20)
    jobs.archive()
    shutil.move(os.path.join(jobs.target, "_checkpoint"), os.path.join(jobs.target, "..", "elsewhere"))
    with pytest.raises(CheckpointLost, match="its _checkpoint is missing"):
        archive.run(jobs.archive_options(), never, silent)


def set_back(jobs: Jobs, kept: str) -> None:
    """The checkpoint as it was when `kept` was copied."""
    shutil.rmtree(jobs.tree().checkpoint)
    shutil.copytree(kept, jobs.tree().checkpoint)


def test_an_archive_whose_checkpoint_was_set_back_is_not_written(jobs: Jobs, read: Read, tmp_path: Path) -> None:
    """By one batch or by more: a batch of a number that is there would have other rows now."""
    kept = [str(tmp_path / f"kept-{number}") for number in range(3)]
    for number in range(3):
        send(jobs.cluster.namesrv, jobs.topic, 40, first=40 * number)
        jobs.archive()
        shutil.copytree(jobs.tree().checkpoint, kept[number])
    send(jobs.cluster.namesrv, jobs.topic, 40, first=120)
    for number in (1, 0):
        set_back(jobs, kept[number])
        with pytest.raises(Exception, match="older than the rows"):
            jobs.archive()
        assert jobs.verify()["passed"]
    set_back(jobs, kept[2])
    assert jobs.archive()["rows"] == 40
    assert jobs.rows() == stored_rows(read)


def test_a_compaction_takes_no_file_from_under_a_job_that_reads(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        send(jobs.cluster.namesrv, jobs.topic, 20, first=20 * number)
        jobs.archive()
    refused: list[str] = []
    checked = verify._checked

    def compact_meanwhile(*arguments: Any) -> Any:
        with pytest.raises(TargetInUse) as error:
            jobs.compact()
        refused.append(str(error.value))
        return checked(*arguments)

    monkeypatch.setattr(verify, "_checked", compact_meanwhile)
    assert jobs.verify()["passed"]
    assert len(refused) == 1
    monkeypatch.undo()
    assert jobs.compact()["files_before"] > 1
    assert jobs.verify()["passed"]


def test_the_command_tells_in_json_and_by_its_exit_code(jobs: Jobs, tmp_path: Path) -> None:
    def zenit(*arguments: str, status: int) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([ZENIT, "job", *arguments], capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == status, f"{arguments}: {done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    assert "archive" in zenit("list", status=0).stdout
    assert "--target-file-mb N" in zenit("run", "archive", "--help", status=0).stdout
    assert "zenit job list" in zenit("run", status=2).stderr
    assert "archive?" in zenit("run", "archiv", status=2).stderr
    wrong = zenit("run", "archive", "--topic", "x", "--target", "/x", status=2).stderr
    assert "--topic" in wrong
    assert wrong.count("\n") == 1
    send(jobs.cluster.namesrv, jobs.topic, 30)
    shared = ("--topics", jobs.topic, "--namesrv", jobs.cluster.namesrv, "--json")
    planned = json.loads(zenit("run", "archive", "--dry-run", "--target", jobs.target, *shared, status=0).stdout)
    assert (planned["job"], planned["dry_run"], planned["rows"]) == ("archive", True, 30)
    (tmp_path / "file").touch()
    refused = zenit("run", "archive", "--target", str(tmp_path / "file"), *shared, status=1)
    assert refused.stderr.startswith(f"zenit: cannot write the archive {tmp_path}/file")
    assert refused.stderr.count("\n") == 1
    jobs.archive()
    os.unlink(jobs.tree().place(jobs.tree().listed()[0]))
    found = zenit("run", "verify", "--target", jobs.target, "--quick", "--master", "local[1]", *shared[2:], status=1)
    document = json.loads(found.stdout)
    assert (document["job"], document["passed"], document["damaged_files"]) == ("verify", False, 1)
    assert found.stderr == ""
