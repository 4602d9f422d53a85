"""A command that is ended while Spark starts, or works, leaves no process behind, and says nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forks.spawning import REAL

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine

ZENIT = str(REAL / "zenit")  # its children are found by its group and its environment
MARK = "ZENIT_TEST_MARK"
START_S = 120.0
SLOW_QUERY = "SELECT count(*) FROM range(1000000000000) WHERE hash(id) = 7"


def texts_of(name: str, mark: str) -> Iterator[tuple[int, str]]:
    """(pid, /proc/pid/NAME) of the processes that have the mark in their environment."""
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if f"{MARK}={mark}" in Path(f"/proc/{entry}/environ").read_text(errors="replace"):
                yield int(entry), Path(f"/proc/{entry}/{name}").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's


def is_seen(part: str) -> Callable[[str], bool]:
    """Whether some process of the command has this in its command line."""
    return lambda mark: any(part in text for _, text in texts_of("cmdline", mark))


def java_of_spark(mark: str) -> list[int]:
    """The Java that the launcher has become, as a list of one or none."""
    texts = texts_of("cmdline", mark)
    return [pid for pid, text in texts if "java -cp" in text and "org.apache.spark.launcher.Main" not in text]


def has_task(mark: str) -> bool:
    """Whether one of Spark's tasks runs: its thread carries its name."""
    for pid in java_of_spark(mark):
        for thread in Path(f"/proc/{pid}/task").glob("*/comm"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if thread.read_text().startswith("Executor task"):
                    return True
    return False


MOMENTS: dict[str, Callable[[str], bool]] = {
    "the launcher's shell": is_seen("spark-class"),
    "the launcher's Java": is_seen("org.apache.spark.launcher.Main"),
    "Spark's Java begins": lambda mark: bool(java_of_spark(mark)),
    "a task runs": has_task,
}


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        *((moment, signal.SIGINT) for moment in MOMENTS),
        ("Spark's Java begins", signal.SIGTERM),
        ("Spark's Java begins", signal.SIGHUP),
        ("the launcher's Java", signal.SIGHUP),
        ("a task runs", signal.SIGTERM),
    ],
)
def test_no_process_outlives_the_command(moment: str, number: signal.Signals, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    query = [ZENIT, "sql", SLOW_QUERY, "--archive", f"unused={tmp_path}", "--master", "local[1]"]
    environ = {**os.environ, MARK: mark, "HOME": str(tmp_path)}
    with subprocess.Popen(
        query, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        deadline = time.monotonic() + START_S
        while not MOMENTS[moment](mark):
            with pytest.raises(subprocess.TimeoutExpired):  # it must not end before
                process.wait(0.02)
            assert time.monotonic() < deadline, f"{moment}: not seen"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        code = process.wait(60)
        left = list(texts_of("cmdline", mark))
        for pid, _ in left:
            os.kill(pid, signal.SIGKILL)
        said = process.communicate(timeout=60)
    assert left == []
    assert (code, said) == (128 + number, (b"", b""))
