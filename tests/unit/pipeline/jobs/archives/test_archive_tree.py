"""An archive's directory: a commit is there whole or not at all, wherever its writer ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zenitmq.model.errors import ArchiveDamaged, ArchiveNotWritable, ConfigError, NoArchive, TargetInUse
from zenitmq.pipeline.jobs.archives import archive_tree
from zenitmq.pipeline.jobs.archives.archive_tree import ArchiveTree, StagedFile, local_path
from zenitmq.pipeline.jobs.archives.manifest import ArchivedFile, FileRange

DATE = "2026-11-21"


@pytest.fixture
def tree(tmp_path: Path) -> ArchiveTree:
    made = ArchiveTree(str(tmp_path / "archive"))
    made.create()
    made.identify()
    return made


def staged(directory: str, begin: int, *, topic: str = "orders") -> StagedFile:
    """A file of ten rows from `begin` on."""
    path = os.path.join(directory, f"{topic}-{begin}.part")
    Path(path).write_bytes(b"%d" % begin)
    return StagedFile(path, topic, DATE, ArchivedFile("", 10, 1, 7, 1, 2, (FileRange("a", 0, begin, begin + 10),)))


def write_batch(tree: ArchiveTree, number: int) -> None:
    """What one batch of an archive does: two files, one of them of a topic with an odd name."""
    if tree.read_commit(f"batch-{number}") is not None:
        return
    directory = tree.staging(f"batch-{number}")
    files = [staged(directory, 10 * number), staged(directory, 10 * number, topic="%RETRY%g")]
    Path(directory, "of-an-attempt-that-failed.part").touch()
    tree.commit(f"batch-{number}", files, query="q")


def compact(tree: ArchiveTree) -> None:
    """Merges what there is of the topic orders."""
    catalogue = tree.catalogue()
    files = [file for file in catalogue.files if file.topic == "orders" and file.name.startswith("batch")]
    if files:
        name = f"compact-{catalogue.next_compaction}"
        path = os.path.join(tree.staging(name), "merged.part")
        Path(path).touch()
        ranges = tuple(each for file in files for each in file.ranges)
        merged = ArchivedFile("", 10 * len(files), 0, 0, 1, 2, ranges)
        tree.commit(name, [StagedFile(path, "orders", DATE, merged)], replaces=[file.path for file in files])
    tree.forget(tree.catalogue().spent())


def names(tree: ArchiveTree) -> list[str]:
    return [path.split("/")[0] + "/" + path.rsplit("/", 1)[1] for path in tree.listed()]


def test_a_batch_is_committed_under_its_own_names(tree: ArchiveTree) -> None:
    write_batch(tree, 0)
    assert tree.listed() == [
        f"topic=%25RETRY%25g/dt={DATE}/batch-0-0.parquet",
        f"topic=orders/dt={DATE}/batch-0-1.parquet",
    ]
    assert [file.path for file in tree.settled().files] == tree.listed()
    assert Path(tree.place(tree.listed()[1])).read_bytes() == b"0"
    assert os.listdir(os.path.join(tree.root, "_staging")) == []
    assert tree.read_commit("batch-1") is None


class Stopped(BaseException):
    """The process ends here."""


@pytest.fixture
def stop_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """A function after which the so-many-th change to the disk, counted from 0, does not happen, nor do those after it."""

    def arm(number: int) -> list[str]:
        done: list[str] = []
        for name in ("rename", "unlink", "mkdir", "fsync", "rmdir"):

            def operation(*arguments: Any, real: Any, name: str = name, **options: Any) -> Any:
                if len(done) >= number:
                    raise Stopped
                done.append(name)
                return real(*arguments, **options)

            monkeypatch.setattr(os, name, partial(operation, real=getattr(os, name)))
        return done

    return arm


def histories() -> Iterator[tuple[str, Callable[[ArchiveTree], None]]]:
    yield "batch", lambda tree: write_batch(tree, 2)
    yield "compact", compact


@pytest.mark.parametrize(("name", "work"), list(histories()), ids=lambda value: value if isinstance(value, str) else "")
def test_wherever_the_writer_ends_a_commit_is_there_or_not(
    name: str,
    work: Callable[[ArchiveTree], None],
    tree: ArchiveTree,
    tmp_path: Path,
    stop_before: Callable[[int], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_batch(tree, 0)
    write_batch(tree, 1)
    before = tree.catalogue().spans()
    seen = set()
    for number in range(100):
        copy = ArchiveTree(str(tmp_path / f"{name}-{number}"))
        os.makedirs(copy.root)
        _copy(tree.root, copy.root)
        stop_before(number)
        try:
            work(copy)
            ended = True
        except Stopped:
            ended = False
        monkeypatch.undo()
        at_once = copy.catalogue()
        listed_at_once = set(copy.listed())
        committed = {file.path for commit in at_once.commits for file in commit.files}
        assert listed_at_once <= committed, "who lists the directories sees committed files only"
        after = copy.settled()
        assert after == at_once, "putting files in their places changes nothing of what is committed"
        assert copy.listed() == sorted(file.path for file in after.files)
        assert after.spans() in (before, _all(tree, name))
        seen.add(after.spans() == before and len(after.commits) == 2)
        with copy.locked():
            copy.recover()
            work(copy)
        assert copy.catalogue().spans() == _all(tree, name)
        assert copy.listed() == sorted(file.path for file in copy.catalogue().files)
        assert os.listdir(os.path.join(copy.root, "_staging")) == []
        if ended:
            assert number > 8
            assert seen == {True, False}
            return
    pytest.fail("it never ended")


def _all(tree: ArchiveTree, name: str) -> dict[Any, Any]:
    spans = {key: list(ranges) for key, ranges in tree.catalogue().spans().items()}
    if name == "batch":
        for ranges in spans.values():
            ranges.append((20, 30))
    return spans


def _copy(source: str, target: str) -> None:
    import shutil

    shutil.copytree(source, target, dirs_exist_ok=True)


def test_one_job_at_a_time(tree: ArchiveTree) -> None:
    with tree.locked(), pytest.raises(TargetInUse, match=f"process {os.getpid()} of "), ArchiveTree(tree.root).locked():
        pass
    with tree.locked():
        pass


def test_files_that_were_moved_before_a_crash_have_their_names_on_the_disk_before_the_staging_goes(
    tree: ArchiveTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died between the last rename and the first sync."""
    synced: list[str] = []
    staging = os.path.join(tree.root, "_staging")

    def sync(path: str) -> None:
        if not path.startswith(staging):
            if not synced:
                synced.append("died")
                raise Stopped
            assert os.listdir(staging) == ["batch-0"]
            synced.append(path)

    monkeypatch.setattr(archive_tree, "sync_directory", sync)
    with pytest.raises(Stopped):
        write_batch(tree, 0)
    assert len(tree.listed()) == 2
    tree.recover()
    directories = {os.path.dirname(tree.place(path)) for path in tree.listed()}
    assert directories <= set(synced)


