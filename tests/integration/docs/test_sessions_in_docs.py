"""Sessions that are more than the `sh` blocks of a page: README.md with its programs, quickstart.sh, and all benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.docs.pages import BLOCK, FROM_THE_CLONE, README, ROOT, blocks, run_session

pytestmark = pytest.mark.timeout(300)
FOR_A_MOMENT = "--seconds 0.3"
NO_LIMIT = "--limit-seconds 0.1"  # of those whose limit is measured beside them
# In tests/integration/bench and tests/spark/test_measuring.py.
TRIED_ELSEWHERE = ("--warm", "--log-gib", "bench proxy", "bench spark")


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
