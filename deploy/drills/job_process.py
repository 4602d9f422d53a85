"""The main function of a drill's load processes: a job in, progress out, both as lines of JSON."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ...model.errors import ZenitError

Tell = Callable[[dict[str, Any]], None]

_Job = TypeVar("_Job")


def main_of(job_class: Callable[..., _Job], work: Callable[[_Job, Tell, threading.Event], None]) -> int:
    """Reads the job; ends when standard input says "stop" or closes, as it does when the parent is gone."""
    job = job_class(**json.loads(sys.stdin.readline()))
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        stop.set()

    def tell(line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    threading.Thread(target=listen, daemon=True).start()
    try:
        work(job, tell, stop)
    except (ZenitError, OSError) as error:
        tell({"failure": f"{type(error).__name__}: {error}"})
        return 1
    return 0
