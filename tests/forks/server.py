"""The server of forks: one Python that has imported ZenitMQ, and forks for each process of ours that a test starts.

It listens at a socket that spawning.py made, and ends when its input does.

A caller sends a letter with its three streams. The rest the server reads from /proc: directory, limits, ignored signals.

    c    a stand-in (command.c): its arguments and environment are those of its process. The server answers with the pid of the
         fork, and with its status in the end. A stand-in that is killed has its fork killed.
    s    a server of a cluster (spawning.py): a line of JSON says its arguments and environment. The server answers with the
         pid. The fork has a session of its own, and outlives the caller.

An answer of -1: start the real program. So where something of the caller's environment works before Python's first line, or
where the caller is in other namespaces. There are no threads in this process, and no ZeroMQ context.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import resource
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NoReturn

from . import spawning

REQUEST_S: Final = 5.0
REFUSED: Final = -1
LIMITS: Final = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts")
BEFORE_PYTHON: Final = re.compile(r"PYTHON|LD_|LC_|LANG$|MALLOC|GLIBC|COVERAGE")
"""Variables that work before Python's first line, or at imports."""
DESCRIPTORS: Final = 1 << 16
IGNORABLE: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def import_all() -> None:
    """What `zenit`, the servers, and the processes of drills and benchmarks import."""
    import zenitmq
    import zenitmq.bench.worker
    import zenitmq.broker.service
    import zenitmq.cli.commands
    import zenitmq.cli.main
    import zenitmq.cli.start
    import zenitmq.controller.service
    import zenitmq.deploy.drills.load
    import zenitmq.namesrv.service

    for package in (zenitmq.cli, zenitmq.deploy.drills, zenitmq.bench, zenitmq.client):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ModuleNotFoundError):  # of an extra that is not installed
                importlib.import_module(module.name)
    for name in zenitmq.__all__:
        getattr(zenitmq, name)


@dataclass(frozen=True, slots=True)
class Caller:
    """What a process has, as /proc shows it, and hands down to one that it starts."""

    namespaces: Sequence[str]
    directory: int  # a descriptor
    ignored: int  # signals, by bit
    umask: int
    limits: Mapping[int, tuple[int, int]]
    cores: set[int]

    @staticmethod
    def of(pid: int) -> Caller:
        """Raises OSError if there is no such process any more."""
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        return Caller(
            namespaces=[os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES],
            ignored=int(status["SigIgn"], 16),
            umask=int(status["Umask"], 8),
            limits={limit: resource.prlimit(pid, limit) for limit in LIMITS},
            cores=os.sched_getaffinity(pid),
            directory=os.open(f"/proc/{pid}/cwd", os.O_PATH | os.O_DIRECTORY),
        )

    def ignores(self, number: int) -> bool:
        return bool(self.ignored >> (number - 1) & 1)

    def become(self) -> None:
        """In the fork: it has what a new process would have."""
        for number in IGNORABLE:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if self.ignores(number) else usual)
        for limit, values in self.limits.items():
            resource.setrlimit(limit, values)
        os.umask(self.umask)
        os.sched_setaffinity(0, self.cores)
        os.fchdir(self.directory)


@dataclass(frozen=True, slots=True)
class Request:
    """What a process of ours is started with."""

    words: Sequence[str]
    environment: Mapping[str, str]
    streams: Sequence[int]
    is_server: bool

    @staticmethod
    def read(connection: socket.socket, pid: int, streams: list[int]) -> Request:
        """`streams`: is given the descriptors that came. Raises OSError, ValueError."""
        letter, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(4 * len(STREAMS)))
        for level, kind, found in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                streams += array.array("i", found)
        if letter == b"s":
            with connection.makefile("rb") as lines:
                told = json.loads(lines.readline())
            return Request(told["words"], told["environment"], streams, is_server=True)
        environment = dict(each.partition("=")[::2] for each in _strings(f"/proc/{pid}/environ") if each)
        return Request(_strings(f"/proc/{pid}/cmdline"), environment, streams, is_server=False)

    def become(self) -> None:
        """In the fork: its streams and its environment, and nothing else that is open."""
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
        os.closerange(len(STREAMS), DESCRIPTORS)
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        for number, (name, mode) in enumerate(STREAMS):
            was = getattr(sys, name)
            raw = os.fdopen(number, f"{mode}b", closefd=False)
            lines = name == "stderr" or os.isatty(number)
            stream = io.TextIOWrapper(raw, was.encoding, was.errors, line_buffering=lines)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    def work(self) -> Callable[[], object]:
        """`zenit ...`, or `python [-P] -m MODULE ...`."""
        sys.orig_argv[:] = self.words
        if os.path.basename(self.words[0]) == "zenit":
            script = os.path.join(sys.prefix, "bin", "zenit")
            sys.argv[:] = [script, *self.words[1:]]
            return lambda: runpy.run_path(script, run_name="__main__")
        at = self.words.index("-m") + 1
        module, sys.argv[:] = self.words[at], self.words[at:]
        if "-P" not in self.words[:at]:
            sys.path.insert(0, os.getcwd())
        sys.modules.pop(module, None)  # runpy warns where it is imported already
        return lambda: runpy.run_module(module, run_name="__main__", alter_sys=True)


