"""Every Python block of docs/ works as written, those of a page in order. One cluster is for all pages.

The guide's work on an engine in the program's own process too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from integration.docs.pages import PAGES, README, SESSION_S, blocks, name_of, user
from integration.docs.program_runner import ProgramRunner
from postgresql_kit import postgresql

from zenitmq import Admin
from zenitmq.model.errors import NoPermission, TopicNotFound
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)

OWN_ENGINES = "in-process.md"  # its programs name theirs
ALL_IN_ONE = """
import runpy, sys
from zenitmq import Admin
with Admin() as admin:
    admin.create_topic("trades", queues=4)
for file in sys.argv[1:]:
    runpy.run_path(file, run_name="__main__")
"""
LACKING = {
    "batch-topics": "topics with queue.type=BatchCQ",
    "compaction": "topics with cleanup.policy=COMPACTION",
    "delays": "delayed messages",
    "finding": "queries",
    "idempotent": "idempotent producers",
    "lite-topics": "lite topics",
    "tracing": "queries",
    "transactions": "transactions",
}
"""What a page is about, and `embedded://` has not: its programs say so."""
WITHOUT_CLUSTER = [
    page for page in PAGES if page.parent.name == "guide" and blocks(page, "python") and page.name != OWN_ENGINES
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def runner() -> Iterator[ProgramRunner]:
    with ProgramRunner() as running:
        yield running


@pytest.fixture
def emptied(cluster: LocalCluster) -> LocalCluster:
    """With the topic which the pages speak of, and nothing of the page before."""
    with Admin(cluster.namesrv) as admin:
        for group in admin.groups():
            admin.delete_group(group["name"])
        for topic in admin.topics():
            with suppress(NoPermission, TopicNotFound):  # the broker's own; a retry topic, which went with its group
                admin.delete_topic(topic)
        admin.create_topic("trades", queues=4)
    return cluster


@pytest.fixture
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PostgreSQL server, for a page that needs one."""
    page = request.node.callspec.params["page"]
    if not any("import psycopg" in text for text in blocks(page, "python")):
        yield
        return
    with postgresql() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def run_programs(runner: ProgramRunner, page: Path, home: Path, **environment: str) -> None:
    """Runs the programs of a page, each by itself, in their order."""
    files = written(page, home)
    runner.run([[file] for file in files], user(home) | environment, cwd=home, timeout_s=SESSION_S)


def written(page: Path, directory: Path) -> list[str]:
    """The programs of a page, as files there."""
    texts = {f"{number:02}.py": text for number, text in enumerate(blocks(page, "python"))}
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    return list(texts)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("page", [page for page in PAGES if page != README and blocks(page, "python")], ids=name_of)
def test_the_python_of_a_page_works_as_written(
    page: Path, emptied: LocalCluster, runner: ProgramRunner, tmp_path: Path
) -> None:
    (tmp_path / ".zenit").mkdir()
    (tmp_path / ".zenit" / "last").write_text(f"{emptied.directory}\n")
    run_programs(runner, page, tmp_path)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("page", WITHOUT_CLUSTER, ids=name_of)
@pytest.mark.parametrize("kind", ["memory", "embedded", "local"])
def test_the_guides_programs_work_without_a_cluster(
    kind: str, page: Path, runner: ProgramRunner, tmp_path: Path
) -> None:
    if kind == "memory":  # its messages live as long as the program: so one program runs all
        (tmp_path / "all").write_text(ALL_IN_ONE, encoding="utf-8")
        environment = user(tmp_path) | {"ZENIT_NAMESRV": "memory://guide"}
        runner.run([["all", *written(page, tmp_path)]], environment, cwd=tmp_path, timeout_s=SESSION_S)
        return
    engine = f"{kind}://{tmp_path}/store"
    with Admin(engine) as admin:
        admin.create_topic("trades", queues=4)
    lacking = LACKING.get(page.stem) if kind == "embedded" else None
    if lacking is None:
        run_programs(runner, page, tmp_path, ZENIT_NAMESRV=engine)
        return
    with pytest.raises(AssertionError, match=f"EngineLacks: embedded:// has no {lacking}"):
        run_programs(runner, page, tmp_path, ZENIT_NAMESRV=engine)
