"""`zenit debug bundle` of a secured cluster: what is needed is in it, and no secret."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest
from zenit_kit import run_zenit

from zenitmq import Message, Producer
from zenitmq.deploy.cluster_plan import SECRETS_KEY_FILE
from zenitmq.remoting.security.key_file import read_key_file
from zenitmq.testing import LocalCluster


def test_a_secured_clusters_bundle_holds_no_key_and_no_message(tmp_path: Path) -> None:
    with LocalCluster(secure=True) as cluster:
        topic = cluster.create_topic("orders")
        with Producer(namesrv=cluster.namesrv) as producer:
            producer.send(Message(topic, b"nobody-reads-this"))
        path = tmp_path / "fault.tar.gz"
        arguments = (str(path), "--namesrv", cluster.namesrv)
        (tmp_path / ".zenit").mkdir()
        (tmp_path / ".zenit" / "last").write_text(cluster.directory)  # as `zenit up` notes it
        environment = {"ZENIT_KEY": cluster.key()}
        done = run_zenit("debug", "bundle", *arguments, home=tmp_path, environment=environment)
        assert (done.returncode, done.stdout) == (0, f"{path}\n")
        assert path.stat().st_mode & 0o777 == 0o600
        again = run_zenit("debug", "bundle", *arguments, home=tmp_path, environment=environment)
        assert (again.returncode, "one that is not there yet" in again.stderr) == (2, True)
        with tarfile.open(path) as archive:
            parts = {
                member.name.removeprefix("fault/"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
                for member in archive
            }
        secrets = [read_key_file(str(file)).pair.secret for file in Path(cluster.directory).rglob("*.key")]
        secrets.append((Path(cluster.directory) / "keys" / SECRETS_KEY_FILE).read_text().strip())
    assert len(secrets) >= 3
    for text in parts.values():
        assert not [secret for secret in secrets if secret in text]
        assert "nobody-reads-this" not in text
    wanted = {"README.txt", "doctor.txt", "doctor.json", "versions.json", "cluster.json", "events.json", "topics.json"}
    assert wanted | {"groups.json", "logs/broker-a.log", "logs/namesrv-1.log"} <= parts.keys()
    assert "failed.json" not in parts
    assert json.loads(parts["brokers/broker-a.config.json"])["name"] == "broker-a"


@pytest.mark.parametrize("where", ["missing/x.tar.gz", "."])
def test_a_place_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    done = run_zenit("debug", "bundle", str(tmp_path / where), "--namesrv", "127.0.0.1:9", home=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) <= 2
    assert os.listdir(tmp_path) == [] or where == "."


def test_a_cluster_that_is_down_still_gives_a_bundle(tmp_path: Path) -> None:
    path = tmp_path / "down.tar.gz"
    done = run_zenit("debug", "bundle", str(path), "--namesrv", "127.0.0.1:9", home=tmp_path)
    assert done.returncode == 0
    with tarfile.open(path) as archive:
        failed = archive.extractfile("down/failed.json")
        assert failed is not None
        assert "cannot reach 127.0.0.1:9" in json.loads(failed.read())["cluster.json"]
