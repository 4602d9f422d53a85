"""A load in a thread of this process, for an engine that only this process reaches: the same jobs, over pipes."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, is_dataclass
from typing import Final

from ..processes import BenchWorker, WorkerChannel
from ..worker import run_role

_END_SECONDS: Final = 30.0


class ThreadWorker(BenchWorker):
    """Context manager: the thread has ended on exit, or is left behind as a daemon."""

    def __init__(self, role: str, job: object) -> None:  # no process, so not the base's
        assert is_dataclass(job)
        assert not isinstance(job, type)
        self.role = role
        self._pending = b""
        (job_end, own_job_end), (own_line_end, line_end) = os.pipe(), os.pipe()
        self._input, self._output = os.fdopen(own_job_end, "wb"), os.fdopen(own_line_end, "rb")
        self._channel = WorkerChannel(os.fdopen(job_end, "r"), os.fdopen(line_end, "w"))
        self._thread = threading.Thread(target=self._run, name=f"bench-{role}", daemon=True)
        self._thread.start()
        self._write(json.dumps(asdict(job)))

    @property
    def is_running(self) -> bool:
        """See BenchWorker."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """See BenchWorker."""
        self.close_pipes()
        self._thread.join(_END_SECONDS)

    def kill(self) -> None:
        """A thread cannot be killed: see `stop`."""
        self.stop()

    def _run(self) -> None:
        try:
            run_role(self.role, self._channel)
        finally:
            self._channel.close()
