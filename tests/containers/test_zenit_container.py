"""`zenitmq.testing.containers`, as programs' tests use it."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from containers.engine import COMMAND_S, ROOT, run_docker
from integration.docs.pages import blocks
from testcontainers.core.exceptions import ContainerStartException

from zenitmq import FIRST, Message, Producer, PullConsumer
from zenitmq.model.errors import RequirementMissing
from zenitmq.testing.containers import ZenitContainer


def test_a_program_finds_it_by_published_ports_and_nothing_is_left(image: str) -> None:
    with ZenitContainer(image) as zenit:
        identity = zenit.get_container_id()
        zenit.create_topic("orders")
        with Producer(namesrv=zenit.namesrv) as producer:
            producer.send(Message("orders", b"hello"))
        with PullConsumer("readers", namesrv=zenit.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe("orders")
            assert [message.body for message in consumer.poll(timeout=20.0)] == [b"hello"]
    engine = docker.from_env()
    assert identity not in [container.id for container in engine.containers.list(all=True)]
    engine.close()


def test_a_missing_image_is_named_with_its_remedy() -> None:
    with pytest.raises(RequirementMissing, match=r"zenitmq:nowhere.*deploy/image/build\.sh"):
        ZenitContainer("zenitmq:nowhere").start()


def test_a_wrong_setting_is_told_from_the_log(image: str) -> None:
    with pytest.raises(ContainerStartException, match=r"ended.*store\.segment_bytes"):
        ZenitContainer(image, settings=("store.segment_bytes=1",)).start()


PAGE = ROOT / "docs" / "containers.md"


def test_the_first_try_of_the_page_works(image: str) -> None:
    """As written, but for the name, and the ports of this machine."""
    (text,) = (text for text in blocks(PAGE, "text") if "zenit-lone" in text)
    name = f"zenit-{secrets.token_hex(4)}"
    script = re.sub(r"127\.0\.0\.1:\d+:", "127.0.0.1::", text.replace("zenitmq:0.1.0", image))
    script = script.replace("--name zenit ", f"--name {name} ").replace("exec zenit ", f"exec {name} ")
    script = script.replace("rm -f -v zenit", f"rm -f -v {name}")
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert name not in run_docker("ps", "--all", "--format", "{{.Names}}").stdout
    finally:
        run_docker("rm", "--force", "--volumes", name, check=False)


def test_the_program_of_the_page_works(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = (text for text in blocks(PAGE, "text") if "import ZenitContainer" in text)
    monkeypatch.setenv("ZENIT_IMAGE", image)
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=COMMAND_S)


def test_the_fixture_gives_a_container(image: str, pytester_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZENIT_IMAGE", image)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pytester_folder],
        capture_output=True,
        text=True,
        timeout=2 * COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture
def pytester_folder(tmp_path: Path) -> str:
    """A user's tests."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["zenitmq.testing.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(
        "from zenitmq import Message, Producer\n\n\ndef test_it(zenit_container):\n"
        '    zenit_container.create_topic("t")\n'
        "    with Producer(namesrv=zenit_container.namesrv) as producer:\n"
        '        producer.send(Message("t", b"x"))\n'
    )
    return str(tmp_path)
