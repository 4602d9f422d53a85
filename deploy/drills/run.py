"""Runs a drill: a cluster, load, faults one after another; at the end compares acknowledgements with replicas.

    cluster up -> (new topic -> load -> as long as a fault will be held -> [fault -> hold -> mend -> in sync again -> settle]
    ... -> load stops -> replicas level -> read back through each -> verdict) as often as there are runs -> cluster down

The cluster is one of processes that the drill starts, a running one of `zenit up`, or a running compose project
(servers.py). One cluster serves all runs of a drill; each run has its own topic and number. Every wait is bounded, and
everything that was started is stopped on every way out. A directory that the drill created is removed with everything in
it, unless a promise was broken or the drill failed: then its stores and logs are evidence, and the drill prints its path.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

from ...client.admin import Admin
from ...model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ...model.errors import ConfigError, InvalidParameter, NoCluster, RequirementMissing, SystemFault
from ..cluster_record import ServerRecord
from . import report, timeline
from .catalogue import DRILLS, ONE_BY_ONE, Conditions, Deed, Drill, Fault, check_limits, drill_named, random_faults
from .check import Mark, Verdict, check, together
from .compose.compose_servers import ComposeServers
from .deliveries.account import DeliveryAccount, account_of, late_messages
from .deliveries.load import DeliveryJob
from .deliveries.process import DeliveryLoad
from .drilled_cluster import DrilledCluster
from .faults import disk_faults, faults, partition, power_cut
from .faults.file_faults import Tools
from .ledger import Table, by_producer, of_group
from .load import SEND_TIMEOUT_S, LoadJob
from .load_processes import DrillLoad
from .process_servers import ProcessServers
from .read_back import ReadBack
from .report import RotAccount, RunReport
from .servers import Servers
from .topic_kinds import ATTRIBUTES, COMPACTED, PLAIN, SHORT_LOG, check_topic_kind
from .watch import Watch
from .watching import watching

SETTLE_MS: Final = 1_500
LAST_SETTLE_MS: Final = round(2 * SEND_TIMEOUT_S * 1000)
"""With several groups: time for a group with few producers to repeat a send that a fault swallowed, and for another send."""
READ_MS: Final = 600_000
QUEUES: Final = 8
RANDOM_MINUTES: Final = 30.0
PROCESSES: Final = 2
PRODUCERS: Final = 4  # per process
SENDS_A_SECOND: Final = 125  # per producer; a higher rate means more messages per send
SINGLES: Final = 1  # producers of each process that send one message at a time, in `random`
CLUSTER_SETTINGS: Final = (
    "store.segment_bytes=67108864",
    *("store.disk_clean_ratio=1", "store.disk_force_ratio=1", "store.disk_refuse_ratio=1"),
)
"""Nothing goes because of what others write to the machine's disk: a file that retention took would count as a loss."""
CLUSTER_FOLDER: Final = "cluster"  # in the working directory
STORE_PREFIX: Final = "broker-"  # of the names of all brokers, and so of their stores in the cluster's directory
ASKING_SETTINGS: Final = ("transaction_timeout_ms=2000", "transaction_check_interval_ms=4000")
"""Brokers ask soon, and again, about transfers whose outcome their producer did not say."""
SYNC_SETTINGS: Final = ("store.flush_mode=sync",)
ROLLING_SETTINGS: Final = ("store.segment_bytes=262144", "store.preallocate_segments=0", "store.recycle_segments=0")
"""For full disks: the log soon needs a new file."""

