"""Carries a soak out: a cluster, processes of clients beside it, deeds done to both, samples of all of them, the accounts.

Everything lies in the report's directory: `work` while it runs, `evidence` afterwards where something was wrong. The account,
its page and its picture are written anew each minute, so that they are there whatever ends the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from zenitmq.bench.environment import environment
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.deploy.processes import birth_of, terminate
from zenitmq.model.errors import ZenitError
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

from ..spark import quick_start
from . import page, picture, topics
from .deeds import Deed, deeds, spared, warm_up_s
from .message_account import MessageAccount
from .process_samples import Life, children_of, growing, is_java, usage_of
from .records import Away, Blocks, Moved, Record, Wrong, decode
from .roles import ROLES, STOP_FIRST
from .worker import Job, now_ms

ROOT: Final = Path(__file__).parents[2]
REPLICAS: Final = 3
SETTINGS: Final = (*SMALL_STORE, "store.retention_bytes=67108864", "store.timer_buffer_bytes=262144")
"""What fills up is full well before the warm-up is over: the log, and the memory that what is delayed takes before it becomes a
file (256 KiB: in 5 minutes)."""
JAVA_OPTIONS: Final = "JDK_JAVA_OPTIONS"
FULL_HEAP: Final = "-Xms256m -XX:+AlwaysPreTouch"
"""ZooKeeper's heap has its full size from the start, so that what grows is not the heap."""
MALLOC_SETTINGS: Final = {"MALLOC_ARENA_MAX": "2"}
"""Of clients, whose threads come and go: with as many heaps as threads the holes of each would be measured."""
SAMPLE_S: Final = 10.0
WRITE_S: Final = 60.0
DRAIN_S: Final = 150.0
"""In which everything must be handled once nothing is sent any more: delays, retries and a failover are shorter."""
INTERRUPTED_DRAIN_S: Final = 30.0
END_S: Final = 60.0
RESTART_TRIES: Final = 3
ELECT_S: Final = 60.0
STOP_MS: Final = 20_000
LIFE_SAMPLES_MIN: Final = 3
WORKER_SAMPLES_MIN: Final = 60
"""Spark's Python workers are many; only those that live long are told of one by one, the others in their sum."""
SPARK_WORKERS: Final = "spark-workers"
SHORT_S: Final = 1200.0
"""In shorter runs members come and go faster, and samples are closer."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """What a user may choose. `stream`: whether a streaming query of Spark takes part. `pace`: of the load; 1 = about 110
    messages a second."""

    hours: float
    seed: int = 1
    report_directory: str | None = None
    stream: bool = True
    pace: float = 1.0

    @property
    def seconds(self) -> float:
        """How long the load lasts."""
        return self.hours * 3600

    def command(self) -> str:
        """What does the same again."""
        more = "" if self.stream else " --no-stream"
        return f"python -m tests.soak --hours {self.hours:g} --seed {self.seed} --pace {self.pace:g}{more}"


def run_soak(options: SoakOptions, say: Say = lambda _: None) -> dict[str, Any]:
    """Runs it and returns its document.

    An interrupt (KeyboardInterrupt) ends the load early; the accounts are closed all the same.
    """
    directory = os.path.abspath(options.report_directory or tempfile.mkdtemp(prefix="zenit-soak-"))
    work = os.path.join(directory, "work")
    os.makedirs(os.path.join(work, "records"), exist_ok=True)
    os.makedirs(os.path.join(work, "log"), exist_ok=True)
    say(f"the account will be in {directory}; starting the cluster")
    with contextlib.ExitStack() as started:
        with mock.patch.dict(os.environ, {JAVA_OPTIONS: FULL_HEAP}):
            cluster = started.enter_context(
                LocalCluster(
                    replicas=REPLICAS, controllers=2, directory=os.path.join(work, "cluster"), settings=SETTINGS
                )
            )
        # The processes of clients find its address there, and its key if it is secured.
        started.enter_context(mock.patch.dict(os.environ, cluster.environ))
        for topic, queues in topics.QUEUES.items():
            cluster.create_topic(topic, queues=queues)
        account = _Soak(options, directory, work, cluster, say).run()
    _keep_evidence(directory, work, passed=account["passed"], say=say)
    return account


def _keep_evidence(directory: str, work: str, *, passed: bool, say: Say) -> None:
    """What a run that failed has left: its stores, logs and records. Removed otherwise."""
    if passed:
        shutil.rmtree(work, ignore_errors=True)
        return
    evidence = os.path.join(directory, f"evidence-{int(now_ms())}")
    os.rename(work, evidence)
    say(f"the evidence is in {evidence}")


class _Child:
    """A process of clients."""

    def __init__(self, role: str, job: Job, log: str) -> None:
        self.role, self.name, self.records = role, job.name, job.records
        environ = {
            **os.environ,
            **MALLOC_SETTINGS,
            **quick_start.environment(),
            "TMPDIR": job.directory,
        }
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", role],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
                cwd=ROOT,
                env=environ,
                start_new_session=True,  # Ctrl-C reaches it through us
            )
        self._say(json.dumps(asdict(job)))

    @property
    def pid(self) -> int:
        return self.process.pid

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def ask_to_stop(self) -> None:
        """Returns at once."""
        self._say("stop")

    def wait(self, seconds: float) -> bool:
        """Whether it ended by itself; otherwise it is killed, and what it started too."""
        started = [(pid, birth_of(pid)) for pid in children_of(self.pid)]
        is_ended = True
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            is_ended = False
            self.process.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)  # Popen's own wait takes a lock, which an interrupt may have left locked
            self.process.returncode = -signal.SIGKILL
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        for pid, birth in started:
            if birth is not None:
                terminate(pid, birth, timeout_ms=STOP_MS)
        return is_ended


class _Soak:
    """One run. The main thread does deeds and waits; a second one samples and reads records."""

    def __init__(self, options: SoakOptions, directory: str, work: str, cluster: LocalCluster, say: Say) -> None:
        self._options, self._directory, self._work = options, directory, work
        self._cluster, self._say = cluster, say
        self._files = ProcessCluster(cluster.directory)
        self._scale = min(1.0, options.seconds / SHORT_S)
        self._sample_s = max(1.0, SAMPLE_S * self._scale)
        self._account = MessageAccount(topics.rules(stream=options.stream))
        self._own: list[Record] = []
        self._read: dict[str, int] = {}
        self._lives: list[Life] = []
        self._children: dict[str, _Child] = {}
        self._ended: list[str] = []  # records of processes that have ended
        self._lock = threading.Lock()
        self._sampling = threading.Event()
        self._environment = environment(directory)
        self._began_ms = now_ms()
        self._is_interrupted = False

    # ---- the run

    def run(self) -> dict[str, Any]:
        roles = [role for role in ROLES if role != "visitor" and (self._options.stream or role != "stream")]
        sampler = threading.Thread(target=self._sample_all)
        drain_s = DRAIN_S
        try:
            for role in roles:
                self._start(role, role)
            self._began_ms = now_ms()
            sampler.start()
            self._say("the load has begun")
            self._do_deeds()
        except KeyboardInterrupt:
            self._is_interrupted, drain_s = True, INTERRUPTED_DRAIN_S
        load_s = self._passed_s()
        try:
            self._say("ending the load")
            self._end([name for name, child in self._children.items() if child.role in (*STOP_FIRST, "visitor")])
            self._drain(drain_s)
        except KeyboardInterrupt:
            self._is_interrupted = True
        finally:
            self._sampling.set()
            if sampler.ident is not None:
                sampler.join()
            self._end(list(self._children))
        self._read_records()
        return self._write(load_s, is_ended=True)

    def _passed_s(self) -> float:
        return (now_ms() - self._began_ms) / 1000

    def _do_deeds(self) -> None:
        """Until the time is over."""
        left = deeds(self._options.seed, self._options.seconds, replicas=REPLICAS)
        leaving: list[tuple[float, Deed]] = []
        while (passed_s := self._passed_s()) < self._options.seconds:
            while left and left[0].at_s <= passed_s:
                deed = left.pop(0)
                if deed.what == "broker":
                    self._restart_broker(deed)
                else:
                    self._start("visitor", f"visitor-{deed.victim}")
                    leaving.append((self._passed_s() + deed.hold_s, deed))
            for entry in [entry for entry in leaving if entry[0] <= passed_s]:
                leaving.remove(entry)
                self._end_visitor(entry[1])
            self._look_for_dead()
            time.sleep(0.2)

    def _restart_broker(self, deed: Deed) -> None:
        name = self._cluster.brokers[deed.victim]
        how = f"{'killed' if deed.is_killed else 'stopped'} as {'master' if self._master() == name else 'slave'}"
        begun_ms = now_ms()
        self._say(f"{name} is {how}, for {deed.hold_s:.0f} s")
        try:
            self._take_away(name, deed)
        finally:  # an interrupt leaves it away
            self._note(Away(name, how, begun_ms, now_ms()))

    def _take_away(self, name: str, deed: Deed) -> None:
        """Until it is in sync again."""
        if deed.is_killed:
            self._cluster.kill(name)
        else:
            process = self._cluster.process(name)
            if terminate(process.pid, process.birth, timeout_ms=STOP_MS):
                self._note(Wrong(name, now_ms(), "it did not stop by itself and was killed"))
        time.sleep(deed.hold_s)
        for attempt in range(1, RESTART_TRIES + 1):
            try:
                self._cluster.restart()
                break
            except ZenitError as error:
                self._say(f"not all in sync after start {attempt}: {error}")
                if attempt == RESTART_TRIES:
                    self._note(Wrong(name, now_ms(), f"not in sync again: {error}"))
        if deed.leads_then:
            self._make_master(name)

    def _make_master(self, name: str) -> None:
        """An orderly election; one that is refused changes nothing."""
        command = [sys.executable, "-m", "zenitmq", "controller", "elect", self._cluster.group()["broker_name"]]
        command += ["--replica", name, "--namesrv", self._cluster.namesrv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ELECT_S, check=False, cwd=self._work)
        self._say(f"{name} is to be master: {(done.stderr or done.stdout).strip()}")

    def _master(self) -> str | None:
        master: str | None = self._cluster.group()["master"]
        return master

    def _end_visitor(self, deed: Deed) -> None:
        name = f"visitor-{deed.victim}"
        if deed.is_killed:
            child = self._children.pop(name)
            child.process.kill()
            child.wait(END_S)
            self._ended.append(child.records)
            self._note(Moved(topics.PUSH_GROUP, name, now_ms(), "killed"))
        else:
            self._end([name])

    def _look_for_dead(self) -> None:
        """Processes that ended before they were asked to."""
        for name, child in list(self._children.items()):
            if (code := child.process.poll()) is not None:
                self._note(Wrong(name, now_ms(), f"the process ended early, with code {code}"))
                del self._children[name]
                self._ended.append(child.records)

    def _start(self, role: str, name: str) -> None:
        directory = os.path.join(self._work, name)
        os.makedirs(directory, exist_ok=True)
        job = Job(
            name=name,
            namesrv=self._cluster.namesrv,
            records=os.path.join(self._work, "records", f"{name}.jsonl"),
            directory=directory,
            seed=self._options.seed,
            pace=self._options.pace,
            scale=self._scale,
            stream=self._options.stream,
        )
        self._children[name] = _Child(role, job, os.path.join(self._work, "log", f"{name}.log"))

    def _end(self, names: list[str]) -> None:
        for name in names:
            self._children[name].ask_to_stop()
        for name in names:
            child = self._children[name]
            if not child.wait(END_S):
                self._note(Wrong(name, now_ms(), f"it did not end within {END_S:.0f} s and was killed"))
            elif child.process.returncode:
                self._note(Wrong(name, now_ms(), f"it ended with code {child.process.returncode}"))
            del self._children[name]
            self._ended.append(child.records)

    def _drain(self, seconds: float) -> None:
        """Until all is handled."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self._read_records()
            if not self._account.pending():
                return
            time.sleep(0.5)
        self._say(f"not handled in {seconds:.0f} s: {self._account.pending()}")

    # ---- samples and records

    def _sample_all(self) -> None:
        written_s = 0.0
        while not self._sampling.wait(self._sample_s - self._passed_s() % self._sample_s):
            self._sample()
            self._read_records()
            if self._passed_s() - written_s >= WRITE_S:
                written_s = self._passed_s()
                with self._lock:
                    self._account.forget(now_ms())
                account = self._write(self._passed_s(), is_ended=False)
                self._tell(account)

    def _tell(self, account: dict[str, Any]) -> None:
        messages = account["messages"]
        duplicates = sum(sum(causes.values()) for causes in messages["duplicates"].values())
        self._say(
            f"{self._passed_s() / 60:.0f} of {self._options.seconds / 60:.0f} min; {messages['acknowledged']:,} "
            f"acknowledged, {messages['on_their_way']:,} on their way, {duplicates:,} duplicates, "
            f"{messages['unexplained']} of them unexplained, "
            f"{messages['wrong']} wrong, {len(account['growing'])} series grow"
        )

    def _sample(self) -> None:
        """One of each process that runs."""
        found: list[tuple[str, str, int]] = []
        record = self._files.read()
        if record is not None:
            found += [(process.name, process.role, process.pid) for process in record.processes]
        for name, child in list(self._children.items()):
            found.append((name, "clients", child.pid))
            if child.role == "stream":
                started = children_of(child.pid)
                found += [(_spark_name(pid), "spark", pid) for pid in started]
                self._add_sum([pid for pid in started if not is_java(pid)], child.pid)
        for name, role, pid in found:
            birth, usage = birth_of(pid), usage_of(pid)
            if birth is not None and usage is not None:
                with self._lock:
                    self._life(name, role, pid, birth).add(self._passed_s(), asdict(usage))

    def _add_sum(self, pids: list[int], parent: int) -> None:
        """What Spark's Python workers take together, and how many they are."""
        usages = [asdict(usage) for usage in map(usage_of, pids) if usage is not None]
        total = {metric: sum(usage[metric] for usage in usages) for metric in (usages[0] if usages else ())}
        if total:
            with self._lock:
                life = self._life(SPARK_WORKERS, "spark", parent, birth_of(parent) or "")
                life.add(self._passed_s(), {**total, "processes": len(usages)})

    def _life(self, name: str, role: str, pid: int, birth: str) -> Life:
        lives = [life for life in self._lives if life.name == name]
        if lives and (lives[-1].pid, lives[-1].birth) == (pid, birth):
            return lives[-1]
        life = Life(name, role, len(lives) + 1, pid, birth, "java" if is_java(pid) else "python")
        self._lives.append(life)
        return life

    def _note(self, record: Record) -> None:
        with self._lock:
            self._own.append(record)

    def _read_records(self) -> None:
        """What was written down since the last time, whole lines only."""
        with self._lock:
            own, self._own = self._own, []
            for record in own:
                self._account.take(record)
            for path in {*self._ended, *(child.records for child in list(self._children.values()))}:
                self._read_file(path)

    def _read_file(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                file.seek(self._read.get(path, 0))
                content = file.read()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(whole)
        for line in whole.decode().splitlines():
            record = decode(line)
            if isinstance(record, Blocks):
                lives = [life for life in self._lives if life.name == record.process]
                if lives:
                    lives[-1].add(
                        (record.at_ms - self._began_ms) / 1000,
                        {"blocks": record.count, "malloc_kib": record.malloc_kib},
                    )
            else:
                self._account.take(record)

    # ---- the account

    def _write(self, load_s: float, *, is_ended: bool) -> dict[str, Any]:
        with self._lock:
            account = self._document(load_s, is_ended=is_ended)
        drawn = picture.picture(account)
        for name, text in (
            ("soak.json", json.dumps(account) + "\n"),
            ("soak.svg", drawn),
            ("soak.html", page.page(account, drawn)),
        ):
            path = os.path.join(self._directory, name)
            Path(path + ".new").write_text(text, encoding="utf-8")
            os.replace(path + ".new", path)
        return account

    def _document(self, load_s: float, *, is_ended: bool) -> dict[str, Any]:
        warm_s = warm_up_s(self._options.seconds)
        lives = [life.document(warm_s) for life in self._lives if _is_told(life)]
        messages = self._account.document(is_ended=is_ended)
        return {
            "soak": self._options.seed,
            "command": self._options.command(),
            "hours": self._options.hours,
            "began_ms": round(self._began_ms),
            "seconds": round(load_s, 1),
            "warm_up_s": warm_s,
            "spared": spared(self._options.seed, REPLICAS) + 1,
            "ended": is_ended,
            "interrupted": self._is_interrupted,
            "passed": is_ended and messages["passed"],
            "growing": growing(lives),
            "messages": messages,
            "lives": lives,
            "environment": self._environment,
        }


def _spark_name(pid: int) -> str:
    return "spark-java" if is_java(pid) else f"spark-worker-{pid}"


def _is_told(life: Life) -> bool:
    """Whether a life is long enough to be told of."""
    is_worker = life.name.startswith("spark-worker-")
    return len(life.samples["memory_kib"]) >= (WORKER_SAMPLES_MIN if is_worker else LIFE_SAMPLES_MIN)


def asked_to_end() -> None:
    """SIGTERM is as Ctrl-C: the account is told."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
