"""What happens to the works of the matrix. A fault strikes works that were begun; then each goes on, and is judged.

begin    each work has some of its rows done           (Work.begin; a work that met other faults is begun already)
prepare  what has to be before, work by work
strike   the fault, once for all works of the row
go_on    work by work: rows come, it goes on to the end; what is raised here is how it refuses
"""

from __future__ import annotations

import glob
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ClassVar, Final
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.sql import SparkSession
from spark.matrix.works import PARTITIONS, Archive, Home, Replay, Source, Work, rows_of_archive

from zenitmq import Message
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import ReleaseHold

FILLER_BYTES: Final = 200_000
OTHER_PARTITIONS: Final = 5
UNKNOWN_STAGES: Final = 50  # that follow each other: skipped ones have no information

NO_BROKER: Final = "it reads the archive's files, no broker"
NO_OPTION: Final = "it has no such option"
NO_SHUFFLE: Final = "it shuffles nothing"
NO_TOPIC: Final = "it writes to no topic"
NO_NAME: Final = "it is known by its checkpoint alone"


class Fault:
    """One row. `unmet`: works that cannot meet it, and why. `after`: it strikes works that this fault has left refused."""

    name: ClassVar[str]
    unmet: ClassVar[Mapping[str, str]] = {}
    after: ClassVar[str] = ""
    replicas: ClassVar[int] = 1
    is_first: ClassVar[bool] = False  # the works have met no other
    is_last: ClassVar[bool] = False  # they meet no other

    def set_up(self, work: Work) -> None:
        """Before a new work is begun."""

    def prepare(self, work: Work) -> None:
        """Before it strikes."""

    def striking(self, works: Sequence[Work]) -> AbstractContextManager[object]:
        """Within, the works go on."""
        return nullcontext()

    def go_on(self, work: Work) -> None:
        """Rows come, the work goes on."""
        work.more()
        work.go_on()


class Failover(Fault):
    """The master is killed, and a slave follows it."""

    name = "broker failover"
    unmet = {"compact": NO_BROKER}
    replicas = 3

    @contextmanager
    def striking(self, works: Sequence[Work]) -> Iterator[None]:
        cluster = works[0].place.cluster
        before = cluster.master
        cluster.kill(before)
        yield
        assert cluster.master != before


class StageRetried(Fault):
    """What tasks have shuffled is gone when the next stage asks for it; at that time some of its tasks are done."""

    name = "stage retried"
    unmet = {"archive": NO_SHUFFLE, "compact": NO_SHUFFLE}

    def striking(self, works: Sequence[Work]) -> AbstractContextManager[object]:
        return shuffles_lost(works[0].spark)

    def go_on(self, work: Work) -> None:
        work.partitions = PARTITIONS
        retried = retried_stages(work.spark)
        super().go_on(work)
        assert retried_stages(work.spark) > retried, "no stage was retried"
        work.partitions = 0


@contextmanager
def shuffles_lost(spark: SparkSession) -> Iterator[None]:
    """Within, each shuffle loses its files once, as soon as it has any."""
    indexes = f"{spark.sparkContext.getConf().get('spark.local.dir')}/blockmgr-*/*/shuffle_*.index"
    ended = threading.Event()
    before = set(map(shuffle_of, glob.glob(indexes)))

    def lose() -> None:
        lost = set(before)
        while not ended.wait(0.002):
            paths = [path for path in glob.glob(indexes) if shuffle_of(path) not in lost]
            for path in paths:
                os.unlink(path)
            lost.update(map(shuffle_of, paths))

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def shuffle_of(path: str) -> str:
    """The number of the shuffle that a file is of."""
    return path.rpartition("/shuffle_")[2].partition("_")[0]


def retried_stages(spark: SparkSession) -> int:
    """How many stages of the session had to run again."""
    tracker = spark.sparkContext.statusTracker()
    count = unknown = stage = 0
    while unknown < UNKNOWN_STAGES:
        info = tracker.getStageInfo(stage)
        unknown = unknown + 1 if info is None else 0
        count += info is not None and info.currentAttemptId > 0
        stage += 1
    return count


class CheckpointNew(Fault):
    """Nobody has the old one any more."""

    name = "checkpoint new"

    def go_on(self, work: Work) -> None:
        work.unsettle()
        shutil.rmtree(work.checkpoint)
        super().go_on(work)


