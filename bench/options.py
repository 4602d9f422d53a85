"""The options of a benchmark, its progress reports, and its results. Pure.

Plain values between the command line and `runner.run`; nothing here measures. Sizes are in bytes of the body, times in
seconds if the name says so, latencies in nanoseconds inside and microseconds in documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ..model.errors import InvalidParameter
from ..model.names import check_topic

WORKS: Final = ("produce", "consume", "e2e", "latency", "transactions", "pop", "limits", "restart")
GROUP_WORKS: Final = ("catch-up",)  # require a replica group, which they start themselves
STORE_WORKS: Final = ("backup",)  # of files alone, without a cluster
SPARK_WORKS: Final = ("spark",)  # require Spark, and are measured by the pipeline
PROXY_WORKS: Final = ("proxy",)  # require what a proxy does, and start one
PROXY_PARTS: Final = (
    "bare",
    "send",
    "receive",
    "receive-batch",
    "classic",
    "classic-batch",
    "classic-single",
    "idle",
    "hostile",
)
REPLICATED_WORKS: Final = (
    "produce",
    "latency",
)  # can also be measured on several replicas, compared with a single broker
APIS: Final = ("post", "send", "send_async", "send_batch", "send_bodies")
FLUSH_MODES: Final = ("async", "sync")
MESSAGES_MAX: Final = 1 << 31


_SENDING: Final = ("produce", "latency", "e2e", "transactions")
_ON_BROKER: Final = (*_SENDING, "consume", "pop")
_ON_CLUSTER: Final = (*_ON_BROKER, "spark", "proxy")
_TAGGED: Final = ("produce", "latency", "consume", "limits", "restart")
_STARTED: Final = (*_ON_BROKER, "restart", "catch-up")
_TIMED: Final = (*_ON_BROKER, "limits", "proxy")
_EVERY: Final = (*WORKS, *GROUP_WORKS, *STORE_WORKS, *SPARK_WORKS, *PROXY_WORKS)


@dataclass(frozen=True, slots=True)
class BenchOption:
    """One option of a benchmark: its meaning, the works that take it, its possible values. `flag`: if not its own name."""

    meaning: str
    works: tuple[str, ...]
    between: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    flag: str = ""

    def flag_of(self, name: str) -> str:
        """The option's name on the command line. `name`: of its field."""
        return self.flag or f"--{name.replace('_', '-')}"


