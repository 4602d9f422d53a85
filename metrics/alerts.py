"""Every alert. The rules for Prometheus and the page that says what to do are made of these rows. Pure."""

from __future__ import annotations

from typing import Final

from .alert import PAGE, WARN, Alert

_FAILED: Final = (
    "INTERNAL_SERVER_ERROR|HA_NOT_AVAILABLE|PROXY_TIMEOUT|MASTER_PERSISTENCE_TIMEOUT|SLAVE_PERSISTENCE_TIMEOUT|TOO_MANY_REQUESTS"
    "|SYSTEM_ERROR|SYSTEM_BUSY|SERVICE_NOT_AVAILABLE"
)
"""Codes of a proxy's answers, of both protocols, that are no fault of the request."""

ALERTS: Final = (
    Alert(
        name="Down",
        expression='up{job=~"zenit.*"} == 0',
        wait="1m",
        severity=PAGE,
        summary="{{ $labels.instance }} does not answer scrapes",
        means="The process is down, its machine is, or the network between it and Prometheus is cut.",
        look="`zenit status` on its machine, the last lines of its log, and whether other processes of that machine answer.",
        do=(
            "Start it again on its directory: it recovers by itself. If it ended with status 86 its disk failed: replace the"
            " disk, and start the broker with an empty directory, so that it copies its group's log."
        ),
    ),
    Alert(
        name="NotReady",
        expression="zenit_ready == 0",
        wait="5m",
        severity=WARN,
        summary="{{ $labels.node_id }} is alive and not ready",
        means="The process answers, and says that it cannot do its work: it starts, recovers, is not in sync, or lacks room.",
        look="`/readyz` at its metrics port: each line is a reason.",
        do="What the reason says. A broker that recovers a large store needs minutes, one that copies a log longer.",
    ),
    Alert(
        name="NoMaster",
        expression=(
            "sum by (cluster, group) (zenit_replica_is_master) < 1 or absent(zenit_replica_is_master)"
            " or count by (cluster, group) (zenit_replica_is_master offset 10m)"
            " unless count by (cluster, group) (zenit_replica_is_master)"
        ),
        wait="15s",
        severity=PAGE,
        summary="group {{ $labels.group }} has no master",
        means="Nobody takes messages for this group, and an election did not end within 15 seconds.",
        look="`zenit status`, and `zenit controller status GROUP`: who may be elected, and what keeps them from it.",
        do=(
            "Start the replicas that it names. If none of them can come back, `zenit controller elect GROUP --force` gives up"
            " what the chosen one lacks; see docs/replicas.md first."
        ),
    ),
    Alert(
        name="TwoMasters",
        expression="sum by (cluster, group) (zenit_replica_is_master) > 1",
        wait="30s",
        severity=PAGE,
        summary="group {{ $labels.group }} has {{ $value }} masters",
        means=(
            "Two processes take themselves for the master. An old master that is cut off stops by itself; this one has not yet"
            " heard of its successor, or two groups of one cluster have one name. What it stores alone it never acknowledges,"
            " unless its group has a static master or `ack = master`."
        ),
        look="`zenit_group_epoch` of both: the lower one is the old master. Whether it reaches the controllers.",
        do="Mend its network, or stop it. If two groups have one name, give one of them another.",
    ),
    Alert(
        name="BelowMinInSync",
        expression="zenit_group_in_sync < zenit_group_min_in_sync",
        wait="30s",
        severity=PAGE,
        summary="group {{ $labels.group }} refuses writes: {{ $value }} in sync",
        means="Fewer replicas are in sync than the group requires, so it refuses messages rather than risk them.",
        look="`zenit status`: which replica is missing, and the alerts about that one.",
        do=(
            "Bring the missing replica back. If that takes long: `zenit controller settings GROUP --min-in-sync N` lowers the"
            " bound; with 1, the loss of the last disk loses acknowledged messages."
        ),
    ),
    Alert(
        name="ReplicaMissing",
        expression="zenit_group_in_sync < zenit_group_replicas",
        wait="10m",
        severity=WARN,
        summary="group {{ $labels.group }} has {{ $value }} replicas in sync, fewer than it has",
        means="The group works, with fewer copies than planned. One failure more may stop its writes.",
        look="`zenit status`: the replica that is down, or behind; its log.",
        do="Start it. One that is gone for good: `zenit controller remove GROUP REPLICA`, and start another in its place.",
    ),
    Alert(
        name="Elections",
        expression="sum by (cluster, group) (increase(zenit_elections_total[15m])) > 3",
        wait="",
        severity=WARN,
        summary="group {{ $labels.group }} changed its master {{ $value }} times in 15 minutes",
        means="The mastership moves to and fro. Each change costs producers about two seconds.",
        look="`zenit events`: why each was elected. `zenit_loop_turn_seconds`, `zenit_store_flush_seconds` of old masters.",
        do="Mostly a disk that hangs, a machine that is paused or overloaded, or a bad network: take that replica out.",
    ),
    Alert(
        name="ForcedElection",
        expression='increase(zenit_elections_total{forced="true"}[15m]) > 0',
        wait="",
        severity=PAGE,
        summary="an operator forced an election in group {{ $labels.group }}",
        means="A replica became master that may lack acknowledged messages.",
        look="`zenit events`: who was elected, and which bytes of the log were given up.",
        do="Make sure that it was meant. Keep the directory of the old master until its messages were looked through.",
    ),
    Alert(
        name="ReplicaBehind",
        expression="zenit_replica_caught_up_seconds > 5",
        wait="2m",
        severity=WARN,
        summary="{{ $labels.replica }} of group {{ $labels.group }} is {{ $value }} s behind",
        means="A replica cannot follow its master. After the group's `lag_ms_max` it is no longer in sync.",
        look="`zenit_replica_lag_bytes`: does it shrink? `zenit_store_flush_seconds` and the load of that machine.",
        do="If it shrinks, wait. Else its disk or network is too slow for the load: relieve or replace it.",
    ),
    Alert(
        name="SlowFlush",
        expression=(
            "histogram_quantile(0.99, sum by (cluster, node_id, le) (rate(zenit_store_flush_seconds_bucket[5m]))) > 0.25"
        ),
        wait="5m",
        severity=WARN,
        summary="syncs of {{ $labels.node_id }} take {{ $value }} s",
        means="The disk takes long to make the log durable. Under `flush = sync` every send waits for that.",
        look="The machine's disk: its queue, other programs that use it, its health (SMART).",
        do="Move the others away, or the store to a faster disk.",
    ),
    Alert(
        name="DiskFillsSoon",
        expression="predict_linear(zenit_store_disk_free_bytes[6h], 4 * 3600) < 0",
        wait="30m",
        severity=WARN,
        summary="the disk of {{ $labels.node_id }} is full in less than four hours",
        means="If it goes on as in the last six hours, the store soon deletes early, and then refuses messages.",
        look="`zenit_store_size_bytes`: is it the log? `zenit store size DIR`, and what else is on that disk.",
        do="Lower `store.retention_ms` or set `store.retention_bytes`, give the disk more room, or remove what is not ours.",
    ),
    Alert(
        name="NotWritable",
        expression="zenit_store_writable == 0",
        wait="30s",
        severity=PAGE,
        summary="{{ $labels.node_id }} takes no messages",
        means="The disk is fuller than `store.disk_refuse_ratio`, or a write found no room. Reads go on.",
        look="`/readyz` of the broker says which; `zenit_store_disk_free_bytes`.",
        do="Free space: writes go on by themselves. Do not delete files of the store by hand.",
    ),
    Alert(
        name="UnreadDeleted",
        expression="increase(zenit_store_unread_deleted_total[1h]) > 0",
        wait="",
        severity=PAGE,
        summary="{{ $labels.node_id }} deleted {{ $value }} messages that a group had yet to consume",
        means="Retention went over messages that nobody had read, because the disk was short or `delete_unconsumed` says so.",
        look="The broker's log names topic, queue and offsets; `zenit group describe` shows who is behind.",
        do="Those messages are gone. Make consumers faster, or keep more: `store.retention_bytes`, a larger disk.",
    ),
    Alert(
        name="Damage",
        expression="increase(zenit_store_damaged_ranges_total[1h]) > 0 or zenit_store_quarantined_bytes > 0",
        wait="",
        severity=WARN,
        summary="{{ $labels.node_id }} has damaged bytes in its log",
        means="Bytes of the log do not match their checksums. Consumers are never given them; a replica repairs what it has.",
        look="`zenit status`: damaged and mended ranges. The machine's kernel log for disk and memory errors.",
        do="If `zenit_store_quarantined_bytes` stays, no replica has them: see docs/operate.md. Replace such a disk.",
    ),
    Alert(
        name="GroupLate",
        expression=(
            "max by (cluster, consumer_group, topic) (zenit_consumer_lag_latency_seconds) > 300"
            " and on (cluster, consumer_group, topic)"
            " max by (cluster, consumer_group, topic) (deriv(zenit_consumer_lag_latency_seconds[10m])) >= 0"
        ),
        wait="10m",
        severity=WARN,
        summary="{{ $labels.consumer_group }} is {{ $value }} s late in {{ $labels.topic }}, and does not catch up",
        means="The oldest message that the group has yet to consume is over five minutes old, and grows older.",
        look="`zenit group describe GROUP`: one queue, or all? `/metrics/detail?topic=` shows each queue.",
        do=(
            "All queues: add consumers, or make the handler faster. One queue: its owner hangs, or a message fails again and"
            " again in order; restart that consumer, or see its log."
        ),
    ),
    Alert(
        name="NobodyConsumes",
        expression=(
            "sum by (cluster, consumer_group) (zenit_consumer_lag_messages) > 0"
            " unless on (cluster, consumer_group) sum by (cluster, consumer_group) (zenit_consumer_connections) > 0"
        ),
        wait="10m",
        severity=WARN,
        summary="nobody consumes for {{ $labels.consumer_group }}, {{ $value }} messages wait",
        means="Messages wait for a group that has no connected member.",
        look="Whether its program runs, and reaches the brokers; whether the group is still in use.",
        do="Start it. A group that is no longer used: `zenit group delete GROUP`, so that retention does not wait for it.",
    ),
    Alert(
        name="DeadLetters",
        expression="increase(zenit_send_to_dlq_messages_total[10m]) > 0",
        wait="",
        severity=WARN,
        summary="{{ $value }} messages became dead letters at {{ $labels.node_id }}",
        means="Consumers failed on these messages until their last attempt.",
        look="`zenit dlq list`, `zenit dlq show GROUP`: the reason of each.",
        do="Correct the handler, then `zenit dlq redrive GROUP`.",
    ),
    Alert(
        name="Refusing",
        expression="sum by (cluster, node_id, lane) (rate(zenit_lane_refused_total[5m])) > 1",
        wait="5m",
        severity=WARN,
        summary="{{ $labels.node_id }} refuses {{ $value }} requests a second in lane {{ $labels.lane }}",
        means="More requests come than the process can answer. Clients are told to wait and try again.",
        look="`zenit_loop_turn_seconds`, CPU; which requests come (`zenit_rpc_seconds_count` by request).",
        do="Larger batches cost less; spread topics over more groups; look for a client that asks in a loop.",
    ),
    Alert(
        name="LoopSlow",
        expression=(
            "histogram_quantile(0.99, sum by (cluster, node_id, le) (rate(zenit_loop_turn_seconds_bucket[5m]))) > 0.1"
        ),
        wait="5m",
        severity=WARN,
        summary="one turn in a hundred of {{ $labels.node_id }} takes over {{ $value }} s",
        means="The loop that does everything is held up: all requests wait meanwhile.",
        look="CPU that other programs take, swapping, `zenit broker stats` (time by stage).",
        do="Give the process a core and memory of its own. If it stays, send us `zenit debug bundle`.",
    ),
    Alert(
        name="DelaysLate",
        expression="zenit_timer_dequeue_lag_seconds > 10",
        wait="1m",
        severity=WARN,
        summary="delayed messages of {{ $labels.node_id }} are {{ $value }} s late",
        means="More delayed messages are due than are delivered, or damage keeps one back.",
        look="`zenit_timing_messages`, `zenit_timer_damaged`, the rate of `zenit_timer_dequeue_total`.",
        do="Many due at once: wait, or raise `timer_deliver_per_second`. Damaged ones: see the alert Damage.",
    ),
    Alert(
        name="HalvesOld",
        expression="zenit_half_overdue_seconds > 600 or increase(zenit_half_parked_total[10m]) > 0",
        wait="",
        severity=WARN,
        summary="transactions of {{ $labels.node_id }} are not decided",
        means="A producer sent transactional messages and does not say whether they count; nobody sees them meanwhile.",
        look="`zenit transaction list`: of which group. Whether its producer runs, and answers checks.",
        do="Start the producer. What is parked waits for you: `zenit transaction commit` or `rollback`.",
    ),
    Alert(
        name="AuthRefused",
        expression="sum by (cluster, node_id, why) (rate(zenit_auth_refused_total[5m])) > 1",
        wait="5m",
        severity=WARN,
        summary="{{ $labels.node_id }} refuses {{ $value }} a second ({{ $labels.why }})",
        means="Somebody asks again and again for what it may not: without a known key, or without the right.",
        look="`zenit events`: which user, from where, for what. `zenit explain` says by which rule.",
        do="A program with an old key or a missing right: give it one. A stranger: close the network to it.",
    ),
    Alert(
        name="ProxyFails",
        expression=(
            f'sum by (cluster, node_id) (rate(zenit_proxy_errors_total{{code=~"{_FAILED}"}}[5m])) > 0.1 + 0.05 *'
            ' sum by (cluster, node_id) (rate(zenit_proxy_request_seconds_bucket{le="+Inf"}[5m]))'
        ),
        wait="5m",
        severity=WARN,
        summary="{{ $labels.node_id }} answers {{ $value }} requests a second with an error",
        means=(
            "One request in twenty of RocketMQ's clients fails at this proxy though nothing is wrong with it: the cluster does"
            " not answer it in time, or too much is under way."
        ),
        look=(
            "`zenit_proxy_errors_total` by method and code, the proxy's log, and alerts about brokers. At another proxy it is"
            " the same if the cluster is the cause. `zenit doctor --proxy` with its metrics' port."
        ),
        do=(
            "Mend what the other alerts name. `SYSTEM_BUSY` and `TOO_MANY_REQUESTS` alone: start another proxy, or find the"
            " client that sends so much or signs wrongly, which the log names."
        ),
    ),
    Alert(
        name="ClockApart",
        expression="abs(zenit_clock_seconds - timestamp(zenit_clock_seconds)) > 1",
        wait="5m",
        severity=WARN,
        summary="the clock of {{ $labels.node_id }} is {{ $value }} s apart from Prometheus's",
        means="Clocks differ. Store times, delays and searches by time are then wrong; elections and leases are not.",
        look="`timedatectl` or `chronyc tracking` on both machines. If all processes are apart, it is Prometheus's clock.",
        do="Mend the time service. Do not set the clock by hand while brokers run: let it be slewed.",
    ),
    Alert(
        name="Canary",
        expression="zenit_canary_seconds > 1 or absent(zenit_canary_seconds)",
        wait="1m",
        severity=PAGE,
        summary="a message through group {{ $labels.group }} takes {{ $value }} s",
        means="What producers and consumers see: a probe did not come back within a second, or nobody sends probes.",
        look="`zenit_canary_failed_total`: did the send fail, or the receipt? Then the alerts about that group.",
        do="What those say. Without a canary: start `zenit canary` (docs/metrics.md), or silence this alert.",
    ),
    Alert(
        name="BackupGap",
        expression="zenit_backup_missed_bytes > 0",
        wait="",
        severity=PAGE,
        summary="{{ $value }} bytes of the log of {{ $labels.group }} are in no backup",
        means="Retention deleted bytes of the log before they were uploaded. The backup goes on behind them.",
        look="The event `backup_gap` in the backup's log says which; `zenit backup status` shows all gaps.",
        do="Raise `store.retention_ms` or `store.retention_bytes`, so that retention waits longer than a backup may be away. It"
        " fires until the process is started again.",
    ),
    Alert(
        name="BackupLate",
        expression="zenit_backup_age_seconds > 1800 or zenit_backup_held > 0",
        wait="5m",
        severity=WARN,
        summary="the backup of {{ $labels.group }} does not go on",
        means="No run has ended without an error for half an hour, or damage of the log holds it up. Retention may delete what"
        " is not uploaded.",
        look="The events `backup_failed` and `backup_held_by_damage` in its log say why. `zenit_backup_lag_bytes`: is it slow?",
        do="What the event says (docs/backup.md). If its machine is gone, start it at another replica.",
    ),
    Alert(
        name="SeriesDropped",
        expression="zenit_metrics_series_dropped > 0",
        wait="10m",
        severity=WARN,
        summary="{{ $labels.node_id }} leaves out {{ $value }} lines of each scrape",
        means="There are more topics and groups than `metrics.series_max` lets through; those left out are not watched.",
        look="`zenit_topics` and `zenit_consumer_groups`: did a program make them by mistake?",
        do="Delete what is not used, or raise `metrics.series_max`.",
    ),
)
