"""Every command of README.md and of docs/ works as written: the `sh` blocks of a page run in order, as one session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Run from a directory of the session's own, where a clone has to be there by name.
pytestmark = pytest.mark.timeout(300)
FROM_THE_CLONE = {"./quickstart.sh"}
FOR_A_MOMENT = "--own-cluster --seconds 0.3 --limit-seconds 0.1"  # another test may have one on the usual port
FEW_ROWS = "--messages 5000"  # of the one that is measured by rows, half a million of them
SESSION_S = 280  # some start Spark several times, beside other tests
SHELLS = {"bash", "shell", "console", "zsh"}


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run_session(script: str, home: Path, *, cwd: Path) -> None:
    """Runs a script that must succeed line by line; whatever cluster it leaves up in its home is taken down."""
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "HOME": str(home), "PATH": f"{binaries}:{os.environ['PATH']}"}
    for name in ("ZENIT_NAMESRV", "ZENIT_CONTEXT", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=SESSION_S,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n--- printed\n{done.stdout}\n--- and\n{done.stderr}"
    finally:
        last = home / ".zenit" / "last"
        if last.exists():
            down = [str(binaries / "zenit"), "down", "--dir", last.read_text().strip()]
            subprocess.run(down, env=environment, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("page", [page for page in PAGES if page != README and blocks(page, "sh")], ids=name_of)
def test_the_commands_of_a_page_work_as_written(page: Path, tmp_path: Path) -> None:
    commands = "".join(text for text in blocks(page, "sh") if text.strip() not in FROM_THE_CLONE)
    work = tmp_path / "work"
    work.mkdir()
    # Pages name fixed places under /tmp; a session in a test has its own.
    script = commands.replace("/tmp/zenit", f"{tmp_path}/zenit")
    run_session(script, tmp_path, cwd=work)


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


@pytest.mark.parametrize("page", [page for page in PAGES if page != README and blocks(page, "python")], ids=name_of)
def test_the_python_of_a_page_works_as_written(page: Path, tmp_path: Path) -> None:
    """Against a cluster that has the topic which the pages speak of."""
    work = tmp_path / "work"
    work.mkdir()
    for number, text in enumerate(blocks(page, "python")):
        (work / f"{number}.py").write_text(text, encoding="utf-8")
    up = f"zenit up --dir {tmp_path}/zenit --detach\nzenit topic create trades --queues 4\n"
    run_session(up + "for file in *.py; do python -W error $file; done", tmp_path, cwd=work)


def test_the_benchmarks_of_the_page_run(tmp_path: Path) -> None:
    """Each for a moment; of those that first fill a log for minutes, only that their options are known."""
    text = "".join(blocks(ROOT / "docs" / "benchmarks.md", ""))
    commands = [line.partition(" #")[0].strip() for line in text.splitlines() if line.startswith("zenit bench")]
    assert len(commands) > 4
    script = [
        f"{command} --help"
        if "--warm" in command or "--log-gib" in command
        else f"{command} {FOR_A_MOMENT} {FEW_ROWS if command.startswith('zenit bench spark') else ''}"
        for command in commands
    ]
    run_session("\n".join(script), tmp_path, cwd=tmp_path)
    assert (tmp_path / "e2e.svg").read_text().startswith("<svg")


def test_commands_stand_in_sh_blocks() -> None:
    """A block of another shell's name, or of none, would slip past the tests above."""
    assert not [(name_of(page), shell) for page in PAGES for shell in SHELLS if blocks(page, shell)]
    unnamed = {
        name_of(page): text for page in PAGES for text in blocks(page, "") if re.search("^zenit ", text, re.MULTILINE)
    }
    assert set(unnamed) <= {"docs/benchmarks.md"}
