"""What the matrix tries the faults on: each work takes the messages of one topic, and leaves rows that can be counted.

A work is *begun* (some of its rows are done), meets a fault, gets `more` rows, and goes on to the end of what is there. Of
what came out since the last `settle`, each row is compared with what went in.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from spark.sink_kit import messages_of

from zenitmq import Admin, Message, Producer
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.pipeline.jobs import archive, compact, dedup, replay, window
from zenitmq.pipeline.jobs.archives.archive_tree import ArchiveTree
from zenitmq.pipeline.jobs.summary import JobProgress
from zenitmq.testing import LocalCluster

ROWS: Final = 40  # of each lot that is sent
TWIN: Final = 10  # each message of such a number is sent twice
PARTITIONS: Final = 3  # of a shuffle: one more than tasks run at once
RUN_S: Final = 100  # in which each run has to end
NOT_STARTED: Final = "Python worker failed to connect back"
COMMIT_DENIED: Final = "Commit denied for partition"
NO_DATA_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
PASSED_ON: Final = ("body", "keys", "tags", "flag", "properties")

Row = Hashable
Rows = Counter[Row]

_numbers: Final = itertools.count()


@dataclass(slots=True)
class Place:
    """Where the works are done: a session, name servers, a directory. `name`: prefix of the names of topics and directories."""

    spark: SparkSession
    namesrv: str
    directory: Path
    name: str


@dataclass(slots=True)
class Home(Place):
    """Where they are begun, too. `far`: what can be reached from there (far_cluster.Far)."""

    producer: Producer
    admin: Admin
    cluster: LocalCluster
    far: Any


@dataclass(slots=True)
class Watch:
    """Whom a job tells how it goes: ends one that does not end, and one that was told to `stop` once it has done a part."""

    stop: bool = False
    deadline_ms: float = field(default_factory=lambda: monotonic_ms() + RUN_S * 1000)

    def __call__(self, progress: JobProgress) -> None:
        if monotonic_ms() > self.deadline_ms:
            raise TimeoutError("the job does not end")
        if self.stop and progress.rows:
            raise KeyboardInterrupt


def despite_spark(run: Callable[[], None]) -> None:
    """Runs something, a second time where Spark alone ended it.

    Spark gives a Python process ten seconds to start: on a busy machine that may be too little, once. And a task that runs
    again may find that its first attempt has the right to commit: Spark ends the query then.
    """
    try:
        run()
    except Exception as error:
        if not any(told in str(error) for told in (NOT_STARTED, COMMIT_DENIED)):
            raise
        run()


class Work:
    """One work, of one topic, with a state of its own. `options`: of its source; `partitions`: that its rows are shared out to
    on their way, where they are."""

    name: ClassVar[str]
    writes_topic: ClassVar[bool] = True
    queues: ClassVar[int] = 2
    moment: ClassVar[str] = "sent"  # at which a task of it is struck (armed_daemon)

    def __init__(self, place: Place, number: int) -> None:
        self.place: Any = place
        self.number = number
        self.id = f"{place.name}-{self.name.replace(' ', '-')}-{number}"
        self.topic, self.target = f"{self.id}-in", f"{self.id}-out"
        self.directory = place.directory / self.id
        self.directory.mkdir(parents=True, exist_ok=True)
        self.state = self.directory / "state"
        self.spark = place.spark
        self.options: dict[str, str] = {}
        self.partitions = 0
        self.sent: Rows = Counter()  # since it was settled
        self.all_sent: Rows = Counter()
        self.last_sent: list[Row] = []
        self.struck = ""  # the fault that has left it refused
        self._before: Rows = Counter()

    def begin(self) -> None:
        """Topics are made, rows are sent and done; more of them are still to come, or to do."""
        self.make_topics()
        self.send()
        self.go_on()

    def make_topics(self, more_queues: int = 0) -> None:
        """What it reads and what it writes; those that are there get more queues."""
        for topic in (self.topic, self.target) if self.writes_topic else (self.topic,):
            self.place.admin.create_topic(topic, queues=self.queues + more_queues)

    def more(self) -> None:
        """Rows come that were not there when it began."""
        self.send()

    def go_on(self) -> None:
        """To the end of what there is. Raises what it ends with."""
        despite_spark(self.run)

    def leave(self) -> None:
        """Rows come, and somebody else is to do them (`do_far`)."""
        self.more()

    def do_far(self) -> None:
        """To the end of what there is, by another driver; it may be ended in the middle, and `go_on` follow."""
        despite_spark(self.run)

    def run(self) -> None:
        """Does what there is to do. Raises what it ends with."""
        raise NotImplementedError

    def came_out(self) -> Rows:
        """All that came out so far."""
        return Counter(map(row_of, messages_of(self.place.namesrv, self.target)))

    def wanted(self, sent: Rows) -> Rows:
        """What is to come out of what was sent."""
        return sent

    def settle(self) -> None:
        """From now on what comes is counted anew."""
        self._before = self.came_out()
        self.sent = Counter()

    def unsettle(self) -> None:
        """What is counted is all that ever came."""
        self._before = Counter()
        self.sent = Counter(self.all_sent)

    def lose_target(self) -> None:
        """The topic that it writes is deleted and made again. What was there does not count, what is still to come does."""
        self.make_target_again()
        self.settle()

    def make_target_again(self) -> None:
        """There is nothing in it."""
        self.place.admin.delete_topic(self.target)
        self.place.admin.create_topic(self.target, queues=self.queues)

    def found(self) -> Rows:
        """What came out since it was settled; a row that was there and is not any more is missing."""
        found = self.came_out()
        found.subtract(self._before)
        return found

    def send(self, rows: int = ROWS, topic: str | None = None) -> None:
        """Sends rows, some of them twice; they count as sent to this work."""
        messages = []
        for _ in range(rows):
            number = next(_numbers)
            message = new_message(topic or self.topic, number)
            messages += [message] * (2 if number % TWIN == 0 else 1)
        share = -(-len(messages) // self.queues)
        for first in range(0, len(messages), share):
            self.place.producer.send_batch(messages[first : first + share])  # to one queue, the next one to another
        rows_sent = Counter(map(row_of, messages))
        self.sent += rows_sent
        self.all_sent += rows_sent
        self.last_sent = [row for row, count in rows_sent.items() if count == 1]

    def lose(self, row: Row) -> None:
        """A row that was sent is gone for good, as the fault has it: it is not to come out."""
        del self.sent[row], self.all_sent[row]

    def forget_last_batch(self) -> None:
        """As if the driver had died between the end of a batch and its note of it: the batch comes again."""
        commits = self.checkpoint / "commits"
        last = max(int(name) for name in os.listdir(commits) if name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps its position."""
        return self.state

    def keep(self, name: str) -> Path:
        """A copy of its state as it is."""
        kept = self.directory / name
        shutil.copytree(self.checkpoint, kept)
        return kept

    def put_back(self, kept: Path) -> None:
        """Its state is that of the copy."""
        shutil.rmtree(self.checkpoint)
        shutil.copytree(kept, self.checkpoint)


