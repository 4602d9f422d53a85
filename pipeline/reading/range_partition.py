"""One task of a read."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from ...client.administration.pipeline_calls import RetentionHold
from .offsets import QueueRange


class RangePartition(InputPartition):
    """Reads one range; pickled to an executor. `hold`: the retention hold of a batch."""

    value: QueueRange

    def __init__(self, value: QueueRange, hold: RetentionHold | None = None) -> None:
        super().__init__(value)
        self.hold = hold