class CheckpointSetBack(Fault):
    """A backup of it is put back that is some batches old."""

    name = "checkpoint set back"

    def prepare(self, work: Work) -> None:
        kept = work.keep("kept")
        for _ in range(2):
            step(work)
        work.put_back(kept)


class CheckpointCopied(Fault):
    """Two go on from one place, by turns. An archive is copied as a whole."""

    name = "checkpoint copied"

    def go_on(self, work: Work) -> None:
        if isinstance(work, Archive):
            copy = work.directory / "copy"
            shutil.copytree(work.state, copy)
            super().go_on(work)
            work.state, original = copy, work.state
            work.more()
            work.go_on()
            work.state = original
            work.go_on()
            assert rows_of_archive(copy) == rows_of_archive(original)
            return
        copy = work.keep("copy")
        original = work.keep("original")
        step(work)
        work.put_back(copy)
        super().go_on(work)


def step(work: Work) -> None:
    """Some more of the work is done."""
    if isinstance(work, Replay):
        work.start()
    else:
        work.more()
        work.go_on()


class QueryNameReused(Fault):
    """Somebody else works under the name."""

    name = "query name reused"
    unmet = {
        "sink at-least-once": "it has no name",
        "dedup": NO_NAME,
        "window": NO_NAME,
        "archive": "its name is made with it",
        "compact": "it has no name",
    }

    is_first = True

    def set_up(self, work: Work) -> None:
        if isinstance(work, Source):
            work.options["queryName"] = work.id

    def go_on(self, work: Work) -> None:
        if isinstance(work, Replay):
            work.run(filter="even")
        elif isinstance(work, Source):
            work.options["startingOffsets"] = "latest"
            shutil.rmtree(work.checkpoint)
            super().go_on(work)
        else:
            self._write(work, "a", "b")
            work.sent.update([(body, None, None, 0, None) for body in (b"a", b"b")])
            self._write(work, "c", "d")

    def _write(self, work: Work, *bodies: str) -> None:
        frame = work.spark.createDataFrame([(body,) for body in bodies], "body STRING").coalesce(1)
        options = {"namesrv": work.place.namesrv, "topic": work.target, "delivery": "dedup"}
        frame.write.format("zenit").mode("append").options(**options, queryName=work.id, batchId="1").save()


class PartitionsChanged(Fault):
    """The last batch comes again, shared out to other tasks."""

    name = "partitions changed"
    unmet = {"compact": "a task merges the files of a day, and has no number"}

    def striking(self, works: Sequence[Work]) -> AbstractContextManager[object]:
        return shared_out_anew(works[0].spark)

    def prepare(self, work: Work) -> None:
        work.forget_last_batch()
        work.options["minPartitions"] = str(OTHER_PARTITIONS)


@contextmanager
def shared_out_anew(spark: SparkSession) -> Iterator[None]:
    """Within, it is as if there were other cores, and the user had asked for another number of partitions."""
    spark.conf.set("spark.sql.shuffle.partitions", str(OTHER_PARTITIONS))
    with patch.object(SparkContext, "defaultParallelism", OTHER_PARTITIONS):
        yield
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))


class TopicMadeAgain(Fault):
    """The topic that is read is deleted and made again, and is longer than it was."""

    name = "topic made again, `failOnDataLoss=true`"
    unmet = {"compact": NO_BROKER}

    def prepare(self, work: Work) -> None:
        make_again(work)


class TopicMadeAgainTold(Fault):
    """The same, where the user knows."""

    name = "topic made again, `failOnDataLoss=false`"
    unmet = {"compact": NO_BROKER, "dedup": NO_OPTION, "replay": NO_OPTION, "window": NO_OPTION}
    after = TopicMadeAgain.name

    def prepare(self, work: Work) -> None:
        if not work.struck:
            make_again(work)
        work.options["failOnDataLoss"] = "false"


def make_again(work: Work) -> None:
    """A replay sends what was there before, whatever is sent now."""
    sent = Counter(work.sent)
    work.place.admin.delete_topic(work.topic)
    work.place.admin.create_topic(work.topic, queues=work.queues)
    for _ in range(2):
        work.send()
    if isinstance(work, Replay):
        work.sent = sent


class TargetMadeAgain(Fault):
    """The topic that is written is deleted and made again."""

    name = "topic written made again"
    unmet = {"source": NO_TOPIC, "archive": NO_TOPIC, "compact": NO_TOPIC}

    def prepare(self, work: Work) -> None:
        work.lose_target()