def _strings(path: str) -> list[str]:
    with open(path, "rb") as file:
        return [os.fsdecode(each) for each in file.read().removesuffix(b"\0").split(b"\0")]


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _before_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if BEFORE_PYTHON.match(name)}


@dataclass(slots=True)
class ForkServer:
    """Its thread owns everything. `run` returns in a fork, with what that has to do."""

    listener: socket.socket
    own: Caller = field(default_factory=lambda: Caller.of(os.getpid()))
    before_python: Mapping[str, str] = field(default_factory=lambda: _before_python(os.environ))
    events: select.poll = field(default_factory=select.poll)
    callers: dict[int, tuple[socket.socket, int]] = field(
        default_factory=dict
    )  # by descriptor of the connection: the fork
    forks: dict[int, tuple[int, socket.socket | None]] = field(
        default_factory=dict
    )  # by pidfd: pid and who waits for it

    def run(self) -> Callable[[], object] | None:
        """None: the input has ended, and nobody wants forks any more."""
        self.events.register(0, select.POLLIN)
        self.events.register(self.listener, select.POLLIN)
        while True:
            descriptor, _ = self.events.poll()[0]  # one at a time: the others may end what it began
            if descriptor == 0:
                return None
            if descriptor == self.listener.fileno():
                if work := self._accept():
                    return work
            elif descriptor in self.forks:
                self._on_fork_ended(descriptor)
            elif descriptor in self.callers:
                self._on_caller_gone(descriptor)

    def _accept(self) -> Callable[[], object] | None:
        connection, _ = self.listener.accept()
        connection.settimeout(REQUEST_S)
        caller = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        streams: list[int] = []
        try:
            request = Request.read(connection, caller, streams)
            has = Caller.of(caller)
        except (OSError, ValueError):  # it was killed, or is in a namespace where we see no pid
            connection.close()
            _close(streams)
            return None
        self._end_left()
        pid = os.fork() if self._takes(request, has) else REFUSED
        if pid == 0:
            self._leave(connection)
            has.become()
            request.become()
            return request.work()
        _close([*streams, has.directory])
        with suppress(OSError):
            connection.sendall(struct.pack("i", pid))
        self._keep(pid, connection, is_server=request.is_server)
        return None

    def _takes(self, request: Request, caller: Caller) -> bool:
        if len(request.streams) != len(STREAMS) or caller.namespaces != self.own.namespaces:
            return False
        if _before_python(request.environment) != self.before_python:
            return False
        if {"job", "sql"}.intersection(request.words[1:2]):
            import pyspark.sql  # noqa: F401 - once for all of them
        return True

    def _leave(self, connection: socket.socket) -> None:
        """In the fork: the descriptors are closed at once, and must not be once more when these objects go."""
        for each in (connection, self.listener, *(other for other, _ in self.callers.values())):
            each.detach()
        os.setsid()

    def _keep(self, pid: int, connection: socket.socket, *, is_server: bool) -> None:
        waiting = None if is_server or pid == REFUSED else connection
        if pid != REFUSED:
            descriptor = os.pidfd_open(pid)
            self.forks[descriptor] = (pid, waiting)
            self.events.register(descriptor, select.POLLIN)
        if waiting is None:
            connection.close()
        else:
            self.callers[connection.fileno()] = (connection, pid)
            self.events.register(connection, select.POLLIN)

    def _end_left(self) -> None:
        """Forks of killed stand-ins are gone now, and their ports free: who killed one may start it again at once."""
        for descriptor, _ in self.events.poll(0):
            if descriptor in self.callers:
                pid = self.callers[descriptor][1]
                self._on_caller_gone(descriptor)
                self._on_fork_ended(next(each for each, (fork, _) in self.forks.items() if fork == pid))

    def _on_fork_ended(self, descriptor: int) -> None:
        pid, waiting = self.forks.pop(descriptor)
        status = os.waitpid(pid, 0)[1]
        self.events.unregister(descriptor)
        os.close(descriptor)
        if waiting is not None and waiting.fileno() in self.callers:
            with suppress(OSError):
                waiting.sendall(struct.pack("i", status))
            self._forget(waiting.fileno())

    def _on_caller_gone(self, descriptor: int) -> None:
        """A stand-in says nothing: it was killed, and its fork is alive or not yet reaped."""
        os.kill(self.callers[descriptor][1], signal.SIGKILL)
        self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        connection, _ = self.callers.pop(descriptor)
        self.events.unregister(connection)
        connection.close()


def _end(work: Callable[[], object]) -> NoReturn:
    """In a fork: works, and ends as Python does, but leaves the memory of all that is imported as it is. To take it apart
    would write to every page of it."""
    status = 0
    try:
        work()
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if status and not isinstance(ending.code, int):
            print(ending.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - the top of the thread
        traceback.print_exc()
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed
            stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def main(listener: int) -> None:
    """Returns where the input has ended."""
    import_all()
    spawning.start_forks()
    gc.collect()
    gc.freeze()
    work = ForkServer(socket.socket(fileno=listener)).run()
    if work is not None:
        _end(work)
