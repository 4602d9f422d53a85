"""The settings of a broker, each with what it trades. Pure."""

from __future__ import annotations

from typing import Final

from ..metrics.config import MetricsConfig
from ..model.cluster_id import check_cluster_setting
from ..model.config import check_settings, section, setting
from ..model.errors import ConfigError, InvalidName
from ..model.events.log_config import LogConfig
from ..model.groups.group_limits import AUTO, REPLICAS_MAX, check_host, is_ip_address
from ..model.names import check_topic
from ..model.plain_dataclass import dataclass
from ..model.security.principals import ANY, Binding
from ..remoting.security.security_config import SecurityConfig
from ..store.config import StoreConfig

TEN_YEARS_MS: Final = 3653 * 24 * 3_600_000
SCRUB_RATE_MIN: Final = 4096  # bytes a second


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerConfig:
    """A broker's own keys, and its store's in [store]. Times in ms; all but those marked online need a restart."""

    cluster: str = setting("zenit", "cluster that the broker registers under")
    cluster_id: str = setting(
        "",
        "the cluster's id, by which it is told from another of its name; empty = the one that the store has, else that"
        " controllers or name servers tell, else a new one",
    )
    name: str = setting("broker-a", "broker name: the replica group; unique within the cluster")
    host: str = setting(
        "127.0.0.1",
        "IP address that clients are told to connect to; it is written into each message; auto = the one that this machine's"
        " own name has, as in a container",
    )
    advertised_host: str = setting(
        "",
        "DNS name or address that clients, replicas and controllers are told instead of `host`: behind a name a broker may"
        " come back with another address",
    )
    listen_host: str = setting("", "IP address to listen on where it is not `host`, such as 0.0.0.0 in a container")
    port: int = setting(10911, "TCP port that clients connect to; 0 takes a free one", minimum=0, maximum=65_535)
    namesrv: tuple[str, ...] = setting(("127.0.0.1:9876",), "name servers to register with, host:port each")
    controllers: tuple[str, ...] = setting(
        (), "controllers that elect the group's master, host:port each; none = this broker is its group's only one"
    )
    static_master: str = setting(
        "",
        "instead of controllers: the address of the broker that is always its group's master, host:port, at each of them;"
        " while that one is down the group takes no writes",
    )
    static_min_in_sync: int = setting(
        2,
        "at the static master: replicas that must be in sync for the group to take writes; 1 writes on with one copy left",
        minimum=1,
        maximum=REPLICAS_MAX,
    )
    replica: str = setting("", "this broker's name within its group, where it has others; empty = `name`")
    role: str = setting(
        "replica",
        "replica: it counts for acknowledgements, and may be elected; follower: it only copies the group's log, from another"
        " site or for backups, until an operator promotes it (zenit broker promote)",
        choices=("replica", "follower"),
    )
    replication_port: int = setting(
        10912, "TCP port that the group's other replicas connect to; 0 takes a free one", minimum=0, maximum=65_535
    )
    replication_lz4: bool = setting(
        False, "compress what this broker fetches as a slave: less network, more work for the master"
    )
    store_dir: str = setting("store", "directory of the commit log, its indexes and the broker's state")
    auto_create_topics: bool = setting(
        False, "a send to an unknown topic creates it: convenient, but a misspelt name becomes a topic"
    )
    auto_create_groups: bool = setting(True, "a consumer's first heartbeat or commit creates its group")
    default_topic_queues: int = setting(8, "queues of a topic created by a send", minimum=1, maximum=1024)
    topic_queues_max: int = setting(1024, "queues of one topic; each takes two files", minimum=1, maximum=65_536)
    heartbeat_ms: int = setting(
        3000,
        "how often clients report; who misses three is gone: shorter rebalances sooner",
        minimum=50,
        maximum=120_000,
    )
    queue_lock_lease_ms: int = setting(
        60_000,
        "how long a member that consumes in order keeps its queues without a sign of life: shorter, and they move sooner"
        " when it dies; a pause of that length costs it its queues; the same at every replica",
        minimum=300,
        maximum=3_600_000,
    )
    clients_max: int = setting(10_000, "clients that may be connected", minimum=1, maximum=1_000_000)
    suspend_ms_max: int = setting(30_000, "how long a pull may wait for a message", minimum=0, maximum=120_000)
    parked_pulls_max: int = setting(20_000, "pulls that may wait at a time", minimum=1, maximum=1_000_000)
    parked_bytes_max: int = setting(32 << 20, "memory that waiting pulls may take", minimum=64 << 10)
    watched_queues_max: int = setting(
        1_000_000,
        "idle queues that are watched for consumers with very many of them; each takes some 300 bytes",
        minimum=1000,
        maximum=100_000_000,
    )
    wakes_per_turn: int = setting(
        256, "waiting pulls looked at in one turn of the loop: more delays sends", minimum=1, maximum=100_000
    )
    worker_threads: int = setting(2, "threads for queries and look-ups by time", minimum=1, maximum=16)
    worker_queue_max: int = setting(256, "queries that may wait for a thread", minimum=1, maximum=100_000)
    register_interval_ms: int = setting(
        600_000, "how often all topics are registered again, though nothing has changed", minimum=100
    )
    namesrv_heartbeat_ms: int = setting(1000, "how often name servers hear from this broker", minimum=50, maximum=5000)
    state_persist_ms: int = setting(
        5000, "how often topics, groups and offsets are written out: longer replays more at a start", minimum=50
    )
    producer_state_retention_ms: int = setting(
        86_400_000,
        "how long what an idempotent producer sent last is remembered: longer takes memory, a try that comes later than that"
        " may store its messages a second time; the same at every replica",
        minimum=60_000,
    )
    producer_states_max: int = setting(
        20_000,
        "idempotent producers times queues that are remembered, under 1 KiB each; while all of them were heard of in the last"
        " ten minutes, further ones are told to wait. As many more of tasks of Spark sinks and others with names of their own,"
        " which are remembered for the whole time; the same at every replica",
        minimum=16,
        maximum=10_000_000,
    )
    timer_delay_ms_max: int = setting(
        TEN_YEARS_MS,
        "how far ahead a message may be delivered; later ones are refused",
        minimum=1000,
        maximum=TEN_YEARS_MS,
    )
    timer_deliver_per_second: int = setting(
        40_000, "delayed messages delivered in a second when many are due at once: more delays sends", minimum=1
    )
    timer_deliver_per_turn: int = setting(
        256, "the same in one turn of the loop: more makes other requests wait longer", minimum=1, maximum=10_000
    )
    transaction_timeout_ms: int = setting(
        6000,
        "how long a transactional message may wait for its producer's decision before the producer is asked, unless the message"
        " itself says; the same at every replica",
        minimum=100,
        maximum=86_400_000,
    )
    transaction_check_interval_ms: int = setting(
        30_000,
        "how often a producer is asked again: shorter decides sooner, and writes each undecided message again as often; the"
        " same at every replica",
        minimum=100,
        maximum=86_400_000,
    )
    transaction_checks_max: int = setting(
        15,
        "how often a producer is asked, before the message is parked for an operator to decide; 0 = never",
        minimum=0,
        maximum=1_000_000,
    )
    pop_checkpoints_max: int = setting(
        1_000_000,
        "replies to pops that are not wholly acknowledged, and messages to be handed out again, that may be open at a time",
        minimum=1,
        maximum=100_000_000,
    )
    pop_renew_ms_max: int = setting(
        10_800_000,
        "so long after it was first renewed a lease is renewed for a client that lives: shorter, and what reached nobody comes"
        " again sooner, but who works on a message for longer has to extend the lease by itself",
        minimum=1_000,
        maximum=1 << 40,
    )
    lite_subscriptions_max: int = setting(
        1_000_000,
        "subscriptions to lite topics that clients may have here together, each some 300 bytes of memory; how many one client"
        " may have is set at its group (lite.sub.client.quota)",
        minimum=1,
        maximum=100_000_000,
    )
    lite_topics_max: int = setting(
        1_000_000,
        "lite topics that one parent may have here: a message to one more is refused",
        minimum=1,
        maximum=100_000_000,
    )
    lite_scan_interval_ms: int = setting(
        120_000,
        "how often it is looked for lite topics that are idle for longer than their parent says",
        minimum=100,
        maximum=86_400_000,
    )
    scrub_interval_ms: int = setting(
        7 * 86_400_000,
        "how long after a scrub of the log the next one begins: shorter finds rotten bits sooner, while a replica still has"
        " them, and reads the disk more often; 0 = none but those asked for",
        minimum=0,
    )
    scrub_bytes_per_second: int = setting(
        16 << 20,
        "how fast a scrub reads: more ends sooner, and takes more from consumers that read the disk",
        minimum=SCRUB_RATE_MIN,
    )
    scrub_busy_share: float = setting(
        0.5,
        "share of a core above which the broker is too busy for a scrub, which then waits; one that was asked for does not",
        minimum=0,
        maximum=64,
    )
    repair_wait_ms: int = setting(
        600_000,
        "how long consumers wait before damaged bytes that a replica may have, while it does not answer; then they go on"
        " behind the messages that are lost",
        minimum=0,
    )
    audit_retention_ms: int = setting(
        30 * 86_400_000,
        "how long the topic ZENIT_AUDIT keeps its entries, up to a day more; the log may have them for longer",
        minimum=3_600_000,
        maximum=TEN_YEARS_MS,
    )
    audit_bytes_max: int = setting(
        1 << 30,
        "how many bytes of entries it keeps beside the log, the oldest go first; an entry takes some 400. This or the time:"
        " whichever is reached first counts",
        minimum=1 << 20,
    )
    store: StoreConfig = section(StoreConfig)
    security: SecurityConfig = section(SecurityConfig)
    log: LogConfig = section(LogConfig)
    metrics: MetricsConfig = section(MetricsConfig)

    def __post_init__(self) -> None:
        """Raises ConfigError if settings contradict each other."""
        check_settings(self)
        for key, value in (("cluster", self.cluster), ("name", self.name), ("replica", self.replica_name)):
            try:
                check_topic(value)
            except InvalidName as error:
                raise ConfigError(key, value, error.rule) from error
        check_cluster_setting(self.cluster_id)
        if self.host != AUTO and not is_ip_address(self.host):
            raise ConfigError("host", self.host, f'an IP address, or "{AUTO}"; a name goes into advertised_host')
        if self.advertised_host:
            check_host("advertised_host", self.advertised_host)
        if not self.store_dir:
            raise ConfigError("store_dir", self.store_dir, "a directory")
        static = (self.static_master,) if self.static_master else ()
        for key, addresses in (
            ("namesrv", self.namesrv),
            ("controllers", self.controllers),
            ("static_master", static),
        ):
            for address in addresses:
                host, _, port = address.rpartition(":")
                if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                    raise ConfigError(key, address, "host:port, several separated by commas")
        if self.controllers and self.static_master:
            raise ConfigError("static_master", self.static_master, "nothing where there are controllers")

        if self.is_follower and not self.has_group:
            raise ConfigError("role", self.role, "replica, where there are neither controllers nor a static master")
        if self.is_follower and self.static_master == self.address_at(self.port):
            raise ConfigError("role", self.role, "replica, at the static master itself: a follower never leads")

    @property
    def is_follower(self) -> bool:
        """It copies the group's log, and counts for nothing else."""
        return self.role == "follower"

    @property
    def replica_name(self) -> str:
        """This broker's name within its group."""
        return self.replica or self.name

    def address_at(self, port: int) -> str:
        """What others are told to connect to, "host:port"."""
        host = self.advertised_host or self.host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def node(self) -> str:
        """Its name in logs."""
        return self.replica_name

    @property
    def group(self) -> str:
        """The replica group that it is in."""
        return self.name

    @property
    def binding(self) -> Binding:
        """Which server it is: its key must be that one's. A broker alone may have the key of any replica."""
        return Binding(self.cluster, self.name, self.replica_name if self.has_group else ANY)

    @property
    def has_group(self) -> bool:
        """True if this broker is one replica of several: it does not just elect itself."""
        return bool(self.controllers or self.static_master)
