"""The pages of a process's port for metrics and health.

    /metrics               every family, by topic and group
    /metrics/detail        what concerns single queues of one topic: ?topic=NAME
    /livez, /readyz        200 or 503, and why

With a file of tokens a scrape must bring one; who asks for health, such as an orchestrator, needs none.
It is open before the process is: the subject is put in once there is one (`serve`). Its readers are called in the server's
thread; what they read belongs to the loop, which never waits for them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, Self

from ..model.clock import monotonic_ms, thread_cpu_ns
from .bearer_tokens import BearerTokens
from .config import MetricsConfig
from .family import Labels, Reading
from .http_request import HttpRequest
from .http_server import HttpAnswer, HttpServer
from .process_reader import ProcessReader
from .readiness import STARTING, Readiness, liveness
from .rocketmq_names import with_old_names
from .series import limited
from .table import READY, SCRAPE_CPU, SERIES_DROPPED
from .text import OPEN_METRICS, PLAIN, render

log = logging.getLogger(__name__)

ROCKETMQ: Final = "rocketmq"
OPEN_METRICS_NAME: Final = "application/openmetrics-text"
UNAUTHORIZED: Final = "a token of metrics.token_file is wanted: Authorization: Bearer TOKEN\n"
INDEX: Final = "/metrics\n/metrics/detail?topic=NAME\n/livez\n/readyz\n"


class Subject(Protocol):
    """What is measured: a broker, a name server, a controller. Every method is called in the server's thread."""

    @property
    def labels(self) -> Labels:
        """Of every series: cluster, node_type, node_id, group."""

    @property
    def turned_ms(self) -> int:
        """When its loop turned last, monotonic."""

    def readiness(self) -> Readiness:
        """Whether it can do its work now."""

    def readings(self) -> Iterator[Reading]:
        """Every family, those of the whole process first."""

    def detail(self, topic: str) -> Iterator[Reading] | None:
        """What concerns single queues of a topic; None if there is no such topic."""


class MetricsEndpoint:
    """A context manager; closed, it serves no longer."""

    def __init__(self, config: MetricsConfig, *, version: str, kernel: str, has_readiness: bool = True) -> None:
        """`config.bind` is not empty. Raises ConfigError if it cannot be bound, KeyFileRefused for the file of tokens."""
        self._config = config
        self._tokens = BearerTokens(config.token_file) if config.token_file else None
        self._process = ProcessReader(version=version, kernel=kernel)
        self._has_readiness = has_readiness
        self._subject: Subject | None = None
        self._took_ns = 0  # CPU time of the last scrape
        self._server = HttpServer(config.bind, self._answer)
        self.address = self._server.address
        self._server.start()
        log.info("metrics and health are served address=%s", self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def serve(self, subject: Subject | None) -> None:
        """What is measured from now on; None: it starts, or stops. Any thread."""
        self._subject = subject

    # ---- in the server's thread

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        subject = self._subject
        if request.path.startswith("/metrics") and not self._may_read(request):
            return HttpAnswer(401, (UNAUTHORIZED,))
        match request.path:
            case "/metrics":
                return self._metrics(subject, request)
            case "/metrics/detail":
                return self._detail(subject, request)
            case "/livez":
                is_alive, text = liveness(None if subject is None else subject.turned_ms, monotonic_ms())
                return HttpAnswer(200 if is_alive else 503, (text,))
            case "/readyz":
                ready = _readiness(subject)
                return HttpAnswer(200 if ready.is_ready else 503, (ready.text(),))
            case "/":
                return HttpAnswer(200, (INDEX,))
        return HttpAnswer(404, ("no such page; there are:\n", INDEX))

    def _may_read(self, request: HttpRequest) -> bool:
        return self._tokens is None or self._tokens.accepts(request.authorization)

    def _metrics(self, subject: Subject | None, request: HttpRequest) -> HttpAnswer:
        begun_ns = thread_cpu_ns()
        readings = list(self._process.readings())
        readings.append((SCRAPE_CPU, [((), self._took_ns / 1e9)]))
        if self._has_readiness:
            readings.append((READY, [((), int(_readiness(subject).is_ready))]))
        if subject is not None:
            readings += subject.readings()
        answer = self._text(readings, subject, request)
        return HttpAnswer(answer.status, self._timed(answer.body, begun_ns), answer.content_type)

    def _timed(self, slices: Iterable[str], begun_ns: int) -> Iterator[str]:
        yield from slices
        self._took_ns = thread_cpu_ns() - begun_ns

    def _detail(self, subject: Subject | None, request: HttpRequest) -> HttpAnswer:
        topic = request.query.get("topic", "")
        if not topic:
            return HttpAnswer(400, ("name a topic: /metrics/detail?topic=NAME\n",))
        found = None if subject is None else subject.detail(topic)
        if found is None:
            return HttpAnswer(404, ("no such topic here\n",))
        return self._text(list(found), subject, request)

    def _text(self, readings: list[Reading], subject: Subject | None, request: HttpRequest) -> HttpAnswer:
        if self._config.compat == ROCKETMQ:
            readings = list(with_old_names(readings))
        kept, dropped = limited(readings, self._config.series_max)
        kept.append((SERIES_DROPPED, [((), dropped)]))
        is_open = OPEN_METRICS_NAME in request.accept
        labels = () if subject is None else subject.labels
        return HttpAnswer(200, render(kept, labels, open_metrics=is_open), OPEN_METRICS if is_open else PLAIN)


def _readiness(subject: Subject | None) -> Readiness:
    return Readiness("", (STARTING,)) if subject is None else subject.readiness()
