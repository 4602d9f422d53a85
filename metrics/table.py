"""Every family of metrics, declared once: the text, the docs, the boards and the alert rules are made of these rows. Pure.

A row says who exports it. Every series has the labels of its process too: `cluster` (not of name servers), `node_type`,
`node_id`, and of a broker `group`, the name of its replica group. RocketMQ 5's families have its names with `zenit_` in
front and base units behind; `rocketmq=` is the name that `metrics.compat = "rocketmq"` adds.
"""

from __future__ import annotations

from typing import Final

from .family import Exporter, Family, FamilyKind

_declared: list[Family] = []
_BROKER: Final = (Exporter.BROKER,)
_SERVERS: Final = (Exporter.BROKER, Exporter.NAME_SERVER, Exporter.CONTROLLER)
_BACKUP: Final = (Exporter.BACKUP,)
_PROXY: Final = (Exporter.PROXY,)
_ALL: Final = (*_SERVERS, Exporter.CANARY, Exporter.BACKUP, Exporter.PROXY)
_CLIENT: Final = (Exporter.CLIENT,)
_TOPIC: Final = ("topic",)
_GROUP: Final = ("topic", "consumer_group")
_QUEUE: Final = ("topic", "queue_id")
_GROUP_QUEUE: Final = ("topic", "consumer_group", "queue_id")
UNITS: Final = ("seconds", "bytes", "ratio")


def _family(
    kind: FamilyKind,
    name: str,
    labels: tuple[str, ...],
    text: str,
    by: tuple[Exporter, ...],
    old: str,
    scale: int,
    detail: bool,
) -> Family:
    stem = name.removesuffix("_total")
    unit = next((unit for unit in UNITS if stem.endswith(f"_{unit}")), "")
    row = Family(name, kind, unit, labels, text, by, old, scale, detail)
    _declared.append(row)
    return row


def _counter(
    name: str,
    text: str,
    labels: tuple[str, ...] = (),
    by: tuple[Exporter, ...] = _BROKER,
    *,
    rocketmq: str = "",
) -> Family:
    return _family(FamilyKind.COUNTER, name, labels, text, by, rocketmq, 1, False)


def _gauge(
    name: str,
    text: str,
    labels: tuple[str, ...] = (),
    by: tuple[Exporter, ...] = _BROKER,
    *,
    rocketmq: str = "",
    scale: int = 1,
    detail: bool = False,
) -> Family:
    return _family(FamilyKind.GAUGE, name, labels, text, by, rocketmq, scale, detail)


def _histogram(
    name: str,
    text: str,
    labels: tuple[str, ...] = (),
    by: tuple[Exporter, ...] = _BROKER,
    *,
    rocketmq: str = "",
    scale: int = 1,
) -> Family:
    return _family(FamilyKind.HISTOGRAM, name, labels, text, by, rocketmq, scale, False)


# ---- the process

BUILD_INFO: Final = _gauge("zenit_build_info", "Always 1; the labels say what runs", ("version", "kernel"), _ALL)
CLOCK: Final = _gauge(
    "zenit_clock_seconds", "The machine's clock, seconds since the epoch, when it was scraped", (), _ALL
)
START_TIME: Final = _gauge("process_start_time_seconds", "When the process started, seconds since the epoch", (), _ALL)
CPU: Final = _counter("process_cpu_seconds_total", "CPU time of the process, user and system", (), _ALL)
RESIDENT: Final = _gauge(
    "process_resident_memory_bytes", "Memory of the process, pages of mapped files among it", (), _ALL
)
ANONYMOUS: Final = _gauge(
    "zenit_process_anonymous_bytes", "Memory of the process without pages of files: what it needs itself", (), _ALL
)
OPEN_FILES: Final = _gauge("process_open_fds", "Open file descriptors", (), _ALL)
SERIES_DROPPED: Final = _gauge(
    "zenit_metrics_series_dropped", "Lines that metrics.series_max kept out of this scrape", (), _ALL
)
SCRAPE_CPU: Final = _gauge(
    "zenit_metrics_scrape_cpu_seconds", "CPU time that the last scrape before this one took", (), _ALL
)
READY: Final = _gauge("zenit_ready", "1 while /readyz says ready", (), (*_SERVERS, Exporter.PROXY))

