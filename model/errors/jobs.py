"""What keeps a job of the data pipeline, or an archive that it writes, from going on. Pure."""

from __future__ import annotations

from .base import ZenitError


class JobFailed(ZenitError):
    """Spark gave a job up. Args: job, reason (one line), log_path of what Spark and its workers
    said ("" = nowhere)."""

    code = 9095

    def __init__(self, job: str, reason: str, log_path: str) -> None:
        super().__init__(job, reason, log_path)
        self.job = job
        self.reason = reason
        self.log_path = log_path

    def __str__(self) -> str:
        return f"job {self.job}: {self.reason}" + (f" (log: {self.log_path})" if self.log_path else "")


class ArchiveNotWritable(ZenitError):
    """Nothing can be written where an archive is to be. Args: directory, reason."""

    code = 9096

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory = directory
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot write the archive {self.directory}: {self.reason}"


class ArchiveDamaged(ZenitError):
    """A file that says what an archive holds is not as we write it. Args: path, reason."""

    code = 9097

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} is damaged: {self.reason}; restore it from a copy"


class TargetInUse(ZenitError):
    """Another job works on the same archive or replay. Args: target, owner (as it wrote itself down)."""

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
    """An archive has rows, but no longer the checkpoint which says where it ends, or an older one. Args: directory."""

    code = 9104

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return (
            f"the archive {self.directory} holds rows, but its _checkpoint is gone, another's, or older than they are: rows "
            "would be archived twice, or left out; restore it as it was last, or archive into another directory"
        )


class ArchiveStartLost(ZenitError):
    """Brokers do not keep any more where an archive began whose first batch is not done. Args: directory."""

    code = 9171

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return (
            f"the first batch of the archive {self.directory} is not done, and what the brokers kept of where it began was"
            " dropped: begun anew it could pass rows over; archive into another directory, with --starting where this one began"
        )


class ArchivedTopicReplaced(ZenitError):
    """A topic was deleted and made again since it was archived: offsets of the new one are those of rows that the archive has.

    Args: topic, broker.
    """

    code = 9172

    def __init__(self, topic: str, broker: str) -> None:
        super().__init__(topic, broker)
        self.topic = topic
        self.broker = broker

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} at {self.broker} was deleted and made again since it was archived, and its offsets begin"
            " anew; archive the new one into another directory"
        )


class ReplayChanged(ZenitError):
    """A replay of this name was begun with other options. Args: name, path of its state."""

    code = 9094

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path)
        self.name = name
        self.path = path

    def __str__(self) -> str:
        return f"replay {self.name!r} was begun with other options; give another --name, or delete {self.path}"


class ReplayElsewhere(ZenitError):
    """A replay was begun with another cluster than the one that answers: its chunks were sent there, not here. Args: name, path
    of its state, cluster_id (of the cluster it was begun with), answers_id."""

    code = 9107

    def __init__(self, name: str, path: str, cluster_id: str, answers_id: str) -> None:
        super().__init__(name, path, cluster_id, answers_id)
        self.name = name
        self.path = path
        self.cluster_id = cluster_id
        self.answers_id = answers_id

    def __str__(self) -> str:
        return (
            f"replay {self.name!r} was begun with the cluster of the id {self.cluster_id}, and another one answers, of the id"
            f" {self.answers_id}; give the --namesrv of the first, or another --name to begin anew here ({self.path})"
        )


class QueryFailed(ZenitError):
    """Spark cannot understand or carry out a query in SQL. Args: reason (one line)."""

    code = 9105

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the query failed: {self.reason}"
