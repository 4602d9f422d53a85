"""Posted messages that were not acknowledged: passed to the user's callback, or kept for `flush`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from ...model.errors import SendFailed, ZenitError
from ...model.message import FailedSend
from ...model.properties import RESERVED, SHARDING_KEY
from ...record.kernel import decode_batch
from .batching import Sealed

log = logging.getLogger(__name__)

KEPT_MAX: Final = 1_000

OnError = Callable[[list[FailedSend]], object]


def failed_sends(sealed: Sealed, error: ZenitError) -> list[FailedSend]:
    """The messages of a batch, decoded from its records."""
    return [
        FailedSend(
            message.topic,
            message.body,
            message.tags,
            message.keys,
            error,
            {name: value for name, value in message.properties.items() if name not in RESERVED},
            message.properties.get(SHARDING_KEY),
        )
        for message in decode_batch(bytes(sealed.payload()))
    ]


class FailedSends:
    """Failures since the last `take_error`. Any thread may call. At most 1,000 messages are kept; all are counted."""

    def __init__(self, on_error: OnError | None) -> None:
        self._on_error = on_error
        self._lock = threading.Lock()
        self._kept: list[FailedSend] = []
        self._count = 0
        self._first: ZenitError | None = None

    def add(self, failed: list[FailedSend], error: ZenitError, sealed: Sealed | None = None) -> None:
        """Remembers failed messages. `sealed`: their batch; its messages are remembered once."""
        with self._lock:
            if sealed is not None and sealed.is_counted:
                return
            count = self._count + len(failed)
            kept = [*self._kept, *failed][:KEPT_MAX] if self._on_error is None else []
            # No call from here on, so a signal handler never sees a half of this done.
            self._count, self._kept, self._first = count, kept, self._first or error
            if sealed is not None:
                sealed.is_counted = True

    def tell(self, failed: list[FailedSend]) -> None:
        """Calls the user's `on_error` and logs what it raises. I/O thread."""
        if self._on_error is None:
            return
        try:
            self._on_error(failed)
        except Exception:
            log.exception("on_error failed")

    @property
    def has_callback(self) -> bool:
        """Whether failures are reported at once."""
        return self._on_error is not None

    def take_error(self) -> SendFailed | None:
        """The failures since the last call as one error, or None."""
        with self._lock:
            if not self._count:
                return None
            error = SendFailed(self._count, str(self._first))
            error.failed = tuple(self._kept)
            self._kept, self._count, self._first = [], 0, None
        return error
