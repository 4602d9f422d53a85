"""The program `docker` is missing, fails, or does not end."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.deploy.drills.compose.docker_command import docker, docker_both
from zenitmq.model.errors import RequestTimeout, RequirementMissing, SystemFault


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "docker"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return path


def write(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_what_it_prints_is_returned(program: Path) -> None:
    write(program, 'echo "$2"; echo beside >&2')
    assert docker("ps", "a b") == b"a b\n"
    assert docker_both("ps", "a b") == b"a b\nbeside\n"


def test_its_last_words_are_told(program: Path) -> None:
    write(program, "echo first >&2; echo no such container >&2; exit 1")
    with pytest.raises(SystemFault, match=r"docker kill: no such container$"):
        docker("kill", "x")


def test_a_failure_without_words_is_told(program: Path) -> None:
    write(program, "exit 7")
    with pytest.raises(SystemFault, match="docker kill: exit code 7"):
        docker("kill", "x")


def test_one_that_does_not_end_is_ended(program: Path) -> None:
    write(program, "exec sleep 60")
    with pytest.raises(RequestTimeout, match="docker kill"):
        docker("kill", timeout_s=0.05)


def test_a_machine_without_it_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequirementMissing, match="docker not found; install it"):
        docker("ps")
