"""A small cluster of Spark's processes, on two hosts as far as Spark can tell, and drivers on it that can be killed.

Its tasks are armed (armed_daemon): the works of a driver can be made to lose a task, or to stand still in the middle.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Self

from spark.matrix.armed_daemon import ARMS
from spark.matrix.works import Place, Work
from spark.quick_start import HOME, PYTHON, java_options

from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.pipeline.session.java import bring_java

HERE: Final = Path(__file__).parent
HOSTS: Final = ("127.0.0.1", "127.0.0.2")
CORES: Final = 8  # of each: a task that stands still keeps one
WAIT_MS: Final = 120_000
SPECULATING: Final = "spark.speculation"
SPECULATION: Final = {
    SPECULATING: "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "1s",
}
"""Who looks for slow tasks is started with the driver; whether a slow one is run again, Spark asks for each set of tasks."""
TESTS: Final = HERE.parents[1]
DISCOVERED: Final = TESTS.parent / "pyspark_zenit.py"


class FarCluster:
    """A master, and a worker a host. `directory`: for what they write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.arms = directory / "arms"
        self.path = os.pathsep.join([str(directory), str(TESTS), str(HERE), *filter(None, sys.path)])
        """What processes find by name: what an installed package has in Python's path is in the directory."""
        self.master = ""
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self.arms.mkdir(parents=True)
        shutil.copy(DISCOVERED, self.directory)
        with ExitStack() as started:
            master = self._start(started, "master", "Master", "--host", HOSTS[0], "--port", "0")
            self.master = wait_logged(self.directory / "master.log", r"spark://127\.0\.0\.1:\d+", master)
            size = ("--webui-port", "0", "--cores", str(CORES), "--memory", "1g", "--work-dir", str(self.directory))
            workers = [self._start(started, host, "Worker", "--host", host, *size, self.master) for host in HOSTS]
            for host, worker in zip(HOSTS, workers, strict=True):
                wait_logged(self.directory / f"{host}.log", "Successfully registered with master", worker)
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def arm(self, work: Work, deed: str) -> None:
        """The next task of the work that comes to its moment is killed, or stands still."""
        self._struck(work).unlink(missing_ok=True)  # of an arm before
        (self.arms / f"{work.id}.{work.moment}.{deed}").touch()

    def has_struck(self, work: Work) -> bool:
        """Whether a task has come to it."""
        return self._struck(work).exists()

    def _struck(self, work: Work) -> Path:
        return self.arms / f"{work.id}.{work.moment}.done"

    def _start(self, started: ExitStack, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        environ = os.environ | {
            "JAVA_HOME": bring_java(),
            "SPARK_LOCAL_IP": name if name in HOSTS else HOSTS[0],
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "PYTHONPATH": self.path,
            ARMS: str(self.arms),
        }
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        with open(self.directory / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environ, cwd=self.directory)
        started.callback(process.wait, 20)
        started.callback(process.terminate)
        return process


class FarDriver:
    """A driver on it, in a process group of its own. `environment`: what is added to that of its processes."""

    def __init__(self, cluster: FarCluster, place: Place, environment: Mapping[str, str]) -> None:
        self.cluster = cluster
        chosen = {
            "spark.python.daemon.module": "armed_daemon",
            "spark.executorEnv.PYTHONPATH": cluster.path,
            f"spark.executorEnv.{ARMS}": str(cluster.arms),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",  # for set()
            **SPECULATION,
        }
        environ = os.environ | {
            "PYTHONPATH": cluster.path,
            "JAVA_HOME": bring_java(),
            "PYSPARK_DRIVER_PYTHON": str(PYTHON),  # by which Spark starts a source that it found itself
            **environment,
        }
        arguments = (cluster.master, place.namesrv, str(place.directory), place.name, json.dumps(chosen))
        with open(cluster.directory / f"driver-{place.name}-{monotonic_ms()}.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "far_driver.py"), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environ,
                start_new_session=True,
            )

    def set(self, key: str, value: str) -> None:
        """A setting of Spark's, for tasks that come."""
        self._tell({"set": [key, value]})

    def do(self, work: Work) -> None:
        """Has it do a work's part. Raises FarError with what it ended with."""
        self._tell(call_of(work))
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise FarError("the driver has ended")
        if error := json.loads(line):
            raise FarError(error)

    def begin(self, works: Sequence[Work]) -> None:
        """Has it begin the parts of all, one after the other, until each stands still."""
        for work in works:
            self.cluster.arm(work, "stop")
            self._tell({"begin": call_of(work)})
            deadline_ms = monotonic_ms() + WAIT_MS
            while not self.cluster.has_struck(work):
                assert monotonic_ms() < deadline_ms, f"{work.id} does not come to its moment"
                sleep_ms(20)

    def kill(self) -> None:
        """kill -9, of its Java too."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(20)
        for pipe in (self._process.stdin, self._process.stdout):
            close(pipe)

    def _tell(self, call: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()


class Far:
    """What works can reach that is elsewhere: the cluster, started when it is first wanted, and one driver at a time.

    `environment`: of its drivers.
    """

    def __init__(self, place: Place, environment: Mapping[str, str]) -> None:
        self._place = place
        self._environment = environment
        self._running = ExitStack()
        self._cluster: FarCluster | None = None
        self._driver: FarDriver | None = None

    @property
    def cluster(self) -> FarCluster:
        """The cluster."""
        if self._cluster is None:
            self._cluster = self._running.enter_context(FarCluster(self._place.directory / "far"))
        return self._cluster

    def driver(self, *, speculates: bool = False) -> FarDriver:
        """The driver, started where there is none. `speculates`: whether it runs a slow task a second time."""
        if self._driver is None:
            self._driver = FarDriver(self.cluster, self._place, self._environment)
        self._driver.set(SPECULATING, str(speculates).lower())
        return self._driver

    def end_driver(self) -> None:
        """Kills the driver, if there is one."""
        if self._driver is not None:
            self._driver.kill()
        self._driver = None

    def close(self) -> None:
        """Nothing of it is left."""
        self.end_driver()
        self._running.close()


class FarError(Exception):
    """What a work ended with in another process, as text."""


def call_of(work: Work) -> dict[str, Any]:
    """What a far driver has to know of a work."""
    return {"work": work.name, "number": work.number, "options": work.options}


def close(pipe: IO[str] | None) -> None:
    """One whose other end is gone."""
    assert pipe is not None
    try:
        pipe.close()
    except BrokenPipeError:
        return


def wait_logged(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Waits until a process has written something; returns it."""
    deadline_ms = monotonic_ms() + WAIT_MS
    while monotonic_ms() < deadline_ms and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[0]
        sleep_ms(50)
    raise AssertionError(log.read_text(errors="replace"))
