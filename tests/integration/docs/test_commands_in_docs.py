"""Every command of docs/ works as written: the `sh` blocks of a page run in order, as one session."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.docs.pages import FROM_THE_CLONE, PAGES, README, blocks, name_of, run_session

# Run from a directory of the session's own, where a clone has to be there by name.
pytestmark = pytest.mark.timeout(300)
HOLD_JAVA = """
import os, sys
from zenitmq.pipeline.session.java import bring_java
os.environ["JAVA_HOME"] = bring_java()
from pyspark.java_gateway import launch_gateway
java = launch_gateway().gateway_parameters
print(java.port, java.auth_token, flush=True)
sys.stdin.read()
"""
PRINTF = re.compile(r"printf '([^']*)'")
SHELLS = {"bash", "shell", "console", "zsh"}
SPARKS = ("zenit job run", "zenit sql")


@dataclass(frozen=True, slots=True)
class SharedJava:
    """`preamble`: lines of a script, after which what needs Spark shares a Java that works in the directory."""

    directory: Path
    preamble: str


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJava]:
    """To start one is most of what a job costs. Each job makes its own session in it, and ends that."""
    directory = tmp_path_factory.mktemp("java")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_JAVA], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        port, secret = holder.stdout.readline().split()
        shared = f"PYSPARK_GATEWAY_PORT={port} PYSPARK_GATEWAY_SECRET={secret}"
        preamble = (
            f'zenit() {{ case "$1" in job | sql) {shared} command zenit "$@" ;; *) command zenit "$@" ;; esac; }}\n'
        )
        yield SharedJava(directory, preamble)


@pytest.mark.parametrize("page", [page for page in PAGES if page != README and blocks(page, "sh")], ids=name_of)
def test_the_commands_of_a_page_work_as_written(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    commands = "".join(text for text in blocks(page, "sh") if text.strip() not in FROM_THE_CLONE)
    # Pages name fixed places under /tmp; a session in a test has its own.
    script = commands.replace("/tmp/zenit", f"{tmp_path}/zenit")
    if sum(script.count(each) for each in SPARKS) > 1:
        java = request.getfixturevalue("java")
        run_session(java.preamble + script, tmp_path, cwd=java.directory)
        return
    work = tmp_path / "work"
    work.mkdir()
    run_session(script, tmp_path, cwd=work)


def test_printf_formats_nothing_by_accident() -> None:
    """A per cent sign in what a page prints would be a directive."""
    formats = [(name_of(page), text) for page in PAGES for sh in blocks(page, "sh") for text in PRINTF.findall(sh)]
    assert formats
    assert [each for each in formats if re.search("%(?![sd%])", each[1].replace("%%", ""))] == []


def test_commands_stand_in_sh_blocks() -> None:
    """A block of another shell's name, or of none, would slip past the tests above."""
    assert not [(name_of(page), shell) for page in PAGES for shell in SHELLS if blocks(page, shell)]
    unnamed = {
        name_of(page): text for page in PAGES for text in blocks(page, "") if re.search("^zenit ", text, re.MULTILINE)
    }
    assert set(unnamed) <= {"docs/benchmarks.md"}
