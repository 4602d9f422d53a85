"""Errors of names, parameters, configuration, and of the cluster on this machine. Pure."""

from __future__ import annotations

from .base import ZenitError


class TopicNotFound(ZenitError):
    """The topic does not exist at the server that was asked. Args: topic."""

    code, route_stale = 17, True

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} does not exist; create it: zenit topic create {self.topic} --queues 8, or Admin.create_topic"
            " (if it existed before, its broker is down: zenit status)"
        )


class TopicMadeAnew(ZenitError):
    """The topic was deleted and created again: the request refers to the former topic.

    Args: topic, incarnation (of the present topic), asked.
    """

    code, retriable, route_stale = 9151, True, True

    def __init__(self, topic: str, incarnation: int, asked: int) -> None:
        super().__init__(topic, incarnation, asked)
        self.topic = topic
        self.incarnation = incarnation
        self.asked = asked

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} was deleted and created again ({self.incarnation}, not {self.asked}): the data of the"
            " former one is gone"
        )


class TopicExists(ZenitError):
    """The topic exists with other settings. Args: topic."""

    code = 18

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"topic {self.topic!r} already exists with other settings"


class InvalidParameter(ZenitError):
    """A value is outside its range. Args: name, value (as text), expected."""

    code = 29

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(name, str(value), expected)
        self.name = name
        self.value = str(value)
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.name} = {self.value!r}: expected {self.expected}"


class QueueNotFound(InvalidParameter):
    """The topic has no queue of that id at the broker that was asked. Args: topic, queue_id, queues (that it has)."""

    code, route_stale = 9018, True

    def __init__(self, topic: str, queue_id: int, queues: int) -> None:
        super().__init__("queue_id", queue_id, f"0 to {queues - 1} of topic {topic}, which has {queues}")
        self.args = (topic, queue_id, queues)
        self.topic = topic
        self.queue_id = queue_id
        self.queues = queues


class InvalidName(ZenitError):
    """A topic or group name breaks the rule. Args: kind, name, rule."""

    code = 9009

    def __init__(self, kind: str, name: str, rule: str) -> None:
        super().__init__(kind, name, rule)
        self.kind = kind
        self.name = name
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.kind} name {self.name[:140]!r}: {self.rule}"


class ConfigError(ZenitError):
    """A configuration key or value is refused at start. Args: key, value, expected."""

    code = 9020

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(key, str(value), expected)
        self.key = key
        self.value = str(value)
        self.expected = expected

    def __str__(self) -> str:
        return f"configuration {self.key} = {self.value!r}: expected {self.expected}"


class ClusterNotStarted(ZenitError):
    """A process of a local cluster ended or did not answer in time. Args: name, reason, log_path."""

    code = 9030

    def __init__(self, name: str, reason: str, log_path: str) -> None:
        super().__init__(name, reason, log_path)
        self.name = name
        self.reason = reason
        self.log_path = log_path

    def __str__(self) -> str:
        return f"{self.name} {self.reason} (log: {self.log_path})"


class NoCluster(ZenitError):
    """A directory holds no cluster.

    Args: directory, elsewhere (the directory of the cluster started last; "" = not looked up).
    """

    code = 9031

    def __init__(self, directory: str, elsewhere: str = "") -> None:
        super().__init__(directory, elsewhere)
        self.directory = directory
        self.elsewhere = elsewhere

    def __str__(self) -> str:
        if self.elsewhere:
            return f"no cluster in {self.directory}; the cluster that was started last: --dir {self.elsewhere}"
        return f"no cluster in {self.directory}; start one: zenit up --dir {self.directory} --detach"


class RequirementMissing(ZenitError):
    """A program or package that is needed is not installed. Args: what, remedy."""

    code = 9045

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} not found; {self.remedy}"


class HostTooNarrow(ZenitError):
    """The machine, or its Python, is not a 64-bit one. Args: bits."""

    code = 9109

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self.bits = bits

    def __str__(self) -> str:
        return f"this Python has addresses of {self.bits} bits; a store needs 64: run it with a 64-bit Python on a 64-bit host"


class KernelOutdated(ZenitError):
    """In a checkout, the compiled kernel does not match the source beside it. Args: kernel (its file), checkout."""

    code = 9111

    def __init__(self, kernel: str, checkout: str) -> None:
        super().__init__(kernel, checkout)
        self.kernel = kernel
        self.checkout = checkout

    def __str__(self) -> str:
        return (
            f"{self.kernel} was compiled from other source than {self.checkout} has; compile it again: pip install -e"
            f" {self.checkout}"
        )


class EngineLacks(ZenitError):
    """The engine in this process cannot do that. Args: engine ("embedded://"), what, instead (what to do)."""

    code = 9190

    def __init__(self, engine: str, what: str, instead: str) -> None:
        super().__init__(engine, what, instead)
        self.engine = engine
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        return f"{self.engine} has no {self.what}: {self.instead}"
