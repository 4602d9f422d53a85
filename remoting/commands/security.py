"""Requests about users, roles and rights. Pure.

A row is a user or a role as JSON (model/security/row_codec). A change goes to one master, which stores it. The servers of a
cluster tell each other what differs, each second (ExchangeSecurity).
"""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, as_gateway, as_replica, on_cluster, on_security
from .base import Done, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class ChangedRowReply(Reply):
    """`row`: as it is stored, with its version. `before`: what it was, "" = there was none."""

    row: str
    before: str


@request(9170, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC, needs=(on_security(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class PutSecurityRow(RequestFor[ChangedRowReply]):
    """Makes or changes a user or role. As durable as a send. `expected_version`: of the row that the sender saw, 0 = none, -1 =
    whichever; SecurityRowChanged if it is another one by now.
    """

    row: str
    expected_version: int = -1


@request(9171, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC, needs=(on_security(Action.DELETE),))
@dataclass(frozen=True, slots=True)
class DeleteSecurityRow(RequestFor[ChangedRowReply]):
    """Deletes a user or role (kind: "user" or "role"). As durable as a send. SecurityRowNotFound if there is none."""

    kind: str
    name: str
    expected_version: int = -1


@request(
    9172, Lane.ADMIN, served_by=ServedBy.EVERY_SERVER, needs=(on_security(Action.UPDATE), on_security(Action.DELETE))
)
@dataclass(frozen=True, slots=True)
class TakeSecurityRows(RequestFor[Done]):
    """Rows as a master has stored them: so that each server has them at once, which the exchange does within seconds. A
    slave takes them from its master's log only.
    """

    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecurityRowsReply(Reply):
    """`trusted`: the users of the server's own file, with version 0. `more`: others follow behind the last row."""

    rows: tuple[str, ...]
    trusted: tuple[str, ...]
    more: bool


@request(9173, Lane.ADMIN, served_by=ServedBy.EVERY_SERVER, needs=(on_security(Action.LIST),))
@dataclass(frozen=True, slots=True)
class GetSecurityRows(RequestFor[SecurityRowsReply]):
    """The users and roles that this server knows, behind the one named `after` ("user/app"), deleted ones too; "" = from the
    first, and with the trusted ones."""

    after: str = ""


@dataclass(frozen=True, slots=True)
class ExplainReply(Reply):
    """`reason`: a sentence, or the rule that decided; `of`: the user or role that has that rule."""

    allowed: bool
    reason: str
    of: str


@request(9174, Lane.ADMIN, served_by=ServedBy.EVERY_SERVER, needs=(on_security(Action.GET),))
@dataclass(frozen=True, slots=True)
class ExplainRight(RequestFor[ExplainReply]):
    """May this user do `action` to the resource ("topic") of that `name`, from this IP address; SecurityRowNotFound if there
    is no such user."""

    user: str
    action: str
    resource: str
    name: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class ExchangeReply(Reply):
    """The answering server's digests after it took the rows, and what it has of what differs from the digests that were asked
    with. `last`: the row behind which to ask on, "" = these were all.
    """

    digests: tuple[int, ...]
    rows: tuple[str, ...]
    last: str


@request(9175, Lane.HEARTBEAT, served_by=ServedBy.EVERY_SERVER, needs=(on_cluster(Action.SERVE),))
@dataclass(frozen=True, slots=True)
class ExchangeSecurity(RequestFor[ExchangeReply]):
    """A master tells the digests of its users and roles (access_rows), and rows that it thinks are unknown here."""

    digests: tuple[int, ...]
    rows: tuple[str, ...]
    after: str = ""


@request(9176, Lane.HEARTBEAT, served_by=ServedBy.MASTER_CONFIRMED, needs=(as_replica("broker_name", "replica"),))
@dataclass(frozen=True, slots=True)
class TellAudit(RequestFor[Done]):
    """A slave hands its master what it noted for the audit, since it writes nothing itself: JSON objects, the oldest first.

    `first`: the number of the first entry in this life of the slave's process, so that what comes twice is written once.
    BrokerBusy while there is no room: none of them is taken.
    """

    broker_name: str
    replica: str
    life: str
    first: int
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecretReply(ChangedRowReply):
    """`secret`: of the user from now on. Nobody is told it again."""

    secret: str


@request(9177, Lane.ADMIN, served_by=ServedBy.MASTER_CONFIRMED_IN_SYNC, needs=(on_security(Action.UPDATE),))
@dataclass(frozen=True, slots=True)
class MakeSecret(RequestFor[SecretReply]):
    """Gives a user a secret, beside the one that it has. Payload: the secret, if it is known already; else a random one is
    made.

    As durable as a send. SecurityRowNotFound, SecurityRowTrusted, SecretsNotKept; InvalidParameter if the user has two.
    """

    user: str


@dataclass(frozen=True, slots=True)
class SignaturesReply(Reply):
    """`users`: for each signature the user who made it, "" if nobody who is let in. `delegations`: by which the gateway acts
    for each of them, for an hour."""

    users: tuple[str, ...]
    delegations: tuple[str, ...] = ()


@request(9178, Lane.QUERY, served_by=ServedBy.EVERY_SERVER, needs=(as_gateway(),))
@dataclass(frozen=True, slots=True)
class CheckSignatures(RequestFor[SignaturesReply]):
    """A gateway asks who signed what it got: (access key, signature, bytes of what was signed) of each, at most 256. Payload:
    what was signed, one behind the other. SecretsNotKept.

    A signature is Base64 or hexadecimal. With the delegation in a request's header (`RemotingClient.act_for`) that request is
    the user's: servers decide by the user's rights.
    """

    asked: tuple[tuple[str, str, int], ...]
