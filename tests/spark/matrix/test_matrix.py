"""Each fault strikes each work: what comes out is compared with what went in, and docs/pipeline.md says how it ended.

ZENIT_REWRITE_DOCS=1 writes the rows anew that ran and had nothing that may not be (verdicts). `-k` takes single rows.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import pytest
from pyspark.sql import SparkSession
from spark.matrix.far_cluster import Far
from spark.matrix.far_faults import FAR_FAULTS
from spark.matrix.query_faults import FAILOVER, QUERY_FAULTS, Fault
from spark.matrix.verdicts import AGAIN, EXACT, NEVER, ONCE, Verdict, judged, may_say
from spark.matrix.works import PARTITIONS, WORKS, Home, Place, Replay, Work
from spark.runner_forks import RunnerForks

from zenitmq import Admin, Producer
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine

PAGE: Final = Path(__file__).parents[3] / "docs" / "pipeline.md"
MARKED: Final = re.compile(r"(<!-- matrix -->\n)(.*?)(<!-- end -->)", re.DOTALL)
SETTINGS: Final = (
    *SMALL_STORE[1:],
    *("store.segment_bytes=1048576", "store.body_bytes_max=262144", "store.record_bytes_max=393216"),
    *("store.retention_bytes=33554432", "store.delete_unconsumed=true"),
)
"""A log that is full after more than all faults write, and which lets go then of what nobody has read."""
FAULTS: Final = (*QUERY_FAULTS, *FAR_FAULTS, FAILOVER)
NAMES: Final = tuple(work.name for work in WORKS)

Table = dict[str, dict[str, str]]


@dataclass(slots=True)
class Stage:
    """Works that were begun, by name, and what was found so far."""

    place: Home
    table: Table
    works: dict[str, Work] = field(default_factory=dict)
    count: int = 0

    def row(self, fault: Fault) -> list[str]:
        """Has a fault strike all works that can meet it; what is wrong with what they say."""
        kinds = [kind for kind in WORKS if kind.name not in fault.unmet]
        works = [self._begun(kind, fault) for kind in kinds]
        for work in works:
            fault.prepare(work)
        with fault.striking(works):
            verdicts = [verdict_of(fault, work) for work in works]
        for work, verdict in zip(works, verdicts, strict=True):
            self._put_away(work, verdict, fault)
        told = dict(zip((work.name for work in works), verdicts, strict=True))
        wrong = [f"{fault.name} x {name}: {each.text}: {each.wrong}" for name, each in told.items() if each.wrong]
        if not wrong:
            self.table[fault.name] = {name: told[name].text if name in told else NEVER for name in NAMES}
        return wrong

    def _begun(self, kind: type[Work], fault: Fault) -> Work:
        work = self.works.pop(kind.name, None)
        if work is not None and not fault.is_first and work.struck in ("", fault.after):
            work.options.clear()
            return work
        self.count += 1
        work = kind(self.place, self.count)
        fault.set_up(work)
        work.begin()
        return work

    def _put_away(self, work: Work, verdict: Verdict, fault: Fault) -> None:
        """The next fault strikes it where it is as good as a new one, or goes on from this one."""
        is_good = verdict.text == EXACT or (verdict.text == AGAIN and work.name not in ONCE)
        if is_good and not isinstance(work, Replay) and not fault.is_last:
            work.settle()
            work.struck = ""
        else:
            work.struck = fault.name
        self.works[work.name] = work


class Stages:
    """One for each kind of cluster, made when a fault first wants it."""

    def __init__(self, spark: SparkSession, forks: RunnerForks, directory: Path) -> None:
        self.table: Table = {}
        self._spark, self._forks, self._directory = spark, forks, directory
        self._of: dict[int, Stage] = {}
        self._running = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def of(self, fault: Fault) -> Stage:
        """The one for a fault."""
        if fault.replicas not in self._of:
            self._running.close()  # each takes the usual ports
            self._of = {fault.replicas: self._new(fault.replicas)}
        return self._of[fault.replicas]

    def _new(self, replicas: int) -> Stage:
        enter = self._running.enter_context
        cluster = enter(LocalCluster(replicas=replicas, settings=SETTINGS))
        producer = enter(Producer("matrix", namesrv=cluster.namesrv))
        admin = enter(Admin(cluster.namesrv))
        name = f"m{secrets.token_hex(3)}"
        place = Place(self._spark, cluster.namesrv, self._directory, name)
        far = enter(closing(Far(place, self._forks.environment)))
        home = Home(place.spark, place.namesrv, place.directory, place.name, producer, admin, cluster, far)
        return Stage(home, self.table)


def verdict_of(fault: Fault, work: Work) -> Verdict:
    """Goes on with a work that a fault has struck, and compares."""
    error: Exception | None = None
    try:
        fault.go_on(work)
    except Exception as raised:  # noqa: BLE001  # of whatever kind: it is judged by its name
        error = raised
    wanted, ever = work.wanted(work.sent), work.wanted(work.all_sent)
    return judged(fault.name, work.name, found=work.found(), wanted=wanted, ever=ever, error=error)


@pytest.fixture(scope="module")
def stages(spark: SparkSession, forks: RunnerForks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    with Stages(spark, forks, tmp_path_factory.mktemp("matrix")) as stages:
        yield stages
    spark.conf.set("spark.sql.shuffle.partitions", "2")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_no_row_is_lost_or_doubled_without_a_word(stages: Stages, fault: Fault) -> None:
    wrong = stages.of(fault).row(fault)
    assert not wrong, "\n".join(wrong)


def test_the_page_says_how_each_ended(stages: Stages) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if "ZENIT_REWRITE_DOCS" in os.environ:
        table = table_of(text) | stages.table
        text = MARKED.sub(lambda mark: mark[1] + table_text(table) + mark[3], text)
        PAGE.write_text(text, encoding="utf-8")
    shown = table_of(text)
    assert {name: shown.get(name) for name in stages.table} == stages.table


def test_the_page_calls_nothing_what_it_may_not_be() -> None:
    shown = table_of(PAGE.read_text(encoding="utf-8"))
    assert set(shown) == {fault.name for fault in FAULTS}
    for fault in FAULTS:
        for work, text in shown[fault.name].items():
            assert (text == NEVER) == (work in fault.unmet)
            assert text == NEVER or may_say(fault.name, work, text), (fault.name, work, text)


def table_text(table: Table) -> str:
    """A row a fault; below, why a fault and a work cannot meet."""
    lines = [f"| fault | {' | '.join(NAMES)} |", "|---" * (len(NAMES) + 1) + "|"]
    rows = [(fault.name, table[fault.name]) for fault in FAULTS if fault.name in table]
    lines += [f"| {fault} | {' | '.join(row[name] for name in NAMES)} |" for fault, row in rows]
    reasons: dict[str, list[str]] = {}
    for fault in FAULTS:
        for work, reason in fault.unmet.items():
            reasons.setdefault(f"`{work}`: {reason}", []).append(fault.name)
    lines += ["", f"{NEVER}: the two cannot meet.", ""]
    lines += [f"- {reason} ({'; '.join(faults)})" for reason, faults in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def table_of(text: str) -> Table:
    """The reverse."""
    mark = MARKED.search(text)
    assert mark is not None
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in mark[2].splitlines() if line[:1] == "|"]
    return {row[0]: dict(zip(NAMES, row[1:], strict=True)) for row in rows[2:]}
