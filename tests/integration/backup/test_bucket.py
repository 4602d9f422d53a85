"""Backups in a bucket, at a server that speaks S3's protocol: as in a directory, and what only a bucket refuses."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backup_kit import GROUP, FailingTarget, Killed, back_up, backup_of, bodies_of, grow, restored
from obstore.exceptions import GenericError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs
    import boto3
    from moto.server import ThreadedMotoServer

from zenitmq.deploy.backup.bucket_target import BucketTarget
from zenitmq.deploy.backup.manifest import MANIFEST
from zenitmq.deploy.backup.target_choice import open_target
from zenitmq.deploy.backup.verify import find_damage, read_manifest_of
from zenitmq.model.errors import BackupConflict, BackupDamaged, BackupTargetFailed, InvalidParameter

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
KEYS = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="backups")
    yield address
    server.stop()


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest) -> BucketTarget:
    return BucketTarget(f"s3://backups/{request.node.name}", {"endpoint": endpoint, **KEYS})


def test_what_was_backed_up_comes_back(tmp_path: Path, bucket: BucketTarget) -> None:
    store = tmp_path / "store"
    grow(store, 14)
    back_up(store, bucket)
    bodies = grow(store, 14, first=14)
    back_up(store, bucket)
    assert not find_damage(bucket, f"{GROUP}/", read_manifest_of(bucket, GROUP))
    restored(bucket, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == bodies


def test_a_large_object_goes_up_in_parts_and_is_read_in_ranges(bucket: BucketTarget) -> None:
    parts = [bytes([n]) * (7 << 20) for n in range(5)]
    bucket.put("a/large", iter(parts))
    assert bucket.get("a/large", (7 << 20) - 1, (7 << 20) + 1) == b"\x00\x01"
    assert [(each.name, each.size_bytes) for each in bucket.list("a/")] == [("a/large", 35 << 20)]
    bucket.delete("a/large")
    bucket.delete("a/large")
    assert bucket.list("a/") == []


def test_an_upload_that_breaks_off_leaves_no_object(bucket: BucketTarget) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(20 << 20)
        raise Killed

    with pytest.raises(Killed):
        bucket.put("log/broken", broken())
    assert bucket.list("log/") == []


def test_the_manifest_has_one_writer(bucket: BucketTarget) -> None:
    assert bucket.read(MANIFEST) is None
    first = bucket.replace(MANIFEST, b"one", None)
    assert bucket.replace(MANIFEST, b"one", None) == first  # a reply that was lost: ours is there
    with pytest.raises(BackupConflict):
        bucket.replace(MANIFEST, b"other", None)
    second = bucket.replace(MANIFEST, b"two", first)
    assert bucket.read(MANIFEST) == (b"two", second)
    with pytest.raises(BackupConflict):
        bucket.replace(MANIFEST, b"three", first)


def test_a_second_writer_is_refused(tmp_path: Path, bucket: BucketTarget) -> None:
    store = tmp_path / "store"
    grow(store, 14)
    backup = backup_of(store, bucket)
    backup.run(with_tail=True)
    grow(store, 5, first=14)
    back_up(store, bucket)
    grow(store, 5, first=19)
    with pytest.raises(BackupConflict, match="another process writes this backup"):
        backup.run(with_tail=True)


def test_a_kill_at_each_call(tmp_path: Path, bucket: BucketTarget) -> None:
    store = tmp_path / "store"
    bodies = grow(store, 14)
    failing = FailingTarget(bucket, Killed)
    for at in range(100):
        failing.at, failing.calls = at, []
        try:
            backup_of(store, failing).run(with_tail=True)
            break
        except Killed:
            if bucket.read(f"{GROUP}/{MANIFEST}") is not None:
                assert not find_damage(bucket, f"{GROUP}/", read_manifest_of(bucket, GROUP))
    restored(bucket, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == bodies


def test_what_is_missing_or_short_is_damage(bucket: BucketTarget) -> None:
    with pytest.raises(BackupDamaged, match="log/none is missing"):
        bucket.get("log/none", 0, 10)
    bucket.put("log/short", iter([b"abc"]))
    for begin, end in ((0, 10), (3, 10), (8, 10)):
        with pytest.raises(BackupDamaged, match="log/short ends"):
            bucket.get("log/short", begin, end)
    bucket.put("log/empty", iter([]))
    with pytest.raises(BackupDamaged, match="log/empty ends"):
        bucket.get("log/empty", 0, 10)


@pytest.mark.parametrize(
    "work",
    [
        lambda target: target.put("log/a", iter([b"x"])),
        lambda target: target.list("log/"),
        lambda target: target.read(MANIFEST),
        lambda target: target.replace(MANIFEST, b"x", None),
    ],
    ids=["put", "list", "read", "replace"],
)
def test_a_bucket_that_is_not_there(endpoint: str, work: Any) -> None:
    target = BucketTarget("s3://nobodys", {"endpoint": endpoint, **KEYS})
    with pytest.raises(BackupTargetFailed, match="s3://nobodys: there is no such bucket"):
        work(target)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (" - Server returned error: 503: <Code>SlowDown</Code>", "bucket: SlowDown; the service is busy, .* later"),
        (" - HTTP error: error sending request", "bucket: HTTP error: error sending request; check its address"),
    ],
)
def test_what_the_service_said_is_told_without_addresses(
    monkeypatch: pytest.MonkeyPatch, bucket: BucketTarget, said: str, told: str
) -> None:
    where = (
        "Generic S3 error: Error performing GET http://h/backups/a?partNumber=1&uploadId=xci4 in 1 ms, after 8 retries"
    )
    error = GenericError(where + said)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("obstore.get", fail)
    monkeypatch.setattr(bucket, "_name", "bucket")
    with pytest.raises(BackupTargetFailed, match=told):
        bucket.read(MANIFEST)


def test_an_address_that_is_none() -> None:
    with pytest.raises(InvalidParameter, match="a bucket's address"):
        open_target("s4://nothing/here")
    with pytest.raises(InvalidParameter, match="is a directory"):
        open_target("/tmp", {"region": "x"})
