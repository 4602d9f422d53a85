"""Every request has one row that says who serves it, and a server starts with exactly its own."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from zenitmq.model.security.rights import LISTED, Action, Resource
from zenitmq.model.security.rule_text import COUNTED
from zenitmq.remoting.commands import (
    REQUESTS,
    SERVED_BY_BROKERS,
    DecideTransactions,
    Done,
    EndTransactions,
    GetBeginning,
    GetController,
    GetGroup,
    GetRoute,
    JsonReply,
    Lane,
    Request,
    RouteReply,
    SendMessages,
    ServedBy,
    request,
)
from zenitmq.remoting.request_rows import Row, check_rows, row
from zenitmq.remoting.server import Call

PAGE = Path(__file__).parents[3] / "docs" / "rights.md"
CONTROLLERS = [cls for cls in REQUESTS.values() if cls.served_by is ServedBy.LEADING_CONTROLLER]


def answer(_: Call[Request]) -> Done:
    return Done()


def rows_of(classes: list[type[Request]]) -> list[Row]:
    return [row(cls, answer) for cls in classes]


def commands() -> set[type[Request]]:
    """Every class of the package that a request can be of; `dataclass` leaves the one behind that has no slots yet."""
    classes = {cls for cls in all_subclasses(Request) if "__slots__" in vars(cls) and not cls.__subclasses__()}
    return {cls for cls in classes if cls.__module__.startswith("zenitmq.")}


def all_subclasses(root: type[Request]) -> list[type[Request]]:
    return [cls for direct in root.__subclasses__() for cls in (direct, *all_subclasses(direct))]


def test_every_request_class_has_a_row() -> None:
    assert commands() == set(REQUESTS.values())


def test_a_row_says_who_serves_the_request_and_which_rights_it_needs() -> None:
    with pytest.raises(TypeError, match="served_by"):
        request(99_000, Lane.ADMIN, needs=())  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs"):
        request(99_000, Lane.ADMIN, served_by=ServedBy.MASTER)  # type: ignore[call-arg]
    assert 99_000 not in REQUESTS


def test_a_code_is_given_once() -> None:
    with pytest.raises(ValueError, match="320 is given twice"):
        request(SendMessages.code, Lane.SEND, served_by=ServedBy.MASTER, needs=())(SendMessages)


@pytest.mark.parametrize("cls", REQUESTS.values(), ids=lambda cls: cls.__name__)
def test_the_field_of_a_right_names_what_it_is_on(cls: type[Request]) -> None:
    """Text, or a tuple whose elements are text or begin with it."""
    hints = typing.get_type_hints(cls)
    for right in cls.needs:
        assert right.field or right.resource in (
            Resource.CLUSTER,
            Resource.SECURITY,
            Resource.GATEWAY,
            Resource.REPLICA,
        )
        for field in filter(None, (right.field.removeprefix(LISTED), right.replica_field)):
            hint = hints[field]
            while typing.get_origin(hint) is tuple:
                hint = typing.get_args(hint)[0]
            assert hint is str


def test_the_actions_that_count_are_those_that_some_request_needs() -> None:
    needed: dict[Resource, set[Action]] = {}
    for cls in REQUESTS.values():
        for right in cls.needs:
            needed.setdefault(right.resource, set()).add(right.action)
    assert {resource: needed[resource] - {Action.SERVE} for resource in COUNTED} == COUNTED
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    told = {kind: set(re.findall(r"`(\w+)`", text)) for kind, text in rows if kind in {each.value for each in COUNTED}}
    assert told == {kind.value: {each.value for each in counted} for kind, counted in COUNTED.items()}


def test_only_who_may_change_the_cluster_decides_for_any_producer_group() -> None:
    assert [str(right) for right in DecideTransactions.needs] == ["update: cluster"]
    assert [str(right) for right in EndTransactions.needs] == ["pub: ends", "pub: producer_group"]


def test_whatever_stores_sends_or_pulls_needs_a_right() -> None:
    free = {cls.__name__ for cls in REQUESTS.values() if not cls.needs and cls.served_by is not ServedBy.CLIENT}
    # Public keys and brokers are for every user, a reply is kept in one topic and pushed to who asked; of the others the
    # sender has given, or was given, what they name.
    assert free == {
        "UnregisterClient",
        "KeepClients",
        "RenewHold",
        "ReleaseHold",
        "GetServerKeys",
        "GetClusterInfo",
        "SendReplyMessage",
    }


def test_a_server_has_a_row_for_each_request_it_serves() -> None:
    check_rows(rows_of(CONTROLLERS), (ServedBy.LEADING_CONTROLLER,))


def test_a_request_without_a_handler_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="no handler answers GetGroup"):
        check_rows(rows_of([cls for cls in CONTROLLERS if cls is not GetGroup]), (ServedBy.LEADING_CONTROLLER,))


def test_a_handler_of_a_request_that_others_serve_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="not served here: GetController"):
        check_rows(rows_of([*CONTROLLERS, GetController]), (ServedBy.LEADING_CONTROLLER,))


def test_two_handlers_of_one_request_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="several handlers answer GetGroup"):
        check_rows(rows_of([*CONTROLLERS, GetGroup]), (ServedBy.LEADING_CONTROLLER,))


def test_somebody_serves_every_request() -> None:
    assert {cls.served_by for cls in REQUESTS.values()} == set(ServedBy)
    assert {role.value for role in SERVED_BY_BROKERS} == {
        role.value for role in ServedBy if any(word in role.value for word in ("replica", "master", "every"))
    }


def test_a_request_says_what_it_is_answered_with() -> None:
    class Silent(Request):
        pass

    with pytest.raises(TypeError, match="Silent does not say what it is a RequestFor"):
        request(9999, Lane.ADMIN, served_by=ServedBy.CONTROLLER, needs=())(Silent)
    assert 9999 not in REQUESTS


def test_the_reply_of_a_request_is_the_one_in_its_brackets() -> None:
    assert GetRoute.reply is RouteReply
    assert GetBeginning.reply is JsonReply  # it has another base beside RequestFor[...]