# ---- the loop

LOOP_TURN: Final = _histogram(
    "zenit_loop_turn_seconds",
    "One turn of the request loop, without the wait for work; one of eight is timed",
    (),
    _SERVERS,
)
LOOP_FAULTS: Final = _counter(
    "zenit_loop_faults_total", "Requests whose handler failed by a defect of ours", (), _SERVERS
)
LOOP_MALFORMED: Final = _counter("zenit_loop_malformed_total", "Requests that broke the protocol", (), _SERVERS)
OTHER_CLUSTER: Final = _counter(
    "zenit_other_cluster_total", "Requests refused because they were meant for another cluster", (), _SERVERS
)
AUTH_REFUSED: Final = _counter(
    "zenit_auth_refused_total",
    "Refused to who may not: connections without a key that is known (connection), requests without the right (request)",
    ("why",),
    _SERVERS,
)
REPLIES_DROPPED: Final = _counter(
    "zenit_replies_dropped_total",
    "Replies that the peer did not read (slow), or was gone for (gone)",
    ("why",),
    _SERVERS,
)
IN_FLIGHT_BYTES: Final = _gauge("zenit_in_flight_bytes", "Payload of requests that are not answered yet", (), _SERVERS)
RPC: Final = _histogram(
    "zenit_rpc_seconds",
    "From the receipt of a request to its answer, waits for disk, replicas or messages too; one turn of eight is timed",
    ("request",),
    _SERVERS,
    rocketmq="rocketmq_rpc_latency",
    scale=1000,
)
RPC_FAILED: Final = _counter(
    "zenit_rpc_failed_total",
    "Requests answered with an error; the code is the error's",
    ("request", "response_code"),
    _SERVERS,
)
LANE_WAITING: Final = _gauge(
    "zenit_lane_waiting",
    "Requests that wait for their turn",
    ("lane",),
    _SERVERS,
    rocketmq="rocketmq_processor_watermark",
)
LANE_IN_FLIGHT: Final = _gauge("zenit_lane_in_flight", "Requests that are not answered yet", ("lane",), _SERVERS)
LANE_HANDLED: Final = _counter("zenit_lane_handled_total", "Requests handled", ("lane",), _SERVERS)
LANE_REFUSED: Final = _counter(
    "zenit_lane_refused_total",
    "Requests refused because the lane was full, or they waited too long",
    ("lane",),
    _SERVERS,
)

# ---- the flow of messages

MESSAGES_IN: Final = _counter(
    "zenit_messages_in_total", "Messages that producers sent", _TOPIC, rocketmq="rocketmq_messages_in_total"
)
BYTES_IN: Final = _counter(
    "zenit_throughput_in_bytes_total", "Their records, in bytes", _TOPIC, rocketmq="rocketmq_throughput_in_total"
)
MESSAGES_OUT: Final = _counter(
    "zenit_messages_out_total",
    "Messages that consumers were given; the group is empty where the reader names none that is known",
    _GROUP,
    rocketmq="rocketmq_messages_out_total",
)
BYTES_OUT: Final = _counter(
    "zenit_throughput_out_bytes_total", "Their records, in bytes", _GROUP, rocketmq="rocketmq_throughput_out_total"
)
MESSAGE_SIZE: Final = _histogram(
    "zenit_message_size_bytes",
    "Records of messages that producers sent; those of one batch count with its mean",
    rocketmq="rocketmq_message_size",
)
SEND_BATCHES: Final = _counter("zenit_send_batches_total", "Batches that producers sent")
PERMISSION: Final = _gauge(
    "zenit_broker_permission",
    "6: takes messages and hands them out; 4: hands them out",
    rocketmq="rocketmq_broker_permission",
)
TOPICS: Final = _gauge("zenit_topics", "Topics", rocketmq="rocketmq_topic_number")
GROUPS: Final = _gauge("zenit_consumer_groups", "Consumer groups", rocketmq="rocketmq_consumer_group_number")
PRODUCER_CONNECTIONS: Final = _gauge(
    "zenit_producer_connections", "Connected clients that produce", rocketmq="rocketmq_producer_connections"
)
CONSUMER_CONNECTIONS: Final = _gauge(
    "zenit_consumer_connections",
    "Connected members of a consumer group",
    ("consumer_group",),
    rocketmq="rocketmq_consumer_connections",
)

