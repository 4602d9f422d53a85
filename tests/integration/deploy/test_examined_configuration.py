"""`zenit doctor --config`: it says beforehand what would keep a server from starting, or from being let in."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from zenitmq.deploy.doctor.here import examine_configuration
from zenitmq.deploy.machine_files import Machines, write_machine_files
from zenitmq.model.examination.finding import Severity


@pytest.fixture
def machines(tmp_path: Path) -> Path:
    hosts = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    write_machine_files(Machines(directory=str(tmp_path), hosts=hosts, zookeeper=("127.0.0.1:9",), is_here=True))
    return tmp_path


def problems(role: str, file: Path, *settings: str) -> list[str]:
    """Those that are not of other servers, which do not run."""
    found = examine_configuration(role, str(file), settings).findings
    return [f"{one.check}: {one.text}" for one in found if one.severity is Severity.PROBLEM and one.check != "reach"]


def test_a_port_is_tried_at_the_address_where_the_server_will_listen(machines: Path) -> None:
    """Another server of this machine may have the same port at another address."""
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        other.listen()
        port = other.getsockname()[1]
        ports = (f"port={port}", "publish_port=0", f"metrics.bind=127.0.0.1:{port}")
        assert problems("namesrv", machines / "127.0.0.1" / "namesrv.toml", *ports) == []
        ports = (f"port={port}", "publish_port=0", f"metrics.bind=127.0.0.2:{port}")
        assert problems("namesrv", machines / "127.0.0.2" / "namesrv.toml", *ports) == [
            f"port: 127.0.0.2:{port}: Address already in use",
            f"metrics.bind: 127.0.0.2:{port}: Address already in use",
        ]
        listens = (f"port={port}", "replication_port=0", "metrics.bind=", "host=192.0.2.1", "listen_host=127.0.0.1")
        assert problems("broker", machines / "127.0.0.1" / "broker-a-1.toml", *listens) == []


def test_an_address_of_another_machine_is_a_problem(machines: Path) -> None:
    elsewhere = ("host=192.0.2.1", "metrics.bind=")
    (found,) = problems("controller", machines / "127.0.0.1" / "controller.toml", *elsewhere)
    assert found == "port: 192.0.2.1:9878: Cannot assign requested address"


def test_the_key_of_another_server_is_a_problem(machines: Path) -> None:
    file, other = machines / "127.0.0.1" / "broker-a-1.toml", machines / "127.0.0.2" / "broker-a-2.key"
    (found,) = problems("broker", file, f"security.key={other}", "metrics.bind=")
    assert found.startswith(f"security.key: {other}")
    (found,) = problems("broker", file, f"security.key={machines / 'keys' / 'admin.key'}", "metrics.bind=")
    assert found.startswith("security.key: ")
    (found,) = problems("broker", file, f"security.trusted={machines / 'none.toml'}", "metrics.bind=")
    assert "none.toml" in found
