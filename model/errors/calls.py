"""Errors of calls: the peer, the connection, the deadline, the route. Pure."""

from __future__ import annotations

from .base import ZenitError


class SystemFault(ZenitError):
    """An unexpected exception in the process that answered; its log has the traceback. Args: what."""

    code = 9000

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"internal error: {self.what}"


class BrokerBusy(ZenitError):
    """The broker refused the request because a limit of its memory or queues was reached. Args: retry_after_ms, reason."""

    code, retriable = 2, True

    def __init__(self, retry_after_ms: int, reason: str = "overloaded") -> None:
        super().__init__(retry_after_ms, reason)
        self.retry_after_ms = retry_after_ms
        self.reason = reason

    def __str__(self) -> str:
        return f"broker busy ({self.reason}); retry after {self.retry_after_ms} ms"


class UnknownRequest(ZenitError):
    """The peer does not serve this request code. Args: request_code."""

    code = 3

    def __init__(self, request_code: int) -> None:
        super().__init__(request_code)
        self.request_code = request_code

    def __str__(self) -> str:
        return (
            f"request code {self.request_code} is not supported by this server: it has another role or another release"
        )


class VersionNotSupported(ZenitError):
    """The peer uses a protocol version that this side does not know. Args: version, supported."""

    code = 15

    def __init__(self, version: int, supported: int) -> None:
        super().__init__(version, supported)
        self.version = version
        self.supported = supported

    def __str__(self) -> str:
        return f"protocol version {self.version} is not supported (this side speaks {self.supported}); upgrade the older side"


class NoPermission(ZenitError):
    """The topic or broker does not permit this. Args: resource, action."""

    code, route_stale = 16, True

    def __init__(self, resource: str, action: str) -> None:
        super().__init__(resource, action)
        self.resource = resource
        self.action = action

    def __str__(self) -> str:
        return f"{self.action} is not permitted on {self.resource}"


class NotMaster(ZenitError):
    """The broker that answered is not master of its group. Args: broker, epoch."""

    code, retriable, route_stale = 501, True, True

    def __init__(self, broker: str, epoch: int) -> None:
        super().__init__(broker, epoch)
        self.broker = broker
        self.epoch = epoch

    def __str__(self) -> str:
        return f"{self.broker} is not master (epoch {self.epoch})"


class WrongCluster(ZenitError):
    """The server that answered belongs to another cluster than the request names. It did nothing.

    Args: cluster (the name), cluster_id (its own; "" if it has none yet), asked_id.
    """

    code, retriable, route_stale = 9150, True, True

    def __init__(self, cluster: str, cluster_id: str, asked_id: str) -> None:
        super().__init__(cluster, cluster_id, asked_id)
        self.cluster = cluster
        self.cluster_id = cluster_id
        self.asked_id = asked_id

    def __str__(self) -> str:
        return (
            f"another cluster answers here: {self.cluster!r} with the id {self.cluster_id or '(none yet)'}, not the one with"
            f" the id {self.asked_id}; to use this cluster, make a new client"
        )


class RequestTimeout(ZenitError):
    """No reply within the deadline: the request may or may not have been carried out. Args: what, timeout_ms."""

    code, retriable, route_stale = 9002, True, True

    def __init__(self, what: str, timeout_ms: int) -> None:
        super().__init__(what, timeout_ms)
        self.what = what
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"no reply within {self.timeout_ms} ms: {self.what}"


class ConnectionLost(ZenitError):
    """The peer cannot be reached, or the connection ended with requests in flight. Args: address."""

    code, retriable, route_stale = 9003, True, True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"cannot reach {self.address}; is it running? (zenit status)"


class HostNotFound(ConnectionLost):
    """No address is known for the peer's host name. Args: address."""

    code = 9153

    def __str__(self) -> str:
        return f"cannot reach {self.address}: the host name has no address; check its spelling"


class HandshakeFailed(ConnectionLost):
    """The peer ended the connection before anything could be asked. Args: address, reason."""

    code = 9204

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address)
        self.args = (address, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address} {self.reason}"


def is_silence(error: ZenitError) -> bool:
    """Whether nobody answered. A server that refuses, or answers by another error, is there."""
    return isinstance(error, RequestTimeout | ConnectionLost) and not isinstance(error, HandshakeFailed)


class RemoteProtocolError(ZenitError):
    """The other side broke the protocol. Args: what."""

    code = 9004

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"malformed request or reply: {self.what}"


class LocalProtocolError(ZenitError):
    """We were asked to send something the protocol does not allow. Args: what."""

    code = 9005

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return self.what


class NoRoute(ZenitError):
    """No broker serves a topic now: it is known, or nobody can tell. Args: topic ("*": any), reason."""

    code, retriable, route_stale = 9006, True, True

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason

    def __str__(self) -> str:
        return self.reason if self.topic == "*" else f"no route to topic {self.topic!r}: {self.reason}"


class ClientClosed(ZenitError):
    """The client object was closed, or not started. Args: what."""

    code = 9007

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed"


class BufferFull(ZenitError):
    """The client's own bounded buffer is full: the brokers answer slower than the caller sends. Args: limit_bytes."""

    code, retriable = 9008, True

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return (
            f"{self.limit_bytes} bytes already wait for acknowledgement; send more slowly, or wait with flush()"
            " (asyncio: drain())"
        )


class WaitsForItself(ZenitError):
    """The call would wait for its own caller, so it did nothing. Args: what, remedy."""

    code = 9160

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} would wait for itself; {self.remedy}"


class NoDescriptors(ZenitError):
    """The process may open no more files or sockets. Args: limit (of the process)."""

    code = 9161

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"no file descriptor is free (limit of this process: {self.limit}): raise the limit (ulimit -n), or send from fewer"
            " threads: each uses one for each broker, about 4 if that wants a key; send_async and post use none of their own"
        )


class WrongEventLoop(ZenitError):
    """An object of `zenitmq.aio` was used on two event loops. Args: what."""

    code = 9110

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"this {self.what} belongs to another event loop; make one on each loop"