# ---- consumer groups; a master says this, of all its queues

LAG: Final = _gauge(
    "zenit_consumer_lag_messages",
    "Messages that a group has yet to consume; those that it has and did not commit are among them",
    _GROUP,
    rocketmq="rocketmq_consumer_lag_messages",
)
LAG_SECONDS: Final = _gauge(
    "zenit_consumer_lag_latency_seconds",
    "Age of the oldest message that a group has yet to consume; 0 if there is none",
    _GROUP,
    rocketmq="rocketmq_consumer_lag_latency",
    scale=1000,
)
IN_FLIGHT: Final = _gauge(
    "zenit_consumer_inflight_messages",
    "Messages that consumers have popped and not acknowledged",
    _GROUP,
    rocketmq="rocketmq_consumer_inflight_messages",
)
READY_MESSAGES: Final = _gauge(
    "zenit_consumer_ready_messages",
    "Messages that a pop would be given now",
    _GROUP,
    rocketmq="rocketmq_consumer_ready_messages",
)
DEAD_LETTERS: Final = _counter(
    "zenit_send_to_dlq_messages_total",
    "Messages given up after their last attempt, or sent to the dead letters by a consumer",
    rocketmq="rocketmq_send_to_dlq_messages_total",
)
RETRIED: Final = _counter("zenit_send_back_messages_total", "Messages that consumers sent back for another attempt")
PULLS_WAITING: Final = _gauge("zenit_pulls_waiting", "Pulls that wait for a message")
POPS_WAITING: Final = _gauge("zenit_pops_waiting", "Pops that wait for a message")
QUEUE_END: Final = _gauge(
    "zenit_queue_end_offset", "The offset behind a queue's last readable message", _QUEUE, detail=True
)
QUEUE_BEGIN: Final = _gauge("zenit_queue_begin_offset", "The first offset that a queue still has", _QUEUE, detail=True)
QUEUE_COMMITTED: Final = _gauge(
    "zenit_queue_committed_offset", "The offset that a group consumes next", _GROUP_QUEUE, detail=True
)
QUEUE_LAG: Final = _gauge(
    "zenit_queue_lag_messages", "Messages of a queue that a group has yet to consume", _GROUP_QUEUE, detail=True
)

# ---- transactions, delayed messages, pops, lite topics

HALVES: Final = _gauge(
    "zenit_half_messages", "Transactional messages that wait to be decided", rocketmq="rocketmq_half_messages"
)
HALF_OLDEST: Final = _gauge(
    "zenit_half_overdue_seconds", "For how long the producer of the longest waiting one should have been asked"
)
COMMITTED: Final = _counter(
    "zenit_commit_messages_total", "Transactional messages committed", rocketmq="rocketmq_commit_messages_total"
)
ROLLED_BACK: Final = _counter(
    "zenit_rollback_messages_total", "Transactional messages rolled back", rocketmq="rocketmq_rollback_messages_total"
)
HALVES_ASKED: Final = _counter("zenit_half_checks_total", "Questions to producers about their transactions")
HALVES_PARKED: Final = _counter("zenit_half_parked_total", "Transactional messages left for an operator to decide")
TIMERS: Final = _gauge(
    "zenit_timing_messages", "Delayed messages that wait for their time", rocketmq="rocketmq_timing_messages"
)
TIMER_LAG: Final = _gauge(
    "zenit_timer_dequeue_lag_seconds",
    "How late the delayed message that is due first is",
    rocketmq="rocketmq_timer_dequeue_latency",
    scale=1000,
)
TIMER_DELIVERED: Final = _counter(
    "zenit_timer_dequeue_total", "Delayed messages delivered", rocketmq="rocketmq_timer_dequeue_total"
)
TIMER_DISCARDED: Final = _counter(
    "zenit_timer_discarded_total", "Delayed messages not delivered, because they were recalled or their topic is gone"
)
TIMER_DAMAGED: Final = _gauge("zenit_timer_damaged", "Delayed messages that damage keeps from being delivered")
POP_CHECKPOINTS: Final = _gauge(
    "zenit_pop_checkpoints",
    "Replies to pops that are not wholly acknowledged, and messages to be handed out again",
    rocketmq="rocketmq_pop_checkpoint_buffer_size",
)
POP_RETURNED: Final = _counter(
    "zenit_pop_revive_retry_messages_total",
    "Popped messages that were not acknowledged in time and are handed out again",
    rocketmq="rocketmq_pop_revive_retry_messages_total",
)
POP_ACKED: Final = _counter("zenit_pop_acked_messages_total", "Popped messages that were acknowledged")
LITE_QUEUES: Final = _gauge("zenit_lite_topics", "Lite topics that have messages")
LITE_COLLECTED: Final = _counter("zenit_lite_collected_total", "Lite topics removed because they were idle")

