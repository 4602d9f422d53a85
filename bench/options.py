"""What a benchmark is asked to do, what it tells while it runs, and what it found. Pure.

Plain values between the command line and `runner.run`; nothing here measures. Sizes are in bytes of the body, times
in seconds where the name says so, latencies in nanoseconds inside and microseconds in documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..model.errors import InvalidParameter
from ..model.names import check_topic

WORKS: Final = ("produce", "consume", "e2e", "latency", "limits", "restart")
GROUP_WORKS: Final = ("catch-up",)  # need a replica group, which they start themselves
SPARK_WORKS: Final = ("spark",)  # need Spark, and are measured by the pipeline
APIS: Final = ("post", "send", "send_async", "send_batch", "send_bodies")
FLUSH_MODES: Final = ("async", "sync")
MESSAGES_MAX: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """One run. `__post_init__` refuses what makes no sense with InvalidParameter."""

    work: str  # one of WORKS
    size: int = 128  # body bytes of a message
    batch: int = 256  # messages a request (prebuilt, send_batch, send_bodies, raw path)
    producers: int = 1  # processes that produce, one Producer each
    consumers: int = 1  # processes that consume, queues dealt out evenly
    seconds: float = 10.0  # how long the measured part lasts
    flush: str = "async"  # what the started cluster is configured to; a running one must already be so
    api: str = "post"  # by which road of the producer, one of APIS; ignored with prebuilt
    prebuilt: bool = False  # batches encoded beforehand, straight to the broker: its own ceiling
    in_flight: int = 0  # requests in flight of one process: prebuilt, raw path, send (as threads); 0 = the work's own
    keys: int = 0  # own keys a message beside the unique id (each is indexed)
    tags: bool = False  # a tag on every message
    index: bool = True  # key index of the started cluster on; off shows what it costs
    untouched: bool = False  # consume whole polls without touching a message
    rate: int = 10_000  # e2e: messages a second, sent on schedule whatever the broker does
    push: bool = False  # e2e: by a push consumer's handler instead of polls
    warm: bool = False  # segments whose pages are cached (recycled) instead of fresh files
    stages: bool = False  # where the time goes, of client and broker
    topic: str | None = None  # None = one of its own, removed afterwards
    queues: int = 4  # of a topic that the run creates
    messages: int = (
        0  # consume: size of the backlog; 0 = what `seconds` need at full speed, within 2 GiB; spark: how many
    )
    log_gib: float = 1.0  # restart, catch-up: how much log there is
    limit_seconds: float = 2.0  # each raw-path run, before and after; 0 = none, then no share is told
    master: str = "local[2]"  # spark: where Spark runs
    namesrv: str | None = None  # a cluster to measure; None = the one that runs here, else one started for the run
    own_cluster: bool = False  # start one in any case (the only way to choose flush and warm)
    directory: str | None = None  # where a started cluster and the raw path keep files; None = a temporary directory

    def __post_init__(self) -> None:
        _check_choice("work", self.work, (*WORKS, *GROUP_WORKS, *SPARK_WORKS))
        _check_choice("api", self.api, APIS)
        _check_choice("flush", self.flush, FLUSH_MODES)
        for name, value, low, high in (
            ("size", self.size, 0, 4 << 20),
            ("batch", self.batch, 1, 65_536),
            ("producers", self.producers, 1, 64),
            ("consumers", self.consumers, 1, 64),
            ("in_flight", self.in_flight, 0, 4096),
            ("keys", self.keys, 0, 16),
            ("rate", self.rate, 1, 10_000_000),
            ("queues", self.queues, 1, 1024),
            ("messages", self.messages, 0, MESSAGES_MAX),
            ("seconds", self.seconds, 0.05, 86_400),
            ("limit_seconds", self.limit_seconds, 0, 600),
            ("log_gib", self.log_gib, 0.001, 1024),
        ):
            if not low <= value <= high:
                raise InvalidParameter(name, value, f"{low} to {high}")
        if self.topic is not None:
            check_topic(self.topic)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidParameter(name, value, "one of " + ", ".join(choices))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCluster:
    """What is known of a cluster that was started for a run: the raw path is made like it.

    `warm_up` has the run write over expired files, whose pages are cached; it is given `works.write_log` of that run.
    """

    replicas: int = 1  # brokers that hold each message
    warm_up: Callable[[Callable[..., None]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchProgress:
    """Told about four times a second. Counts are of the phase that runs."""

    phase: str  # e.g. "start cluster", "warm", "limit before", "produce", "limit after"
    elapsed_seconds: float
    total_seconds: float  # 0 = unknown
    messages: int = 0
    bytes: int = 0
    messages_per_second: float = 0.0  # since the report before
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """`document`: what `--json` prints (api.md section 2, `bench`). `svg`: the picture of `--plot`."""

    document: Mapping[str, object]
    svg: str


Report = Callable[[BenchProgress], None]
