"""Errors of keys, users and rights. Pure."""

from __future__ import annotations

from .base import ZenitError


class AuthenticationFailed(ZenitError):
    """The server does not know the client's key, or takes only clients with a key. Args: address, reason."""

    code = 9200

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address} refuses this client: {self.reason}"


class AccessDenied(ZenitError):
    """The user may not do this, whether or not the thing exists. Args: user, action, resource (as "topic:trades")."""

    code = 9201

    def __init__(self, user: str, action: str, resource: str) -> None:
        super().__init__(user, action, resource)
        self.user = user
        self.action = action
        self.resource = resource

    def __str__(self) -> str:
        return (
            f"user {self.user!r} may not {self.action} on {self.resource}; "
            f"`zenit explain {self.user} {self.action} {self.resource}` says why, a super user can allow it"
        )


class ServerKeyUnknown(ZenitError):
    """No name server has told the public key of this server, without which nobody connects to it. Args: address."""

    code, retriable, route_stale = 9202, True, True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return (
            f"the public key of {self.address} is not known: name servers tell those of registered brokers and of controllers; "
            "those of the name servers themselves are in the key file"
        )


class KeyFileRefused(ZenitError):
    """A key file is missing, wrong, or readable by others. Args: path, reason."""

    code = 9203

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"key file {self.path}: {self.reason}"