class Source(Work):
    """A stream that a user reads: each batch goes to a file of its number, which a batch that comes again replaces."""

    name = "source"
    moment = "read"
    writes_topic = False

    def run(self) -> None:
        (self.directory / "rows").mkdir(exist_ok=True)
        writer = stream_of(self).writeStream.foreachBatch(self._take)
        finish(writer.option("checkpointLocation", str(self.state)).trigger(availableNow=True).start())

    def _take(self, batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        rows = [
            [bytes(row.body).decode(), row.keys, row.tags, row.flag, row.properties.get("number")]
            for row in batch.collect()
        ]
        path = self.directory / "rows" / f"{query}-{number}"
        path.with_suffix(".new").write_text(json.dumps(rows), encoding="utf-8")
        path.with_suffix(".new").rename(path)

    def came_out(self) -> Rows:
        files = [path for path in (self.directory / "rows").iterdir() if path.suffix != ".new"]
        rows = itertools.chain.from_iterable(json.loads(path.read_text(encoding="utf-8")) for path in files)
        return Counter((body.encode(), *others) for body, *others in rows)


class SinkAtLeastOnce(Work):
    """A stream from topic to topic."""

    name = "sink at-least-once"
    delivery = "at-least-once"

    def run(self) -> None:
        writer = (
            stream_of(self)
            .writeStream.format("zenit")
            .options(namesrv=self.place.namesrv, topic=self.target, delivery=self.delivery)
        )
        finish(writer.option("checkpointLocation", str(self.state)).trigger(availableNow=True).start())


class SinkDedup(SinkAtLeastOnce):
    """The same, each row once."""

    name = "sink dedup"
    delivery = "dedup"


class JobDedup(Work):
    """The job `dedup`, by a property: of rows that were sent twice one comes out."""

    name = "dedup"

    def run(self) -> None:
        options = dedup.DedupOptions(
            topics=(self.topic,),
            to=self.target,
            by="property:number",
            checkpoint=str(self.state),
            namesrv=self.place.namesrv,
        )
        dedup.run(options, lambda: self.spark, Watch())

    def wanted(self, sent: Rows) -> Rows:
        return Counter(dict.fromkeys(sent, 1))


class Archive(Work):
    """The job `archive`."""

    name = "archive"
    moment = "staged"
    writes_topic = False

    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place, number)
        self.state = self.directory / "archive"

    @property
    def checkpoint(self) -> Path:
        return self.state / "_checkpoint"

    def run(self) -> None:
        options = archive.ArchiveOptions(
            topics=(self.topic,),
            target=str(self.state),
            namesrv=self.place.namesrv,
            fail_on_data_loss=self.options.get("failOnDataLoss", "true") == "true",
            on_corrupt=self.options.get("onCorrupt", "fail"),
        )
        archive.run(options, lambda: self.spark, Watch())

    def came_out(self) -> Rows:
        return rows_of_archive(self.state)