def test_no_file_goes_away_under_a_reader(tree: ArchiveTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several may read; a compaction waits for none of them, nor they for longer than half a minute for one."""
    other = ArchiveTree(tree.root)
    with tree.reading(), other.reading(), pytest.raises(TargetInUse), ArchiveTree(tree.root).unread():
        pass
    compaction = tree.unread()
    compaction.__enter__()
    monkeypatch.setattr(archive_tree, "sleep_ms", lambda _duration_ms: compaction.__exit__(None, None, None))
    with other.reading():
        pass
    now = iter(range(0, 10 * archive_tree.SETTLE_WAIT_MS, 10_000))
    monkeypatch.setattr(archive_tree, "monotonic_ms", lambda: next(now))
    monkeypatch.setattr(archive_tree, "sleep_ms", lambda _duration_ms: None)
    with tree.unread(), pytest.raises(TargetInUse, match=f"process {os.getpid()}"), other.reading():
        pass


def test_an_archive_that_cannot_be_written_is_read(tree: ArchiveTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with tree.reading():
        assert "_readers" not in os.listdir(tree.root)


def test_a_reader_waits_for_a_writer_that_settles(tree: ArchiveTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer has committed, but not moved its files yet; then it does."""
    with monkeypatch.context() as patch:
        patch.setattr(ArchiveTree, "_settle", lambda _self, _commit: None)
        write_batch(tree, 0)
    writer = tree.locked()
    writer.__enter__()

    def settle(_duration_ms: float) -> None:
        tree.recover()
        writer.__exit__(None, None, None)

    monkeypatch.setattr(archive_tree, "sleep_ms", settle)
    assert [file.path for file in tree.settled().files] == tree.listed()


def test_a_writer_that_never_settles_is_told_of(tree: ArchiveTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArchiveTree, "_settle", lambda _self, _commit: None)
    write_batch(tree, 0)
    now = iter(range(0, 10 * archive_tree.SETTLE_WAIT_MS, 10_000))
    monkeypatch.setattr(archive_tree, "monotonic_ms", lambda: next(now))
    monkeypatch.setattr(archive_tree, "sleep_ms", lambda _duration_ms: None)
    with tree.locked(), pytest.raises(TargetInUse):
        ArchiveTree(tree.root).settled()


def test_a_catalogue_that_changed_while_it_was_read_is_read_again(
    tree: ArchiveTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_batch(tree, number)
    real, first = ArchiveTree.read_commit, [True]

    def read(self: ArchiveTree, name: str) -> Any:
        if first.pop() if first else False:
            compact(tree)
        return real(self, name)

    monkeypatch.setattr(ArchiveTree, "read_commit", read)
    catalogue = ArchiveTree(tree.root).catalogue()
    assert catalogue.rows == 60
    assert {commit.name for commit in catalogue.commits} >= {"compact-0"}


def test_a_directory_that_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match="zenit job run archive"):
        ArchiveTree(str(tmp_path)).catalogue()
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ArchiveNotWritable, match=r"holds thesis\.txt"):
        ArchiveTree(str(tmp_path)).create()
    with pytest.raises(ArchiveNotWritable, match="Not a directory"):
        ArchiveTree(str(tmp_path / "thesis.txt")).create()
    with pytest.raises(ArchiveNotWritable), ArchiveTree(str(tmp_path / "nowhere")).locked():
        pass


def test_manifests_that_are_not_ours(tree: ArchiveTree) -> None:
    write_batch(tree, 0)
    manifests = Path(tree.root, "_manifest")
    (manifests / "batch-1.json").write_bytes((manifests / "batch-0.json").read_bytes())
    with pytest.raises(ArchiveDamaged, match="it is of batch-0"):
        tree.catalogue()
    (manifests / "batch-1.json").write_text("{")
    with pytest.raises(ArchiveDamaged, match="no JSON"):
        tree.catalogue()


@pytest.mark.parametrize(
    ("text", "path"), [("/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("file:/a/b", "/a/b"), ("/a/../b", "/b")]
)
def test_paths_of_this_machine(text: str, path: str) -> None:
    assert local_path("target", text) == path


@pytest.mark.parametrize("text", ["s3://bucket/x", "hdfs://host/x", "file://"])
def test_other_file_systems_are_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="target"):
        local_path("target", text)