IMPOSSIBLE: Final = (ConfigError, InvalidParameter, NoCluster, RequirementMissing)
"""What was asked for cannot be done here."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOptions:
    """The user's choices. `seconds`: how long each fault is held, None = as in the drill; `minutes`: of `random`, None =
    RANDOM_MINUTES.

    `batch`: messages per send; None = as many as the rate needs at 125 sends a second of each producer.

    `replicas`: of each of `groups`; `controllers`: 0 = a static master. `power`: `random` draws power cuts instead of
    partitions, with flush mode sync; `disks`: disks that hang or are full instead, also with flush mode sync.

    `topics`: the kind of topic that the load is sent to (topic_kinds). With compacted topics the log keeps little, so `random`
    has no transfers and pops then: their messages would go.

    `secure`: the cluster that is started has keys, users and rights. `directory`: of a running cluster; None = one is started.
    `compose`: the name of a running compose project; its size counts instead of those above. `report_directory`: for the
    document and pictures.
    """

    drill: str
    runs: int = 1
    replicas: int = 3
    controllers: int = 2
    groups: int = 1
    power: bool = False
    disks: bool = False
    seconds: float | None = None
    rate: float = 5_000.0
    batch: int | None = None
    body_bytes: int = 200
    seed: int = 1
    minutes: float | None = None
    topics: str = PLAIN
    directory: str | None = None
    compose: str | None = None
    report_directory: str | None = None
    secure: bool = False

    def __post_init__(self) -> None:
        check_limits(
            runs=self.runs,
            replicas=self.replicas,
            groups=self.groups,
            seconds=self.seconds,
            rate=self.rate,
            batch=self.batch,
            body_bytes=self.body_bytes,
            minutes=self.minutes,
        )
        if self.replicas < (least := drill_named(self.drill).replicas_min):
            raise InvalidParameter("replicas", self.replicas, f"{least} or more, for {self.drill}")
        if self.directory is None and self.controllers == 0 and drill_named(self.drill).needs_controller:
            raise InvalidParameter("controllers", self.controllers, f"1 or more, for {self.drill}")
        if self.compose is not None:
            self._check_compose()
        if self.secure and self.is_given:
            raise InvalidParameter("secure", True, "false with a running cluster: it is secured, or not")
        of_random = (("minutes", self.minutes), ("power", self.power), ("disks", self.disks))
        for name, wished in of_random:
            if wished and not drill_named(self.drill).is_random:
                raise InvalidParameter(name, wished, f"the drill random; {self.drill} does not take it")
        check_topic_kind(self.topics)
        if self.power and self.disks:
            raise InvalidParameter("disks", self.disks, "false with power: brokers run over one library")

    def _check_compose(self) -> None:
        possible = [name for name, drill in DRILLS.items() if drill.is_for_containers]
        if self.drill not in possible:
            raise InvalidParameter("drill", self.drill, f"one that can be done to containers: {', '.join(possible)}")
        for name, wished in (("dir", self.directory), ("power", self.power), ("disks", self.disks)):
            if wished:
                raise InvalidParameter(name, wished, "nothing with --compose: the cluster is the project, as it is")

    @property
    def is_given(self) -> bool:
        """Whether the cluster runs already, and is left running."""
        return self.directory is not None or self.compose is not None

    @property
    def cuts_power(self) -> bool:
        """Whether its brokers run with the library that records unsynced writes."""
        return self.power or drill_named(self.drill).cuts_power

    @property
    def fails_disk(self) -> bool:
        """Whether its brokers run with the library that makes disks hang or full."""
        return self.disks or drill_named(self.drill).fails_disk

    def chosen(self) -> Drill:
        """The drill, with the requested duration of faults."""
        drill = drill_named(self.drill)
        return drill if self.seconds is None else drill.held(round(self.seconds * 1000))

    @property
    def messages_a_send(self) -> int:
        """Messages per send: enough to reach the rate, few enough to see gaps."""
        return self.batch or max(1, round(self.rate / (PROCESSES * PRODUCERS * SENDS_A_SECOND)))

    def conditions(self, *, is_apart: bool) -> Conditions:
        """What `random` may draw. `is_apart`: the network's rules can distinguish brokers."""
        return Conditions(
            has_controllers=self.controllers > 0,
            can_cut_network=is_apart,
            can_cut_power=self.cuts_power,
            can_fail_disk=self.fails_disk,
            has_containers=self.compose is not None,
        )


