"""Every command of README.md and of docs/ works as written: the `sh` blocks of a page run in order, as one session."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from integration.docs.pages import BLOCK, PAGES, README, ROOT, blocks, name_of, run_session

# Run from a directory of the session's own, where a clone has to be there by name.
pytestmark = pytest.mark.timeout(300)
FROM_THE_CLONE = {"./quickstart.sh"}
FOR_A_MOMENT = "--seconds 0.3"
NO_LIMIT = "--limit-seconds 0.1"  # of those whose limit is measured beside them
# In tests/integration/bench and tests/spark/test_measuring.py.
TRIED_ELSEWHERE = ("--warm", "--log-gib", "bench proxy", "bench spark")
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


@contextmanager
def one_java(directory: Path) -> Iterator[str]:
    """Lines of a script, after which its jobs share a Java that works in that directory: to start one is most of what a job
    costs. Each job makes its own session in it, and ends that."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_JAVA], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        port, secret = holder.stdout.readline().split()
        shared = f"PYSPARK_GATEWAY_PORT={port} PYSPARK_GATEWAY_SECRET={secret}"
        yield f'zenit() {{ if [ "$1" = job ]; then {shared} command zenit "$@"; else command zenit "$@"; fi; }}\n'


@pytest.mark.parametrize("page", [page for page in PAGES if page != README and blocks(page, "sh")], ids=name_of)
def test_the_commands_of_a_page_work_as_written(page: Path, tmp_path: Path) -> None:
    commands = "".join(text for text in blocks(page, "sh") if text.strip() not in FROM_THE_CLONE)
    work = tmp_path / "work"
    work.mkdir()
    # Pages name fixed places under /tmp; a session in a test has its own.
    script = commands.replace("/tmp/zenit", f"{tmp_path}/zenit")
    with one_java(work) if script.count("zenit job run") > 1 else nullcontext("") as preamble:
        run_session(preamble + script, tmp_path, cwd=work)


def test_the_readme_works_from_top_to_bottom(tmp_path: Path) -> None:
    """As a newcomer reads it: commands and programs in their order, with no cluster but those that it starts."""
    script = []
    for number, (language, text) in enumerate(BLOCK.findall(README.read_text(encoding="utf-8"))):
        if language == "python":
            (tmp_path / f"{number}.py").write_text(text, encoding="utf-8")
            script.append(f"python -W error {number}.py\n")
        elif language == "sh" and text.strip() not in FROM_THE_CLONE:
            script.append(text.replace("/tmp/zenit", f"{tmp_path}/zenit"))
    assert len(script) > 3
    run_session("".join(script), tmp_path, cwd=tmp_path)


def test_the_quickstart_works(tmp_path: Path) -> None:
    run_session("./quickstart.sh", tmp_path, cwd=ROOT)


def test_the_benchmarks_of_the_page_run(tmp_path: Path) -> None:
    """Each for a moment; of those that take minutes, or start Spark, only that their options are known."""
    text = "".join(blocks(ROOT / "docs" / "benchmarks.md", ""))
    commands = [line.partition(" #")[0].strip() for line in text.splitlines() if line.startswith("zenit bench")]
    assert len(commands) > 4
    script = [f"zenit up --dir {tmp_path}/zenit --detach"]
    script += [
        f"{command} --help"
        if any(each in command for each in TRIED_ELSEWHERE)
        else f"{command} {FOR_A_MOMENT} {'' if command.endswith('limits') else NO_LIMIT}"
        for command in commands
    ]
    run_session("\n".join(script), tmp_path, cwd=tmp_path)
    assert (tmp_path / "e2e.svg").read_text().startswith("<svg")


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
