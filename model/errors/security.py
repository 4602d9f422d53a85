"""Errors of keys, users and rights. Pure."""

from __future__ import annotations

from typing import Final

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


ANYTHING: Final = "anything"
"""The resource in AccessDenied of a user that is disabled, or was deleted, while it was connected."""


class AccessDenied(ZenitError):
    """The user may not do this, whether or not the thing exists. Args: user, action, resource (as "topic:trades")."""

    code = 9201

    def __init__(self, user: str, action: str, resource: str) -> None:
        super().__init__(user, action, resource)
        self.user = user
        self.action = action
        self.resource = resource

    def __str__(self) -> str:
        if self.resource == ANYTHING:
            return (
                f"user {self.user!r} may not ask anything any more: it is disabled, or its key was taken away; "
                "an administrator sees which: zenit user list"
            )
        seen = (
            " (who may `pub` or `sub` may that too)"
            if self.action == "get" and self.resource.startswith("topic:")
            else ""
        )
        return (
            f"user {self.user!r} may not {self.action} on {self.resource}{seen}; "
            f"`zenit explain {self.user} {self.action} {self.resource}` says why, a super user can allow it"
        )


class SecretsNotKept(ZenitError):
    """The server has no key for users' secrets: it neither makes them nor checks signatures. Args: setting."""

    code = 9214

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.setting = setting

    def __str__(self) -> str:
        return f"this server keeps no secrets: set {self.setting} at each server (`zenit key secrets` makes the file)"


class ServerKeyUnknown(ZenitError):
    """No name server has told the public key of this server, without which nobody connects to it. Args: address."""

    code, retriable, route_stale = 9202, True, True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return (
            f"the public key of {self.address} is not known: name servers tell those of registered brokers and of controllers; "
            "those of the name servers themselves must be in the key file, under [servers]"
        )


class KeyFileRefused(ZenitError):
    """A file with a key, secrets or trusted users is missing, wrong, or open to others. Args: path, reason."""

    code = 9203

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SecurityRowChanged(ZenitError):
    """Somebody else changed the user or role since it was read. Args: row ("user/app"), version, expected."""

    code, retriable = 9210, True

    def __init__(self, row: str, version: int, expected: int) -> None:
        super().__init__(row, version, expected)
        self.row = row
        self.version = version
        self.expected = expected

    def __str__(self) -> str:
        kind, _, name = self.row.partition("/")
        if not self.expected:
            return f"{kind} {name!r} exists already; see it: zenit {kind} show {name}"
        return (
            f"{kind} {name!r} was changed meanwhile (version {self.version}, not {self.expected}); look and try again"
        )


class SecurityRowNotFound(ZenitError):
    """There is no such user or role. Args: row ("user/app")."""

    code = 9211

    def __init__(self, row: str) -> None:
        super().__init__(row)
        self.row = row

    def __str__(self) -> str:
        kind, _, name = self.row.partition("/")
        return f"there is no {kind} {name!r}; those that there are: zenit {kind} list"


class SecurityRowTrusted(ZenitError):
    """The user stands in the trusted file of the servers, which no request changes. Args: name."""

    code = 9212

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"user {self.name!r} stands in the trusted file of the servers; change it there, and they read it again"


class TooManySecurityRows(ZenitError):
    """The cluster has as many users and roles as it may have, deleted ones of the last 30 days among them. Args: limit."""

    code = 9213

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the cluster has {self.limit} users and roles, with those deleted in the last 30 days; put several in one"
        )
