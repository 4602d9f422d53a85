"""Errors of the data pipeline's jobs and of archives. Pure."""

from __future__ import annotations

from .base import ZenitError


class JobFailed(ZenitError):
    """A job failed in Spark. Args: job, reason (one line), log_path of the output of Spark and its workers ("" = none)."""

    code = 9095

    def __init__(self, job: str, reason: str, log_path: str) -> None:
        super().__init__(job, reason, log_path)
        self.job = job
        self.reason = reason
        self.log_path = log_path

    def __str__(self) -> str:
        return f"job {self.job}: {self.reason}" + (f" (log: {self.log_path})" if self.log_path else "")


class ArchiveNotWritable(ZenitError):
    """The directory of an archive cannot be written. Args: directory, reason."""

    code = 9096

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory = directory
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot write the archive {self.directory}: {self.reason}"


class ArchiveDamaged(ZenitError):
    """A file that describes an archive is damaged. Args: path, reason."""

    code = 9097

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} is damaged: {self.reason}; restore it from a copy"


class TargetInUse(ZenitError):
    """Another job works on the same archive or replay. Args: target, owner (as its lock file names it)."""

    code, retriable = 9098, True

    def __init__(self, target: str, owner: str) -> None:
        super().__init__(target, owner)
        self.target = target
        self.owner = owner

    def __str__(self) -> str:
        return f"another job works on {self.target} ({self.owner}); wait for it or stop it"


class NoArchive(ZenitError):
    """A directory holds no archive. Args: directory."""

    code = 9099

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"no archive in {self.directory}; make one: zenit job run archive --topics T --target {self.directory}"


class CheckpointLost(ZenitError):
    """An archive has rows, but its checkpoint is missing, foreign or older. Args: directory."""

    code = 9104

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return (
            f"the archive {self.directory} holds rows, but its _checkpoint is missing, of another archive, or older"
            " than the rows: "
            "rows would be archived twice, or left out; restore the latest _checkpoint, or archive into another directory"
        )


class ArchiveStartLost(ZenitError):
    """The brokers dropped the begin of an archive whose first batch is not done. Args: directory."""

    code = 9171

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return (
            f"the first batch of the archive {self.directory} is not done, and the brokers dropped the record of its"
            " begin: a new"
            " begin could skip rows; archive into another directory, with --starting where this one began"
        )


class ArchivedTopicReplaced(ZenitError):
    """An archived topic was deleted and created again: its offsets are already those of other rows in the archive.

    Args: topic, broker.
    """

    code = 9172

    def __init__(self, topic: str, broker: str) -> None:
        super().__init__(topic, broker)
        self.topic = topic
        self.broker = broker

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} at {self.broker} was deleted and created again since it was archived, and its offsets begin"
            " again; archive the new topic into another directory"
        )


class ReplayChanged(ZenitError):
    """A replay of this name began with other options. Args: name, path of its state."""

    code = 9094

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path)
        self.name = name
        self.path = path

    def __str__(self) -> str:
        return f"replay {self.name!r} began with other options; give another --name, or delete {self.path}"


class ReplayElsewhere(ZenitError):
    """A replay began with another cluster than the one that answers. Args: name, path
    of its state, cluster_id (of the cluster it began with), answers_id."""

    code = 9107

    def __init__(self, name: str, path: str, cluster_id: str, answers_id: str) -> None:
        super().__init__(name, path, cluster_id, answers_id)
        self.name = name
        self.path = path
        self.cluster_id = cluster_id
        self.answers_id = answers_id

    def __str__(self) -> str:
        return (
            f"replay {self.name!r} began with the cluster of the id {self.cluster_id}, but the cluster of the id"
            f" {self.answers_id}"
            f" answers; give the --namesrv of the first, or another --name for a new replay here ({self.path})"
        )


class QueryFailed(ZenitError):
    """Spark cannot parse or execute an SQL query. Args: reason (one line)."""

    code = 9105

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the query failed: {self.reason}"
