"""What an archive says of itself, and that nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zenitmq.model.errors import ArchiveDamaged
from zenitmq.pipeline.jobs.archives import manifest
from zenitmq.pipeline.jobs.archives.manifest import (
    ArchivedFile,
    Catalogue,
    Commit,
    FileRange,
    decode_commit,
    decode_identity,
    directory_of,
    encode_commit,
    encode_identity,
    is_file_path,
)
from zenitmq.pipeline.reading.offsets import QueueKey


def archived(path: str, *ranges: FileRange, size_bytes: int = 10) -> ArchivedFile:
    rows = sum(each.end - each.begin for each in ranges)
    return ArchivedFile(path, rows, size_bytes, 7, 1000, 2000, ranges)


FIRST = archived("topic=orders/dt=2026-11-21/batch-0-0.parquet", FileRange("a", 0, 0, 5), FileRange("a", 1, 3, 4))
SECOND = archived("topic=%25RETRY%25g/dt=2026-11-22/batch-1-0.parquet", FileRange("b", 0, 5, 9))
MERGED = archived("topic=orders/dt=2026-11-21/compact-0-0.parquet", FileRange("a", 0, 0, 5), FileRange("a", 1, 3, 4))
BATCHES = (Commit("batch-0", (FIRST,), "q"), Commit("batch-1", (SECOND,), "q"))


def test_a_commit_comes_back_from_its_bytes() -> None:
    for commit in (*BATCHES, Commit("compact-3", (MERGED,), "", (FIRST.path,))):
        assert decode_commit(encode_commit(commit), "x") == commit
    assert decode_identity(encode_identity("0" * 32), "x") == "0" * 32


def test_a_path_tells_topic_and_date() -> None:
    assert (FIRST.topic, FIRST.date, FIRST.name) == ("orders", "2026-11-21", "batch-0-0.parquet")
    assert SECOND.topic == "%RETRY%g"
    assert directory_of("%RETRY%g|1", "2026-11-22") == "topic=%25RETRY%25g%7C1/dt=2026-11-22"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "topic=a/../x.parquet", "topic=a/dt=2026-11-21/x.parquet", "topic=a/b"]
)
def test_a_path_that_is_not_ours(path: str) -> None:
    assert not is_file_path(path)


def test_a_catalogue_has_the_files_of_all_commits_but_those_replaced() -> None:
    before = Catalogue.of(BATCHES, "x")
    assert before.files == (SECOND, FIRST)
    assert before.rows == 10
    assert before.spans() == {
        QueueKey("orders", "a", 0): [(0, 5)],
        QueueKey("orders", "a", 1): [(3, 4)],
        QueueKey("%RETRY%g", "b", 0): [(5, 9)],
    }
    assert before.spent() == []
    assert (before.last_batch, before.next_compaction) == (BATCHES[1], 0)
    after = Catalogue.of([*BATCHES, Commit("compact-0", (MERGED,), "", (FIRST.path,))], "x")
    assert after.files == (SECOND, MERGED)
    assert after.spans() == before.spans()
    assert after.spent() == ["batch-0"]
    assert after.next_compaction == 1


def test_the_last_batch_stays_though_it_was_merged() -> None:
    """It tells with which checkpoint the archive goes on."""
    catalogue = Catalogue.of([BATCHES[0], Commit("compact-0", (MERGED,), "", (FIRST.path,))], "x")
    assert catalogue.spent() == []
    assert catalogue.last_batch == BATCHES[0]
    assert Catalogue.of([], "x").last_batch is None


def test_a_compaction_stays_while_what_it_replaced_is_listed() -> None:
    """Compacted twice with no batch between: the last batch still lists a file that the first compaction replaced."""
    again = archived("topic=orders/dt=2026-11-21/compact-1-0.parquet", *MERGED.ranges)
    third = archived("topic=orders/dt=2026-11-21/compact-2-0.parquet", *MERGED.ranges)
    commits = [
        BATCHES[0],
        Commit("compact-0", (MERGED,), "", (FIRST.path,)),
        Commit("compact-1", (again,), "", (MERGED.path,)),
        Commit("compact-2", (third,), "", (again.path,)),
    ]
    catalogue = Catalogue.of(commits, "x")
    assert catalogue.files == (third,)
    assert catalogue.spent() == [], "each hides what the one before it wrote"
    later = Catalogue.of([*commits, BATCHES[1]], "x")
    assert later.spent() == ["batch-0", "compact-0", "compact-1"]
    for count in range(1, 4):  # a kill between two deletions
        rest = [commit for commit in later.commits if commit.name not in later.spent()[:count]]
        assert Catalogue.of(rest, "x").files == later.files


def test_commits_are_forgotten_by_number_not_by_name() -> None:
    files = [archived(f"topic=orders/dt=2026-11-21/compact-{n}-0.parquet", *MERGED.ranges) for n in range(9, 12)]
    replaced = [FIRST.path, *(file.path for file in files)]
    merges = [
        Commit(f"compact-{number}", (file,), "", (path,))
        for number, file, path in zip(range(9, 12), files, replaced, strict=False)
    ]
    assert Catalogue.of([*BATCHES, *merges], "x").spent() == ["batch-0", "compact-9", "compact-10"]


def test_the_last_batch_is_that_of_the_highest_number() -> None:
    commits = [Commit("batch-9", (FIRST,), "q"), Commit("batch-10", (SECOND,), "q")]
    last = Catalogue.of(commits, "x").last_batch
    assert last is not None
    assert last.batch == 10


def test_a_file_is_listed_once() -> None:
    with pytest.raises(ArchiveDamaged, match="listed twice"):
        Catalogue.of([BATCHES[0], Commit("batch-1", (FIRST,), "q")], "x")


def document(**changes: Any) -> dict[str, Any]:
    return json.loads(encode_commit(BATCHES[0])) | changes


def file_document(**changes: Any) -> dict[str, Any]:
    (file,) = document()["files"]
    return document(files=[file | changes])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON object"),
        (document(version=2), "version 2"),
        (document(name="../x"), "name"),
        (document(name=7), "name is no text"),
        (document(name="x" * 5000), "name is no text"),
        (document(files=None), "files is no list"),
        (document(files=[7]), "no path"),
        (document(replaces=["/etc/passwd"]), "replaces"),
        (document(replaces=[7]), "replaces"),
        (file_document(path="/etc/passwd"), "path"),
        (file_document(rows=7), "ranges of others"),
        (file_document(rows=-1), "rows -1"),
        (file_document(rows=True), "rows True"),
        (file_document(crc32=1 << 32), "crc32"),
        (file_document(ranges=[["a", 0, 0, 5, 6]]), "range"),
        (file_document(ranges=[["", 0, 0, 5]]), "range"),
        (file_document(ranges=[[7, 0, 0, 5]]), "range"),
        (file_document(ranges=[["a", 0, 5, 5]]), "range"),
        (file_document(ranges=[["a", -1, 0, 5]]), "range"),
        (file_document(ranges=[["a", 0, 0.5, 5]]), "range"),
        (file_document(ranges=["a"]), "range"),
    ],
)
def test_what_is_no_commit_is_refused(data: Any, reason: str) -> None:
    encoded = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(ArchiveDamaged, match=reason) as refused:
        decode_commit(encoded, "the/path")
    assert refused.value.path == "the/path"


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "DOCUMENT_BYTES_MAX", 10)
    with pytest.raises(ArchiveDamaged, match="at most 10"):
        decode_commit(encode_commit(BATCHES[0]), "x")


def test_an_identity_is_32_digits() -> None:
    with pytest.raises(ArchiveDamaged, match="archive"):
        decode_identity(b'{"version": 1, "archive": "x"}', "x")