class Compact(Archive):
    """The job `compact`, between two runs of `archive`: what is merged stays what it was, also to the archive."""

    name = "compact"

    def begin(self) -> None:
        self.make_topics()
        for _ in range(2):
            self.send()
            super().go_on()
        self.merge()

    def go_on(self) -> None:
        super().go_on()
        despite_spark(self.merge)

    def leave(self) -> None:
        self.more()
        super().go_on()

    def do_far(self) -> None:
        despite_spark(self.merge)

    def merge(self) -> None:
        """All files become one."""
        options = compact.CompactOptions(target=str(self.state), before="9999-12-31")
        compact.run(options, lambda: self.spark, Watch())


class Replay(Work):
    """The job `replay`, of the topic's messages: what is there when it begins, in four chunks, the first of which is done."""

    name = "replay"
    queues = 3  # and as many tasks, one more than run at once

    def begin(self) -> None:
        self.make_topics()
        self.send()
        self.start()

    def start(self) -> None:
        """The first chunk."""
        try:
            self.run(Watch(stop=True), rate=ROWS / 4 / 5)
        except KeyboardInterrupt:
            return
        raise AssertionError("the replay had one chunk only")

    def more(self) -> None:
        """Nothing: it sends what was there when it began."""

    def lose_target(self) -> None:
        self.sent -= self.came_out()
        self.make_target_again()

    def forget_last_batch(self) -> None:
        path = self.state / f"{self.id}.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        document["next_chunk"] -= 1
        path.write_text(json.dumps(document), encoding="utf-8")

    def run(self, watch: Watch | None = None, **more: Any) -> None:
        chosen = {"to": self.target, "topics": (self.topic,), "name": self.id, "rate": 1e6} | more
        options = replay.ReplayOptions(state_dir=str(self.state), namesrv=self.place.namesrv, **chosen)
        replay.run(options, lambda: self.spark, watch or Watch())


class Window(Work):
    """The job `window`, to a topic: each message is a window and key of its own, or has one with its twin."""

    name = "window"

    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place, number)
        self.spec = self.directory / "spec.toml"
        self.spec.write_text(
            f'topics = ["{self.topic}"]\nwindow = "1ms"\nwatermark = "1ms"\ntime = "stored"\nkey = ["number"]\n'
            '[aggregates]\norders = "count"\n',
            encoding="utf-8",
        )

    def send(self, rows: int = ROWS, topic: str | None = None) -> None:
        """The window of the last one is over once one is stored that is newer: one that does not count."""
        super().send(rows, topic)
        sleep_ms(5)
        self.place.producer.send(Message(self.topic, b'{"number": -1}'))

    def run(self) -> None:
        options = window.WindowOptions(
            spec=str(self.spec), to=self.target, checkpoint=str(self.state), namesrv=self.place.namesrv
        )
        self.spark.conf.set(NO_DATA_BATCHES, "true")  # tells of windows that are over now
        try:
            window.run(options, lambda: self.spark, Watch())
        finally:
            self.spark.conf.set(NO_DATA_BATCHES, "false")

    def came_out(self) -> Rows:
        counted: Rows = Counter()
        for message in messages_of(self.place.namesrv, self.target):
            told = json.loads(message.body)
            if told["number"] != "-1":
                counted[told["number"]] += told["orders"]
        return counted

    def wanted(self, sent: Rows) -> Rows:
        counted: Rows = Counter()
        for row, count in sent.items():
            counted[row[4]] += count  # type: ignore[index]
        return counted


WORKS: Final = (Source, SinkAtLeastOnce, SinkDedup, JobDedup, Archive, Compact, Replay, Window)


def new_message(topic: str, number: int) -> Message:
    """One with something of all that a row has."""
    return Message(
        topic,
        json.dumps({"number": number, "of": topic}).encode(),
        tags="even" if number % 2 == 0 else "odd",
        keys=[f"k{number}"],
        properties={"number": str(number)},
        flag=number % 5,
    )


def row_of(message: Any) -> Row:
    """A message, sent or stored, as a row to compare."""
    keys = " ".join(message.keys) or None
    return message.body, keys, message.tags, message.flag, message.properties.get("number")


def rows_of_archive(root: Path) -> Rows:
    """The rows that its manifests list."""
    tree = ArchiveTree(str(root))
    names = ["body", "keys", "tags", "flag", "properties"]
    rows: Rows = Counter()
    for file in tree.catalogue().files:
        table = pq.ParquetFile(tree.place(file.path)).read(columns=names)
        for body, keys, tags, flag, properties in zip(*(table.column(name).to_pylist() for name in names), strict=True):
            rows[body, keys, tags, flag, dict(properties).get("number")] += 1
    return rows


def stream_of(work: Work) -> DataFrame:
    """The work's topic from its beginning, as rows that a sink takes."""
    options = {"namesrv": work.place.namesrv, "subscribe": work.topic, "startingOffsets": "earliest"}
    frame = work.spark.readStream.format("zenit").options(**(options | work.options)).load().select(*PASSED_ON)
    return frame.repartition(work.partitions) if work.partitions else frame


def finish(query: Any) -> None:
    """Waits for a query's end. Raises what it ended with."""
    try:
        if not query.awaitTermination(RUN_S):
            raise TimeoutError("the query does not end")
    finally:
        query.stop()
