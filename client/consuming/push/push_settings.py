"""What a push consumer was asked to be, checked. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ....model.errors import InvalidParameter
from ....model.names import check_group
from ....model.subscription import MessageModel
from ...connection.argument_checks import check_count, milliseconds
from ..start_from import LAST, StartFrom, check_start_from
from .process_queue import DEFAULT_LIMITS, FlowLimits
from .push_queues import PREFETCH_BYTES, PushRules

CONCURRENCY_MAX: Final = 1024
BATCH_SIZE_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """The arguments of PushConsumer, which says what they mean; times in seconds. Raises InvalidName, InvalidParameter."""

    group: str
    model: MessageModel = MessageModel.CLUSTERING
    start_from: StartFrom | datetime = LAST
    ordered: bool = False
    concurrency: int = 16
    batch_size: int = 1
    consume_timeout: float = 900.0
    max_attempts: int | None = None
    suspend: float = 1.0
    flow: FlowLimits = DEFAULT_LIMITS
    prefetch_bytes: int = PREFETCH_BYTES
    commit_interval: float = 5.0
    timeout: float = 3.0

    def __post_init__(self) -> None:
        check_group(self.group)
        check_start_from(self.start_from)
        if not isinstance(self.model, MessageModel):
            raise InvalidParameter("model", self.model, "CLUSTERING or BROADCASTING")
        if self.ordered and self.is_broadcasting:
            raise InvalidParameter(
                "ordered", self.ordered, "False when broadcasting: nobody else reads a member's queues"
            )
        if not isinstance(self.flow, FlowLimits):
            raise InvalidParameter("flow", self.flow, "a FlowLimits")
        check_count("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        check_count("batch_size", self.batch_size, 1, BATCH_SIZE_MAX)
        check_count("prefetch_bytes", self.prefetch_bytes, 1, 1 << 40)
        if self.max_attempts is not None:
            check_count("max_attempts", self.max_attempts, 1, 1 << 30)
        for name in ("consume_timeout", "suspend", "commit_interval", "timeout"):
            milliseconds(name, getattr(self, name))

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets all messages."""
        return self.model is MessageModel.BROADCASTING

    @property
    def timeout_ms(self) -> int:
        """For each question to a broker."""
        return milliseconds("timeout", self.timeout)

    @property
    def commit_ms(self) -> int:
        """Between commits."""
        return milliseconds("commit_interval", self.commit_interval)

    def rules(self) -> PushRules:
        """The same for the queues."""
        return PushRules(
            limits=self.flow,
            batch_size=self.batch_size,
            is_ordered=self.ordered,
            is_broadcasting=self.is_broadcasting,
            max_attempts=self.max_attempts or 0,
            suspend_ms=milliseconds("suspend", self.suspend),
            consume_timeout_ms=milliseconds("consume_timeout", self.consume_timeout),
        )