def run(options: DrillOptions, say: Say = lambda _: None) -> dict[str, Any]:
    """Runs the drill and returns its document (report.document). Raises ZenitError if it could not run."""
    drill = options.chosen()
    is_apart = _enter_own_network(options, drill, say)
    if (options.cuts_power or options.fails_disk) and options.directory is not None:
        raise InvalidParameter(
            "--dir", options.directory, "none: brokers are started over a library for faults of disks"
        )
    if options.report_directory is not None:
        os.makedirs(options.report_directory, exist_ok=True)
    where = _project(options, say) if options.compose is not None else _processes(options, say, is_apart=is_apart)
    with where as (cluster, tools, place):
        options = replace(options, replicas=cluster.replicas, groups=cluster.groups)
        reports = []
        for number in range(options.runs):
            say(f"{drill.name}: run {number + 1} of {options.runs}")
            found = _DrillRun(options, drill, cluster, tools, place.path, number, say, is_apart=is_apart).carry_out()
            reports.append(found)
            place.is_evidence |= not found.passed
            if options.report_directory is not None:
                _draw(options.report_directory, drill, number, found)
    document = report.document(drill.name, reports, seed=options.seed, replicas=options.replicas, rate=options.rate)
    if options.report_directory is not None:
        with open(os.path.join(options.report_directory, f"{drill.name}.json"), "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
    return document


def _enter_own_network(options: DrillOptions, drill: Drill, say: Say) -> bool:
    """Whether the network's rules will distinguish brokers: if the drill needs it, or may draw it and the machine allows it."""
    if not (drill.cuts_network or drill.is_random) or options.power or options.disks or options.compose is not None:
        return False
    if options.directory is not None and drill.cuts_network:
        raise InvalidParameter("--dir", options.directory, "none: brokers are started apart for a partition")
    if drill.cuts_network:
        partition.enter_own_network()
        return True
    try:
        if options.directory is None:
            partition.enter_own_network()
            return True
        reason = "a given cluster stays as it was started"
    except (InvalidParameter, RequirementMissing, SystemFault) as error:
        reason = str(error)
    say(f"no partitions are drawn: {reason}")
    return False


@dataclass(slots=True)
class _Place:
    """The working directory, which contains the cluster's if the drill started that. `is_evidence`: it is kept, after `keep`
    has added what is elsewhere.
    """

    path: str
    is_evidence: bool = False
    keep: Callable[[str], None] = lambda _: None


@contextmanager
def _working_directory(options: DrillOptions, say: Say) -> Iterator[_Place]:
    """Removed at the end, unless it is evidence, or the drill failed."""
    place = _Place(tempfile.mkdtemp(prefix="zenit-drill-"))
    try:
        yield place
    except (
        ConfigError,
        InvalidParameter,
        NoCluster,
        RequirementMissing,
    ):  # impossible here: no evidence
        raise
    except Exception:
        place.is_evidence = True
        raise
    finally:
        if place.is_evidence:
            place.keep(place.path)
            what = "its stores and logs are" if not options.is_given else "what the load noted is"
            what = "its logs are" if options.compose is not None else what
            say(f"{what} kept in {place.path}")
        else:
            shutil.rmtree(place.path, ignore_errors=True)


_Ready = tuple[DrilledCluster, Tools, _Place]


@contextmanager
def _processes(options: DrillOptions, say: Say, *, is_apart: bool) -> Iterator[_Ready]:
    """A cluster of processes, up and in sync, and a working directory. On exit everything is stopped, except a given one."""
    with ExitStack() as unwind:
        place = unwind.enter_context(_working_directory(options, say))
        work = place.path
        drill = options.chosen()
        is_full = options.disks or any(fault.deed is Deed.FULL for fault in drill.faults)
        settings: tuple[str, ...] = ROLLING_SETTINGS if is_full else CLUSTER_SETTINGS
        settings += SHORT_LOG if options.topics == COMPACTED else ()
        settings += ASKING_SETTINGS if drill.is_random else ()
        settings += SYNC_SETTINGS if options.cuts_power or options.disks or drill.wants_sync else ()
        servers = ProcessServers(
            options.directory or os.path.join(work, CLUSTER_FOLDER),
            replicas=options.replicas,
            controllers=options.controllers,
            groups=options.groups,
            settings=settings if options.directory is None else (),
            is_given=options.directory is not None,
            secure=options.secure,
        )
        tools = Tools(processes=servers, seed=options.seed)
        stores = os.path.join(servers.directory, STORE_PREFIX)
        if options.cuts_power:
            tools.power_cut = power_cut.prepare(stores, os.path.join(work, "unsynced"))
            servers.library = tools.power_cut.environment()
        if options.fails_disk:
            tools.disk_faults = disk_faults.prepare(stores, os.path.join(work, "faults"))
            servers.library = tools.disk_faults.environment()
        if options.directory is None:
            say("starting a cluster")
            unwind.callback(servers.down)
            servers.up()
        unwind.enter_context(_reached(servers))
        cluster = DrilledCluster(servers, replicas=options.replicas, groups=options.groups)
        cluster.wait_healthy()
        if is_apart:
            servers.start_apart(cluster.wait_healthy)
        yield cluster, tools, place


@contextmanager
def _project(options: DrillOptions, say: Say) -> Iterator[_Ready]:
    """A running compose project, in sync, and a working directory. On exit its servers run as before."""
    with ExitStack() as unwind:
        place = unwind.enter_context(_working_directory(options, say))
        servers = unwind.enter_context(ComposeServers(options.compose or "", place.path))
        place.keep = servers.keep_logs
        unwind.enter_context(_reached(servers))
        cluster = DrilledCluster(servers, replicas=servers.replicas, groups=len(servers.groups))
        if cluster.replicas < (least := options.chosen().replicas_min):
            raise InvalidParameter("replicas", cluster.replicas, f"{least} or more, for {options.drill}")
        cluster.wait_healthy()
        yield cluster, Tools(seed=options.seed), place


@contextmanager
def _reached(servers: Servers) -> Iterator[None]:
    """Within, this process and those that it starts reach the cluster, as its administrator."""
    wanted = servers.environ()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _DrillRun:
    """One run of a drill. One thread."""

    def __init__(
        self,
        options: DrillOptions,
        drill: Drill,
        cluster: DrilledCluster,
        tools: Tools,
        work: str,
        number: int,
        say: Say,
        *,
        is_apart: bool,
    ) -> None:
        self._options, self._drill, self._is_apart = options, drill, is_apart
        self._cluster, self._tools = cluster, tools
        self._work, self._say = work, say
        self._number = (options.seed * 1_000 + number) & 0xFFFF_FFFF
        self._seed = options.seed + number
        self._topic = f"drill-{os.getpid()}-{number}"
        self._marks: list[Mark] = []
        self._watch = tools.watch = Watch()
        tools.rot = RotAccount()
        self._chance = random.Random(self._seed)

    def carry_out(self) -> RunReport:
        """The whole run."""
        cluster = self._cluster
        cluster.wait_healthy()
        deliveries = DeliveryJob(
            namesrv=cluster.namesrv, bank=f"{self._topic}-bank", popped=f"{self._topic}-popped", seed=self._seed
        )
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(self._topic, queues=QUEUES, attributes=ATTRIBUTES[self._options.topics])
            for topic in (deliveries.bank, deliveries.popped):
                admin.create_topic(topic, queues=QUEUES)
        names = tuple(str(group["broker_name"]) for group in cluster.all_groups())
        job = LoadJob(
            namesrv=cluster.namesrv,
            topic=self._topic,
            run=self._number,
            path="",
            producers=PRODUCERS,
            rate=self._options.rate,
            batch=self._options.messages_a_send,
            singles=SINGLES if self._drill.is_random else 0,
            body_bytes=self._options.body_bytes,
            groups=names,
            is_keyed=self._options.topics == COMPACTED,
        )
        with_deliveries = self._drill.is_random and self._options.topics != COMPACTED
        with (
            watching(cluster.servers, self._watch),
            DrillLoad(job, processes=PROCESSES, directory=self._work) as load,
            DeliveryLoad(deliveries) if with_deliveries else nullcontext() as second,
        ):
            begin_ns = monotonic_ns()
            self._settle(load, self._drill.longest_hold_ms)
            for fault in self._faults():
                self._strike(fault, load)
            if self._options.groups > 1:
                self._settle(load, LAST_SETTLE_MS)
            found: dict[str, Any] = {}
            if second is not None:
                self._say("transfers and pops come to their end")
                found = second.stop()
            end_ns = monotonic_ns()
            result = load.stop()
        self._say(f"{len(result.acknowledged)} acknowledged; reading them back through each replica")
        cluster.wait_level()
        parts = [of_group(result.acknowledged, number) for number in range(len(names))]
        verdicts = [self._verdict(number, part) for number, part in enumerate(parts)]
        group_times_ns = tuple(part["time_ns"] for part in parts)
        differing = cluster.servers.differing_logs(cluster.all_groups())
        late = late_messages(found, dict(zip(names, group_times_ns, strict=True))) if found else []
        return RunReport(
            verdict=together(verdicts),
            times_ns=result.acknowledged["time_ns"],
            begin_ns=begin_ns,
            end_ns=end_ns,
            marks=tuple(self._marks),
            tries_failed=result.tries_failed,
            group_times_ns=group_times_ns,
            producer_times_ns=by_producer(result.acknowledged),
            rot=self._tools.rot,
            violations=(
                *self._watch.violations,
                *cluster.quarantined(),
                *(differing or ()),
                *found.get("violations", ()),
                *late,
            ),
            deliveries=account_of(found) if found else DeliveryAccount(),
            are_logs_compared=differing is not None,
        )

    def _verdict(self, number: int, acknowledged: Table) -> Verdict:
        """The verdict on one group: its acknowledgements against the content of each of its replicas."""
        cluster = self._cluster
        with cluster.servers.client() as client:
            read_back = ReadBack(client, self._topic, group=number, queues=QUEUES, run=self._number)
            replicas = {
                broker.name: read_back.of_replica(broker.address, timeout_ms=READ_MS)
                for broker in cluster.members(cluster.all_groups()[number])
            }
        return check(acknowledged, replicas, is_compacted=self._options.topics == COMPACTED)

    def _faults(self) -> Iterator[Fault]:
        if not self._drill.is_random:
            yield from self._drill.faults
            return
        deadline_ms = monotonic_ms() + round((self._options.minutes or RANDOM_MINUTES) * 60_000)
        conditions = self._options.conditions(is_apart=self._is_apart)
        for fault in random_faults(self._seed, conditions):
            if monotonic_ms() >= deadline_ms:
                return
            yield fault

    def _strike(self, fault: Fault, load: DrillLoad) -> None:
        """Applies one fault and waits until all is in sync again; to several servers one after another if it says so."""
        self._cluster.aim = self._chance.randrange(self._options.groups)
        targets = faults.whom(self._cluster, fault, self._tools.seed)
        for each in [[target] for target in targets] if fault.whom in ONE_BY_ONE else [targets]:
            self._strike_at(fault, each, load)

    def _strike_at(self, fault: Fault, targets: Sequence[ServerRecord], load: DrillLoad) -> None:
        names = ", ".join(target.name for target in targets)
        self._say(f"{fault.deed.value}: {names} ({load.count():,} acknowledged so far)")
        self._tools.seed += 1
        begin_ns = monotonic_ns()
        with faults.begun(self._cluster, fault, targets, self._tools):
            done_ns = monotonic_ns()
            faults.hold(self._cluster.servers, fault, targets, lambda: self._tell(load))
            mend_ns = monotonic_ns()
        name, end_ns = f"{fault.deed.value} {names}", monotonic_ns()
        self._marks.append(
            Mark(name=name, kind=fault.name, begin_ns=begin_ns, done_ns=done_ns, mend_ns=mend_ns, end_ns=end_ns)
        )
        if fault.deed is Deed.POWER_CUT and self._tools.last_cut is not None:
            cut = self._tools.last_cut
            self._say(
                f"the cut took {cut.writes_undone} of {cut.writes_unsynced} writes and {cut.names_undone} of "
                f"{cut.names_unsynced} names that were not synced"
            )
        self._cluster.wait_healthy()
        self._tools.watch.lost_at = None
        self._settle(load)

    def _settle(self, load: DrillLoad, least_ms: int = 0) -> None:
        deadline_ms = monotonic_ms() + max(SETTLE_MS, least_ms)
        while monotonic_ms() < deadline_ms:
            sleep_ms(100)
            self._tell(load)

    def _tell(self, load: DrillLoad) -> None:
        count = load.count()
        self._say(f"{count:,} acknowledged")


def _draw(directory: str, drill: Drill, number: int, found: RunReport) -> None:
    """Writes the picture of a run, NAME-N.svg."""
    title = f"{drill.name}, run {number + 1}: {found.verdict.acknowledged} acknowledged, {found.verdict.lost} lost"
    picture = timeline.render(title, found.times_ns, found.begin_ns, found.end_ns, found.marks)
    with open(os.path.join(directory, f"{drill.name}-{number + 1}.svg"), "w", encoding="utf-8") as file:
        file.write(picture)