def option(
    default: Any,
    meaning: str,
    works: tuple[str, ...],
    between: tuple[float, float] | None = None,
    choices: tuple[str, ...] = (),
    flag: str = "",
) -> Any:
    """A field of BenchOptions, declared once: the command line and the checks are derived from it."""
    return field(default=default, metadata={"option": BenchOption(meaning, works, between, choices, flag)})


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """One run. `__post_init__` refuses senseless combinations with InvalidParameter."""

    work: str  # one of WORKS, GROUP_WORKS, STORE_WORKS, SPARK_WORKS, PROXY_WORKS
    size: int = option(
        128, "Body bytes of a message.", (*_ON_CLUSTER, "limits", "restart", "backup"), between=(0, 4 << 20)
    )
    batch: int = option(
        256,
        "Messages in a request. `produce`: only for --prebuilt, send_batch and send_bodies.",
        ("produce", "limits"),
        between=(1, 65_536),
    )
    producers: int = option(1, "Processes that produce.", ("produce", "e2e", "transactions", "limits"), between=(1, 64))
    consumers: int = option(1, "Processes that consume.", ("consume", "pop", "e2e"), between=(1, 64))
    stalled: int = option(0, "Consumers that stand still (SIGSTOP) in the second half.", ("pop",), between=(0, 63))
    at_a_time: int = option(32, "Messages of one receive.", ("pop",), between=(1, 1024), flag="--batch")
    seconds: float = option(10.0, "Seconds that are measured.", _TIMED, between=(0.05, 86_400))
    flush: str = option(
        "async",
        "async or sync: flush mode of a cluster that the run starts; a running cluster must have it.",
        (*_STARTED, "limits"),
        choices=FLUSH_MODES,
    )
    api: str = option("post", f"Method of the producer: {', '.join(APIS)}.", ("produce",), choices=APIS)
    prebuilt: bool = option(
        False, "Send batches that were made beforehand: shows the broker's own limit.", ("produce",)
    )
    in_flight: int = option(
        0,
        "Requests in flight in each process; 0 = the usual number. `produce`: only for --prebuilt and send.",
        ("produce", "latency", "transactions", "limits", "proxy"),
        between=(0, 4096),
    )
    asyncio: bool = option(
        False, "Tasks of one event loop, not threads, have the requests in flight.", ("transactions",)
    )
    keys: int = option(0, "Keys of each message, besides its unique id.", _TAGGED, between=(0, 16))
    tags: bool = option(False, "Give each message a tag.", _TAGGED)
    index: bool = option(True, "Key index in a cluster that the run starts.", _STARTED, flag="--index/--no-index")
    consume_queue: str = option(
        "file",
        "What keeps the consume queues in a cluster that the run starts: file or rocksdb.",
        _STARTED,
        choices=("file", "rocksdb"),
    )
    untouched: bool = option(False, "Take whole polls; read no message.", ("consume",))
    rate: int = option(10_000, "Messages sent each second, on a fixed schedule.", ("e2e",), between=(1, 10_000_000))
    push: bool = option(False, "Measure to the handler of a push consumer, not to a poll.", ("e2e",))
    warm: bool = option(False, "Write to segments whose pages are cached, like recycled ones.", (*_SENDING, "limits"))
    stages: bool = option(False, "Show where the time goes.", _ON_BROKER)
    topic: str | None = option(None, "An existing topic; else one of the run's own.", _ON_BROKER)
    batch_queue: bool = option(
        False, "The run's own topic stores each batch as one record (queue.type=BatchCQ).", ("produce", "consume")
    )
    queues: int = option(4, "Queues of the run's own topic.", (*_ON_CLUSTER, "restart"), between=(1, 1024))
    messages: int = option(
        0,
        "consume, pop: messages in the backlog, 0 = as --seconds needs; spark: messages, 0 = 1000000.",
        ("consume", "pop", "spark"),
        between=(0, MESSAGES_MAX),
    )
    log_gib: float = option(1.0, "Size of the log in GiB.", ("restart", "catch-up", "backup"), between=(0.001, 1024))
    limit_seconds: float = option(
        2.0, "Length of each run of the raw path, before and after; 0 = none.", _ON_BROKER, between=(0, 600)
    )
    part: str = option(
        "all",
        f"What is measured of the proxy: all, {', '.join(PROXY_PARTS)}.",
        ("proxy",),
        choices=("all", *PROXY_PARTS),
        flag="--part",
    )
    clients: int = option(
        5_000, "Clients that are only there: idle ones, and hostile ones.", ("proxy",), between=(1, 100_000)
    )
    master: str = option("local[2]", "Where Spark runs.", ("spark",))
    namesrv: str | None = option(
        None, "A cluster or an engine to measure; None = the cluster that runs here.", _ON_CLUSTER
    )
    own_cluster: bool = option(False, "Start a cluster even if one runs.", _ON_CLUSTER)
    directory: str | None = option(None, "Directory of a cluster that the run starts.", _EVERY, flag="--dir")

    def __post_init__(self) -> None:
        if self.work not in _EVERY:
            raise InvalidParameter("work", self.work, "one of " + ", ".join(_EVERY))
        for name, known in bench_options().items():
            value = getattr(self, name)
            if known.choices and value not in known.choices:
                raise InvalidParameter(known.flag_of(name), value, "one of " + ", ".join(known.choices))
            if known.between is not None and not known.between[0] <= value <= known.between[1]:
                raise InvalidParameter(known.flag_of(name), value, f"{known.between[0]} to {known.between[1]}")
        if self.stalled >= self.consumers and self.stalled:
            raise InvalidParameter("--stalled", self.stalled, f"fewer than the {self.consumers} of --consumers")
        if self.topic is not None:
            check_topic(self.topic)


def bench_options(work: str | None = None) -> dict[str, BenchOption]:
    """{name: option} of a work's options; of all for None."""
    declared = {each.name: each.metadata["option"] for each in fields(BenchOptions) if each.metadata}
    return {name: known for name, known in declared.items() if work is None or work in known.works}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCluster:
    """The facts about a cluster that was started for a run; the raw path imitates it.

    `warm_up` makes the run overwrite expired files, whose pages are cached; it gets `works.write_log` of that run.
    """

    replicas: int = 1  # brokers that have each message
    warm_up: Callable[[Callable[..., None]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchProgress:
    """A report, about four times a second. Counts are of the current phase."""

    phase: str  # e.g. "start cluster", "warm", "limit before", "produce", "limit after"
    elapsed_seconds: float
    total_seconds: float  # 0 = unknown
    messages: int = 0
    bytes: int = 0
    messages_per_second: float = 0.0  # since the last report
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """`document`: printed by `--json` (api.md section 2, `bench`). `svg`: the picture for `--plot`."""

    document: Mapping[str, object]
    svg: str


Report = Callable[[BenchProgress], None]
