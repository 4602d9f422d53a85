"""Reports after each batch of a streaming query how far it is behind its topics: to the log, to files, to a job.

    spark.streams.addListener(LagListener(namesrv="127.0.0.1:9876", prometheus_path="/var/lib/node_exporter/zenit.prom"))

Spark calls it in a thread of its own, one call after the other. A query does not wait for it, and errors here are only
logged. The brokers do not know this lag: a query's offsets are in its checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ..model.clock import now_ms
from .reports.lag_table import Document, LagTable, StoredAt, lag_document, lag_line, lag_table, prometheus_text
from .reports.store_times import StoreTimes

log = logging.getLogger(__name__)

QUERIES_MAX: Final = 100  # whose last tables are kept


class LagListener(StreamingQueryListener):
    """For all queries of a session. `latest`: {query: its last table}, also of queries that have ended.

    Between two runs of a job it shows how the last one ended, and by its time how old that is.
    """

    def __init__(
        self,
        *,
        namesrv: str | None = None,
        json_path: str | None = None,
        prometheus_path: str | None = None,
        on_lag: Callable[[Document], None] | None = None,
        stored_at: StoredAt | None = None,
    ) -> None:
        """`json_path`: a line is appended for each batch; rotate it to keep it short.

        `prometheus_path`: replaced as a whole. `on_lag`: called with the same document as in the JSON. `stored_at`: asked
        instead of the brokers.
        """
        self._json_path = json_path
        self._prometheus_path = prometheus_path
        self._on_lag = on_lag
        self._stored_at = stored_at or StoreTimes(namesrv)
        self.latest: dict[str, LagTable] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing is behind before the first batch."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """The last table is still valid."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """A batch has ended."""
        try:
            table = lag_table(json.loads(event.progress.json), self._stored_at, now_ms=now_ms())
            self.latest.pop(table.query, None)
            while len(self.latest) >= QUERIES_MAX:
                del self.latest[next(iter(self.latest))]
            self.latest[table.query] = table
            self._tell(table)
        except Exception:  # the top of Spark's thread
            log.exception("lag was not told")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Its last table is kept."""

    def _tell(self, table: LagTable) -> None:
        log.info("lag %s", lag_line(table))
        document = lag_document(table)
        if self._json_path is not None:
            with open(self._json_path, "a", encoding="utf-8") as file:
                file.write(json.dumps(document, ensure_ascii=False) + "\n")
        self._replace_prometheus()
        if self._on_lag is not None:  # last, so that the files are complete when it is called
            self._on_lag(document)

    def _replace_prometheus(self) -> None:
        """Readers of the file see the old one or the new one."""
        if self._prometheus_path is None:
            return
        fresh = f"{self._prometheus_path}.{os.getpid()}.tmp"
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(prometheus_text(self.latest.values()))
        os.replace(fresh, self._prometheus_path)