class QueueAdded(Fault):
    """The topics get more queues, and the last batch comes again."""

    name = "queue added"
    unmet = {"compact": NO_BROKER}

    def prepare(self, work: Work) -> None:
        work.make_topics(more_queues=2)
        work.forget_last_batch()


class Damaged(Fault):
    """A bit of a record has turned on the disk, and no replica has it whole."""

    name = "damaged record, `onCorrupt=fail`"
    unmet = {"compact": NO_BROKER}

    def prepare(self, work: Work) -> None:
        damage(work)


class Quarantined(Fault):
    """The same, passed over."""

    name = "damaged record, `onCorrupt=quarantine`"
    unmet = {"compact": NO_BROKER, "dedup": NO_OPTION, "replay": NO_OPTION, "window": NO_OPTION}
    after = Damaged.name

    def prepare(self, work: Work) -> None:
        if not work.struck:
            damage(work)
        work.options["onCorrupt"] = "quarantine"


def damage(work: Work) -> None:
    """Of a row that was not read yet."""
    if not isinstance(work, Replay):
        work.send()
    row = work.last_sent[-1]
    flip(store_of(work.place), row[0])
    work.lose(row)


class Overtaken(Fault):
    """Retention takes rows away before they are read. What readers hold is held no more: that ends by itself."""

    name = "retention overtakes, `failOnDataLoss=true`"
    unmet = {"compact": NO_BROKER}

    def prepare(self, work: Work) -> None:
        if not isinstance(work, Replay):
            work.send()

    def striking(self, works: Sequence[Work]) -> AbstractContextManager[object]:
        if not all(work.struck for work in works):
            overtake(works)
        return nullcontext()


class OvertakenTold(Overtaken):
    """The same, where the user knows."""

    name = "retention overtakes, `failOnDataLoss=false`"
    unmet = {"compact": NO_BROKER, "dedup": NO_OPTION, "replay": NO_OPTION, "window": NO_OPTION}
    after = Overtaken.name

    def prepare(self, work: Work) -> None:
        super().prepare(work)
        work.options["failOnDataLoss"] = "false"


def overtake(works: Sequence[Work]) -> None:
    """Fills the log until all that the works' topics hold is gone."""
    place = works[0].place
    address = place.cluster.process(place.cluster.master).address
    with RemotingClient() as client:
        for hold in place.admin.broker_statistics()["retention_holds"]:
            client.call(address, ReleaseHold(hold["hold_id"]), timeout_ms=5_000)
    ends = {work.id: offsets(work, "max_offset") for work in works}
    filler = f"{place.name}-filler"
    place.admin.create_topic(filler, queues=1)
    message = Message(filler, os.urandom(FILLER_BYTES))
    deadline_ms = monotonic_ms() + 60_000
    while any(offsets(work, "min_offset") != ends[work.id] for work in works):
        assert monotonic_ms() < deadline_ms, "nothing expires"
        for _ in range(8):
            place.producer.send(message)
        sleep_ms(100)
    for work in works:
        if not isinstance(work, Replay):
            work.settle()


def offsets(work: Work, side: str) -> list[int]:
    """Where the queues of its topic begin, or end."""
    return [row[side] for row in work.place.admin.describe_topic(work.topic)["queues"]]


def store_of(place: Home) -> str:
    """Where the broker keeps its log."""
    store = place.cluster.process(place.cluster.brokers[0]).store_dir
    assert store is not None
    return store


def flip(store: str, text: bytes) -> None:
    """Turns a bit of the first byte of a text in the commit log."""
    for path in sorted(glob.glob(os.path.join(store, "commitlog", "*"))):
        with open(path, "r+b") as log:
            at = log.read().find(text)
            if at >= 0:
                log.seek(at)
                log.write(bytes([text[0] ^ 1]))
                return
    raise AssertionError("the text is in no file")


QUERY_FAULTS: Final = (
    *(StageRetried(), CheckpointNew(), CheckpointSetBack(), CheckpointCopied(), QueryNameReused(), PartitionsChanged()),
    *(QueueAdded(), TargetMadeAgain(), TopicMadeAgain(), TopicMadeAgainTold(), Damaged(), Quarantined()),
    *(Overtaken(), OvertakenTold()),
)
FAILOVER: Final = Failover()
