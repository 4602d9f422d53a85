"""The table of events: each with its level, its facts, and what it means. Pure.

Code tells one with `telling.tell(log, KIND, field=value, ...)`; docs/events.md is made from this table. Facts hold names,
numbers and addresses; never a message's body, a key or a secret.
"""

from __future__ import annotations

from typing import Final

from .event import EventKind

INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40
CRITICAL: Final = 50

EVENTS: Final[dict[str, EventKind]] = {}
"""Every kind by its name, in the order of the page."""


def _kind(
    name: str, level: int, fields: str, text: str, meaning: str, *, of_group: bool = False, every_ms: int = 1000
) -> EventKind:
    if name in EVENTS:
        raise ValueError(f"event {name} is given twice")
    kind = EventKind(
        name=name,
        level=level,
        text=text,
        fields=tuple(fields.split()),
        help=meaning,
        of_group=of_group,
        every_ms=every_ms,
    )
    EVENTS[name] = kind
    return kind


# ---- replica groups, told by the controller that leads

GROUP_FOUNDED: Final = _kind(
    "group_founded", INFO, "group min_in_sync flush_mode ack_mode", "group founded",
    "A replica group has its first node in ZooKeeper.", of_group=True,
)  # fmt: skip
ELECTED: Final = _kind(
    "elected", INFO, "group epoch master old_master in_sync why", "elected",
    "A replica became master, or the master got another epoch. `why`: what the controller saw, or which operator asked.",
    of_group=True,
)  # fmt: skip
ELECTION_FORCED: Final = _kind(
    "election_forced", WARNING, "group epoch master lost_begin lost_end", "an operator forced the election",
    "A replica that may lack acknowledged messages became master: bytes `lost_begin` to `lost_end` of the log may be lost."
    " An empty range: nobody knows.", of_group=True,
)  # fmt: skip
IN_SYNC_CHANGED: Final = _kind(
    "in_sync_changed", INFO, "group epoch in_sync joined left min_in_sync", "in-sync set",
    "Replicas joined or left the in-sync set. With fewer than `min_in_sync` the group takes no writes.", of_group=True,
)  # fmt: skip
SETTINGS_CHANGED: Final = _kind(
    "settings_changed", INFO, "group epoch min_in_sync flush_mode ack_mode lag_ms_max", "settings changed",
    "An operator changed settings of a group; these are the ones that it has now.", of_group=True,
)  # fmt: skip
REPLICA_JOINED: Final = _kind(
    "replica_joined", INFO, "group replica peer starts", "replica joined",
    "A replica is new to its group, or a new process of it has registered. `starts`: how often its store was started.",
    of_group=True,
)  # fmt: skip
REPLICA_LEFT: Final = _kind(
    "replica_left",
    WARNING,
    "group replica",
    "replica left",
    "An operator removed a replica from its group.",
    of_group=True,
)
REPLICA_FORGETFUL: Final = _kind(
    "replica_forgetful", WARNING, "group replica why", "replica left both sets",
    "A replica may lack what it acknowledged, so it cannot be elected until it has caught up.", of_group=True,
)  # fmt: skip
GROUP_RESTORED: Final = _kind(
    "group_restored", WARNING, "group epoch", "an operator restored the group",
    "After a loss of ZooKeeper's data an operator began the group again above `epoch`.", of_group=True,
)  # fmt: skip
GROUP_STALLED: Final = _kind(
    "group_stalled", ERROR, "group why", "a group stalls and nobody else can lead it",
    "The master is kept from its work, and no other replica may take its place.", of_group=True,
)  # fmt: skip
GROUP_DAMAGED: Final = _kind(
    "group_damaged", ERROR, "group why", "nobody is elected",
    "The group's node in ZooKeeper cannot be read: nobody is elected until it is whole again.", of_group=True,
)  # fmt: skip

# ---- controllers

CONTROLLER_LEADS: Final = _kind(
    "controller_leads", INFO, "controllers", "leading", "This controller decides from now on."
)
CONTROLLER_YIELDS: Final = _kind(
    "controller_yields", WARNING, "peer", "leading no more",
    "This controller decides no more; `peer` leads, if it is known.",
)  # fmt: skip
ZOOKEEPER_LOST: Final = _kind(
    "zookeeper_lost", WARNING, "why", "ZooKeeper does not serve",
    "The connection or the session with ZooKeeper ended: nobody is elected until it is back.",
)  # fmt: skip
ZOOKEEPER_BACK: Final = _kind("zookeeper_back", INFO, "", "connected with ZooKeeper again", "ZooKeeper serves again.")

# ---- brokers