# ---- the store

STORE_SIZE: Final = _gauge("zenit_store_size_bytes", "The commit log", rocketmq="rocketmq_storage_size")
STORE_WRITTEN: Final = _counter("zenit_store_written_bytes_total", "The end of the commit log")
FLUSH_BEHIND: Final = _gauge(
    "zenit_store_flush_behind_bytes",
    "Written, and not on the disk for certain",
    rocketmq="rocketmq_storage_flush_behind_bytes",
)
DISPATCH_BEHIND: Final = _gauge(
    "zenit_store_dispatch_behind_bytes",
    "Written, and not yet durable in queues and index: a start reads it again",
    rocketmq="rocketmq_storage_dispatch_behind_bytes",
)
RESERVE: Final = _gauge(
    "zenit_store_message_reserve_seconds",
    "Age of the oldest message in the log",
    rocketmq="rocketmq_storage_message_reserve_time",
    scale=1000,
)
FLUSH: Final = _histogram("zenit_store_flush_seconds", "One sync of the log to the disk")
WRITABLE: Final = _gauge("zenit_store_writable", "1 while the store takes messages")
DISK_FREE: Final = _gauge("zenit_store_disk_free_bytes", "Free space on the store's disk")
DISK_SIZE: Final = _gauge("zenit_store_disk_size_bytes", "Size of the store's disk")
DAMAGED: Final = _counter("zenit_store_damaged_ranges_total", "Damaged ranges found in the log")
QUARANTINED: Final = _gauge("zenit_store_quarantined_bytes", "Damaged bytes that no replica has repaired")
UNREAD_DELETED: Final = _counter(
    "zenit_store_unread_deleted_total", "Messages deleted before a group had consumed them, or a reader that held them"
)
QUEUES: Final = _gauge("zenit_store_queues", "Queues, those of lite topics not among them")
INDEX_ENTRIES: Final = _gauge("zenit_store_index_entries", "Keys in the index")
SENDS_WAITING: Final = _gauge("zenit_sends_waiting", "Sends that are in the log and wait for the disk or for replicas")

# ---- replicas

IS_MASTER: Final = _gauge("zenit_replica_is_master", "1 if this broker is its group's master")
EPOCH: Final = _gauge("zenit_group_epoch", "The group's epoch, as this replica knows it")
IN_SYNC: Final = _gauge("zenit_group_in_sync", "Replicas in sync; the master says this")
MIN_IN_SYNC: Final = _gauge("zenit_group_min_in_sync", "Replicas that must be in sync for writes; the master says this")
REPLICAS: Final = _gauge("zenit_group_replicas", "Replicas that the group has; the master says this")
REPLICA_LAG: Final = _gauge(
    "zenit_replica_lag_bytes", "What another replica has yet to write; the master says this", ("replica",)
)
CAUGHT_UP: Final = _gauge(
    "zenit_replica_caught_up_seconds",
    "How long ago another replica had everything; the master says this",
    ("replica",),
)
ELECTIONS: Final = _counter(
    "zenit_elections_total",
    "Masters elected by this controller; forced: an operator gave up messages",
    ("group", "forced"),
    (Exporter.CONTROLLER,),
)
LEADER: Final = _gauge("zenit_controller_is_leader", "1 if this controller leads", (), (Exporter.CONTROLLER,))
GROUPS_WATCHED: Final = _gauge("zenit_controller_groups", "Groups that it watches", (), (Exporter.CONTROLLER,))

# ---- name servers

