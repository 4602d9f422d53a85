"""docs/guide/rocketmq-clients.md: its programs run as they stand, but for the addresses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from classic_clients import has_java, java_folder
from classic_kit import running_front
from proxy_clients import python_client
from proxy_kit import running_proxy

from zenitmq.testing import LocalCluster

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "rocketmq-clients.md"
JAVA = "5.5.0"


def program(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def orders(cluster: LocalCluster) -> LocalCluster:
    cluster.create_topic("orders")
    return cluster


@pytest.mark.skipif(python_client() is None, reason="python tests/proxy_clients.py installs the client")
def test_the_python_program(orders: LocalCluster, tmp_path: Path) -> None:
    with running_proxy(orders.namesrv) as address:
        file = tmp_path / "orders.py"
        file.write_text(program("py").replace("127.0.0.1:8081", address))
        done = subprocess.run(
            [str(python_client()), str(file)], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "one order"


@pytest.mark.skipif(not has_java(JAVA), reason="python tests/classic_clients.py fetches the client")
def test_the_java_program(orders: LocalCluster, tmp_path: Path) -> None:
    with running_front(orders.namesrv) as front:
        file = tmp_path / "Orders.java"
        file.write_text(program("java").replace("127.0.0.1:8080", front.address))
        classes = f"{java_folder(JAVA) / 'lib'}/*"
        command = ["java", "-XX:TieredStopAtLevel=1", f"-Duser.home={tmp_path}", "-cp", classes, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line in ("SEND_OK", "one order")]
    assert lines[:2] == ["SEND_OK", "one order"]