BROKER_STARTED: Final = _kind(
    "broker_started", INFO, "peer kernel", "broker started", "A broker serves at the address `peer`."
)
BROKER_STOPPED: Final = _kind(
    "broker_stopped", INFO, "written", "broker stopped", "A broker stopped as it was told; `written`: its log's end."
)
ROLE_CHANGED: Final = _kind(
    "role_changed", INFO, "epoch replica_role", "role changed", "A replica became master, slave or candidate."
)
DRAIN_STEP: Final = _kind(
    "drain_step", INFO, "replica epoch step", "drain",
    "A replica hands over to others, because it is to end or not to lead; `step`: how far it is.",
)  # fmt: skip
WRITES_REFUSED: Final = _kind(
    "writes_refused", WARNING, "epoch", "writes are refused: too few replicas are in sync",
    "Fewer replicas are in sync than the group's minimum: the master takes no messages.",
)  # fmt: skip
WRITES_TAKEN: Final = _kind(
    "writes_taken", INFO, "epoch", "writes are taken: enough replicas are in sync",
    "Enough replicas are in sync again: the master takes messages.",
)  # fmt: skip
REPLICATION_HALTED: Final = _kind(
    "replication_halted", CRITICAL, "epoch why", "replication is halted",
    "The replica received what cannot be its master's; an operator must look.",
)  # fmt: skip
DISK_FAILED: Final = _kind(
    "disk_failed", CRITICAL, "why", "the disk failed, stopping: nothing is acknowledged any more",
    "A write or a sync of the log failed. The process ends, and counts nothing that it is not sure of.",
)  # fmt: skip
STORE_BEGINS_ANEW: Final = _kind(
    "store_begins_anew", WARNING, "", "the store begins anew",
    "The log cannot continue at its master's: it is fetched from the master again.",
)  # fmt: skip
LOG_CUT: Final = _kind(
    "log_cut", WARNING, "epoch offset", "the log is cut",
    "A slave cut its log at `offset`, from where on it differed from its master's. Nothing acknowledged was there.",
)  # fmt: skip
STORE_EVENT: Final = _kind(
    "store_event", WARNING, "what", "store event",
    "What the store found while it was opened: a torn tail that was cut, an index that is built again, and the like.",
)  # fmt: skip
DAMAGE_FOUND: Final = _kind(
    "damage_found", ERROR, "begin end ranges why", "damage in the log is quarantined",
    "Some bytes from `begin` to `end` of the log are not what was written. Another replica's are fetched, if there is one.",
)  # fmt: skip
DAMAGE_MENDED: Final = _kind(
    "damage_mended", WARNING, "begin end", "damage in the log is made whole",
    "Damaged bytes were replaced with those of another replica.",
)  # fmt: skip
DAMAGE_STAYS: Final = _kind(
    "damage_stays", ERROR, "begin end peer why", "damage not mended",
    "Damaged bytes could not be replaced.",
)  # fmt: skip
COMPACTED_DAMAGE_FOUND: Final = _kind(
    "compacted_damage_found", ERROR, "topic queue offset what why", "a compacted file is damaged",
    "A record of a compacted file is not what was written, or the file's rows (no `offset`) cannot be read; `what`: the file."
    " Our log's record is written again, or another replica's.",
)  # fmt: skip
COMPACTED_DAMAGE_MENDED: Final = _kind(
    "compacted_damage_mended", WARNING, "topic queue offset why", "a compacted record is made whole",
    "A damaged record of a compacted file was replaced; `why`: where its bytes came from.",
)  # fmt: skip
COMPACTED_DAMAGE_STAYS: Final = _kind(
    "compacted_damage_stays", ERROR, "topic queue offset why", "compacted damage not mended",
    "No replica has the record: readers are told that it is lost, and files of its queue are not merged.",
)  # fmt: skip
MESSAGE_HELD: Final = _kind(
    "message_held", WARNING, "what due_ms offset why", "a waiting message is held up by damage",
    "A delayed or half message cannot be read where the log is damaged; it is tried again until it is mended.",
)  # fmt: skip
MESSAGE_LOST: Final = _kind(
    "message_lost", ERROR, "what due_ms offset why", "a waiting message is lost",
    "A delayed or half message cannot be read, and no other replica can help: it is never delivered.",
)  # fmt: skip

# ---- name servers

BROKER_REGISTERED: Final = _kind(
    "broker_registered", INFO, "group epoch peer broker_id topics", "broker registered",
    "A broker, or what it has, is new to this name server, or came back to it.",
)  # fmt: skip
BROKER_LEFT: Final = _kind(
    "broker_left", INFO, "group peer", "broker left", "A broker said that it stops; clients are told of no route to it."
)
BROKER_SILENT: Final = _kind(
    "broker_silent", WARNING, "group peer", "broker is silent and struck off",
    "A broker sent no heartbeat for too long; clients are told of no route to it.",
)  # fmt: skip

# ---- backups, told by the process that makes them

BACKUP_GAP: Final = _kind(
    "backup_gap", ERROR, "group target begin end",
    "retention was faster than the backup: these bytes of the log are in no backup",
    "The store deleted the bytes `begin` to `end` of its log before they were uploaded. The backup goes on behind them.",
)  # fmt: skip
BACKUP_HELD_BY_DAMAGE: Final = _kind(
    "backup_held_by_damage", ERROR, "group directory begin end", "the backup stops before damage of the log",
    "Bytes of the log are not what was written, so they are not uploaded: a replica's broker fetches them from another one."
    " Without another replica, `zenit backup run --past-damage` leaves the segment out.",
    every_ms=60_000,
)  # fmt: skip
BACKUP_FAILED: Final = _kind(
    "backup_failed", WARNING, "group target why code", "the backup could not go on, and is tried again",
    "The target or the store did not do what was asked; `why` says what to do. What the target holds is as before.",
    every_ms=60_000,
)  # fmt: skip

# ---- security, told by every role; rarely, so that whoever knocks for hours does not drive out what else is kept

REFUSALS_MS: Final = 60_000

LOGIN_REFUSED: Final = _kind(
    "login_refused", WARNING, "peer user why code", "login refused",
    "A connection was refused: its key is unknown or revoked, or its user is disabled. `peer`: its IP address.",
    every_ms=REFUSALS_MS,
)  # fmt: skip
RIGHT_REFUSED: Final = _kind(
    "right_refused", WARNING, "peer user request resource why code", "right refused",
    "A request was refused: its user has no right to it. Told once a minute for each user and request, of the first"
    " `resource`.",
    every_ms=REFUSALS_MS,
)  # fmt: skip
USER_CHANGED: Final = _kind(
    "user_changed", INFO, "user by what", "user changed",
    "A user or role was changed by `by`, at the master that tells it. `what`: which of its parts; of a role, its name too.",
)  # fmt: skip