NAMESRV_BROKERS: Final = _gauge("zenit_namesrv_brokers", "Registered brokers", (), (Exporter.NAME_SERVER,))
NAMESRV_TOPICS: Final = _gauge("zenit_namesrv_topics", "Topics of all brokers", (), (Exporter.NAME_SERVER,))
NAMESRV_STRUCK: Final = _counter(
    "zenit_namesrv_brokers_lost_total", "Brokers struck off because they were silent", (), (Exporter.NAME_SERVER,)
)
NAMESRV_PUBLISHED: Final = _counter(
    "zenit_namesrv_routes_published_total", "Changes of routes told to clients", (), (Exporter.NAME_SERVER,)
)

# ---- clients

CLIENT_SENT: Final = _counter(
    "zenit_client_sent_messages_total", "Messages that were acknowledged", ("topic",), _CLIENT
)
CLIENT_FAILED: Final = _counter(
    "zenit_client_send_failed_messages_total", "Messages given up after the last attempt", ("topic",), _CLIENT
)
CLIENT_SEND: Final = _histogram(
    "zenit_client_send_seconds",
    "A send, all its attempts among it",
    (),
    _CLIENT,
    rocketmq="rocketmq_send_cost_time",
    scale=1000,
)
CLIENT_CONSUMED: Final = _counter(
    "zenit_client_consumed_messages_total", "Messages handed to the program", ("topic", "consumer_group"), _CLIENT
)
CLIENT_PROCESS: Final = _histogram(
    "zenit_client_process_seconds",
    "One call of the program's handler",
    ("consumer_group",),
    _CLIENT,
    rocketmq="rocketmq_process_time",
    scale=1000,
)

# ---- the canary

CANARY: Final = _gauge(
    "zenit_canary_seconds",
    "From the send of the last probe of a group to its receipt; while one is lost, its age",
    ("group",),
    (Exporter.CANARY,),
)
CANARY_ROUND: Final = _histogram(
    "zenit_canary_round_seconds", "From the send of a probe to its receipt", ("group",), (Exporter.CANARY,)
)
CANARY_FAILED: Final = _counter(
    "zenit_canary_failed_total",
    "Probes that could not be sent (send), or did not come back in time (receive)",
    ("group", "step"),
    (Exporter.CANARY,),
)

# ---- a proxy

PROXY_CLIENTS: Final = _gauge("zenit_proxy_clients", "RocketMQ's clients that live, by their heartbeats", (), _PROXY)
PROXY_USERS: Final = _gauge("zenit_proxy_users", "Users in whose name it asks brokers, its own among them", (), _PROXY)
PROXY_POLLS: Final = _gauge("zenit_proxy_polls", "Receives and pulls that may wait for messages", ("protocol",), _PROXY)
PROXY_SECONDS: Final = _histogram(
    "zenit_proxy_request_seconds",
    "From a request's decoding to its answer; of receives and pulls with the time for which they wait",
    ("protocol", "method"),
    _PROXY,
)
PROXY_ERRORS: Final = _counter(
    "zenit_proxy_errors_total",
    "Requests that were answered with an error, by its name in the protocol",
    ("protocol", "method", "code"),
    _PROXY,
)

# ---- a backup

BACKUP_END: Final = _gauge("zenit_backup_end_offset", "How far the log is uploaded", ("group",), _BACKUP)
BACKUP_LAG: Final = _gauge(
    "zenit_backup_lag_bytes", "What of the log could be uploaded and is not yet", ("group",), _BACKUP
)
BACKUP_AGE: Final = _gauge(
    "zenit_backup_age_seconds", "Since the last run that ended without an error", ("group",), _BACKUP
)
BACKUP_UPLOADED: Final = _counter("zenit_backup_uploaded_bytes_total", "Uploaded", ("group",), _BACKUP)
BACKUP_MISSED: Final = _gauge(
    "zenit_backup_missed_bytes",
    "Since its process began: of the log that retention deleted before it was uploaded; it is in no backup",
    ("group",),
    _BACKUP,
)
BACKUP_HELD: Final = _gauge(
    "zenit_backup_held", "1 while damage of the log holds the backup up, else 0", ("group",), _BACKUP
)
BACKUP_FAILURES: Final = _counter(
    "zenit_backup_failed_total", "Runs that ended with an error, and are tried again", ("group",), _BACKUP
)

FAMILIES: Final = tuple(_declared)
BY_NAME: Final = {family.name: family for family in FAMILIES}
