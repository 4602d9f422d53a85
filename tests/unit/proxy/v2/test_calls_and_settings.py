"""Who calls, names and namespaces, limits, routes, settings, codes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from zenitmq.model.errors import (
    BrokerBusy,
    ConnectionLost,
    HostNotFound,
    LeaseExpired,
    MessageIllegal,
    NoRoute,
    TopicNotFound,
    ZenitError,
    error_classes,
)
from zenitmq.model.route import BrokerData, QueueData, TopicRoute
from zenitmq.model.subscription import ExpressionKind
from zenitmq.proxy.back.group_rules import LEVELS_MS, GroupRules, group_rules
from zenitmq.proxy.schema import enum_value, message_class
from zenitmq.proxy.v2 import limits
from zenitmq.proxy.v2.authorization import Caller, address_of, caller_of, check_moment
from zenitmq.proxy.v2.resources import fill_resource, group_of, topic_of
from zenitmq.proxy.v2.routes import assigned_queues, route_queues, told_endpoints
from zenitmq.proxy.v2.settings import answered_settings, subscription_of, told_settings
from zenitmq.proxy.v2.status import CODES, CallRefused, Code, code_of

Resource, Endpoints, Settings = map(message_class, ("Resource", "Endpoints", "Settings"))
CALLER = Caller("client@1", "", "JAVA", "5.2.0", "10.1.2.3", 40_001, "", "", b"")
SIGNED = "MQv2-HMAC-SHA1 Credential=ak/region/Rocketmq, SignedHeaders=x-mq-date-time, Signature=AB12"


def refusal(call: Any) -> Code:
    with pytest.raises(CallRefused) as refused:
        call()
    return refused.value.code


# ---- codes


def test_codes_have_the_numbers_of_the_definitions() -> None:
    assert {code.name: code.value for code in Code} == {code.name: enum_value("Code", code.name) for code in Code}


def test_every_error_has_a_code_and_what_may_pass_is_no_bad_request() -> None:
    for cls in error_classes().values():
        if cls in CODES and cls.retriable:
            assert CODES[cls] >= Code.TOO_MANY_REQUESTS, cls
    assert code_of(TopicNotFound("t")) is Code.TOPIC_NOT_FOUND
    assert code_of(LeaseExpired("t", 0, 7)) is Code.INVALID_RECEIPT_HANDLE
    assert code_of(BrokerBusy(5)) is Code.TOO_MANY_REQUESTS
    assert code_of(NoRoute("t", "none")) is Code.HA_NOT_AVAILABLE
    assert code_of(ConnectionLost("a:1")) is code_of(HostNotFound("a:1")) is Code.HA_NOT_AVAILABLE
    assert code_of(MessageIllegal("no")) is Code.BAD_REQUEST
    assert code_of(ZenitError("?")) is Code.INTERNAL_SERVER_ERROR
    assert code_of(CallRefused(Code.ILLEGAL_OFFSET, "no")) is Code.ILLEGAL_OFFSET


# ---- who calls


def test_a_caller_is_read_from_metadata() -> None:
    metadata = [
        ("x-mq-client-id", "c"),
        ("x-mq-language", "GOLANG"),
        ("x-mq-client-version", "5.1"),
        ("x-mq-namespace", "ns"),
        ("x-mq-date-time", "20260101T000000Z"),
        ("authorization", SIGNED),
        ("user-agent", "grpc"),
    ]
    caller = caller_of(dict(metadata), "ipv4:10.1.2.3:41234")
    assert caller == Caller("c", "ns", "GO", "5.1", "10.1.2.3", 41234, "ak", "AB12", b"20260101T000000Z")


@pytest.mark.parametrize(
    ("said", "within_s", "is_taken"),
    [
        ("20260101T120000Z", 60, True),
        ("20260101T120100Z", 60, True),
        ("20260101T120101Z", 60, False),
        ("2026-01-01T11:58:59Z", 60, False),
        ("19700101T000000Z", 54_000, False),
        ("20260102T020000Z", 54_000, True),  # local time, east of Greenwich
        ("19700101T000000Z", 0, True),
        ("now", 60, True),
        ("20269901T120000Z", 60, True),
        ("", 60, True),
    ],
)
def test_a_signature_counts_for_some_hours(said: str, within_s: int, is_taken: bool) -> None:
    noon_ms = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()) * 1000
    caller = caller_of({"x-mq-date-time": said, "authorization": SIGNED}, "unix:")
    if is_taken:
        check_moment(caller, noon_ms, within_s * 1000)
    else:
        assert refusal(lambda: check_moment(caller, noon_ms, within_s * 1000)) is Code.UNAUTHORIZED


def test_an_empty_key_is_nobodys() -> None:
    said = "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=AB12"
    caller = caller_of({"x-mq-date-time": "now", "authorization": said}, "unix:")
    assert (caller.access_key, caller.signature, caller.signed, caller.client_id) == ("", "", b"", "")


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"authorization": "Basic abc"}, Code.UNAUTHORIZED),
        ({"authorization": SIGNED + " " * 1024}, Code.UNAUTHORIZED),
        ({"x-mq-client-id": "c" * 256}, Code.BAD_REQUEST),
    ],
)
def test_metadata_of_no_client_is_refused(metadata: dict[str, str], code: Code) -> None:
    assert refusal(lambda: caller_of(metadata, "")) is code


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.1.2.3:7", ("10.1.2.3", 7)),
        ("ipv6:%5B::1%5D:7", ("::1", 7)),
        ("ipv6:[fe80::1%eth0]:7", ("fe80::1", 7)),
        ("unix:/tmp/x", ("", 0)),
        ("ipv4:10.1.2.3", ("", 0)),
        ("", ("", 0)),
    ],
)
def test_peers(peer: str, address: tuple[str, int]) -> None:
    assert address_of(peer) == address


# ---- names


@pytest.mark.parametrize(
    ("name", "namespace", "topic"),
    [
        ("trades", "", "trades"),
        ("trades", "ns", "ns%trades"),
        ("ns%trades", "ns", "ns%trades"),
        ("%DLQ%g", "ns", "%DLQ%ns%g"),
        ("%RETRY%g", "ns", "%RETRY%ns%g"),
    ],
)
def test_a_name_in_a_namespace(name: str, namespace: str, topic: str) -> None:
    assert topic_of(Resource(name=name, resource_namespace=namespace)) == topic
    told = Resource()
    fill_resource(told, topic, namespace)
    assert topic_of(told) == topic
    assert not namespace or told.resource_namespace == namespace


def test_names_that_are_none() -> None:
    assert refusal(lambda: topic_of(Resource(name="", resource_namespace="ns"))) is Code.ILLEGAL_TOPIC
    assert refusal(lambda: topic_of(Resource(name="rmq_sys_x"))) is Code.ILLEGAL_TOPIC
    assert refusal(lambda: group_of(Resource(name="no group"))) is Code.ILLEGAL_CONSUMER_GROUP
    assert group_of(Resource(name="g", resource_namespace="ns")) == "ns%g"
    other = Resource()
    fill_resource(other, "other%trades", "ns")
    assert (other.name, other.resource_namespace) == ("other%trades", "")


# ---- limits


@pytest.mark.parametrize(
    ("wanted", "left", "waits"), [(20_000, None, 20_000), (99_000, None, 30_000), (5_000, 3_000, 2_500), (0, 100, 0)]
)
def test_how_long_a_receive_waits(wanted: int, left: int | None, waits: int) -> None:
    assert limits.wait_ms(wanted, left) == waits


def test_numbers_outside_their_limits() -> None:
    assert refusal(lambda: limits.wait_ms(-1, None)) is Code.ILLEGAL_POLLING_TIME
    assert refusal(lambda: limits.wait_ms(5_000, 400)) is Code.ILLEGAL_POLLING_TIME
    assert refusal(lambda: limits.check_batch(0)) is Code.BAD_REQUEST
    assert limits.check_batch(1000) == 32
    assert refusal(lambda: limits.check_count("messages", 0)) is Code.BAD_REQUEST
    limits.check_count("messages", 1)
    assert refusal(lambda: limits.check_invisible(999)) is Code.ILLEGAL_INVISIBLE_TIME
    assert limits.check_invisible(1_000) == 1_000
    duration = message_class("CustomizedBackoff")().next.add()
    limits.fill_duration(duration, 1_500)
    assert limits.duration_ms(duration) == 1_500


# ---- routes


def endpoints(scheme: str, *hosts: str) -> Any:
    told = Endpoints(scheme=enum_value("AddressScheme", scheme))
    for host in hosts:
        told.addresses.add(host=host, port=8081)
    return told


def test_endpoints_are_given_back_as_they_came() -> None:
    assert told_endpoints(endpoints("IPv4", "10.0.0.1", "10.0.0.2")) == endpoints("IPv4", "10.0.0.1", "10.0.0.2")
    assert told_endpoints(endpoints("DOMAIN_NAME", "a", "b")) == endpoints("DOMAIN_NAME", "a")
    assert refusal(lambda: told_endpoints(endpoints("IPv4"))) is Code.ILLEGAL_ACCESS_POINT
    assert refusal(lambda: told_endpoints(endpoints("ADDRESS_SCHEME_UNSPECIFIED", "a"))) is Code.ILLEGAL_ACCESS_POINT


ROUTE = TopicRoute(
    "ns%trades",
    (QueueData("b", 1, 2, 6), QueueData("a", 2, 1, 6), QueueData("gone", 1, 1, 6), QueueData("c", 1, 1, 2)),
    (
        BrokerData("z", "a", {0: "1.1.1.1:1"}),
        BrokerData("z", "b", {0: "1.1.1.2:1"}),
        BrokerData("z", "c", {0: "1.1.1.3:1"}),
        BrokerData("z", "gone", {1: "1.1.1.4:1"}),
    ),
)


def test_every_queue_of_a_route_is_at_the_proxy() -> None:
    told = route_queues(ROUTE, "ns", endpoints("IPv4", "10.0.0.1"), (1, 2))
    read, write, both = (enum_value("Permission", name) for name in ("READ", "WRITE", "READ_WRITE"))
    assert [(one.broker.name, one.id, one.permission) for one in told] == [
        ("a", 0, both),
        ("a", 1, read),
        ("b", 0, both),
        ("b", 1, write),
        ("c", 0, write),
    ]
    assert {(one.topic.name, one.topic.resource_namespace, one.broker.id) for one in told} == {("trades", "ns", 0)}
    assert all(one.broker.endpoints == endpoints("IPv4", "10.0.0.1") for one in told)
    assert [list(one.accept_message_types) for one in told] == [[1, 2]] * 5


def test_a_push_consumer_is_given_each_broker_once() -> None:
    told = assigned_queues(ROUTE, "", endpoints("IPv4", "10.0.0.1"), ())
    assert [(one.broker.name, one.id) for one in told] == [("a", -1), ("b", -1)]


# ---- settings


def subscribed(kind: str = "PUSH_CONSUMER") -> Any:
    settings = Settings(client_type=enum_value("ClientType", kind))
    settings.subscription.group.name = "g"
    entry = settings.subscription.subscriptions.add()
    entry.topic.name, entry.expression.expression = "trades", "a || b"
    entry.expression.type = enum_value("FilterType", "TAG")
    settings.user_agent.language = enum_value("Language", "GOLANG")
    settings.user_agent.hostname = "host-7"
    return settings


def test_a_consumers_settings() -> None:
    told = told_settings(subscribed())
    client = told.client(CALLER)
    assert client.consumers == (("g", "POPPING", (("trades", "TAG", "a || b"),)),)
    assert (client.client_id, client.language, client.version, client.host) == ("client@1", "GO", "5.2.0", "host-7")
    answer = answered_settings(subscribed(), told, GroupRules(3, (1500, 60_000), is_ordered=True))
    assert answer.backoff_policy.max_attempts == 4
    assert [limits.duration_ms(one) for one in answer.backoff_policy.customized_backoff.next] == [1500, 60_000]
    assert (answer.subscription.fifo, answer.subscription.receive_batch_size) == (True, 32)
    assert answer.subscription.long_polling_timeout.seconds == 20
    assert told_settings(subscribed("PULL_CONSUMER")).client(CALLER).consumers == ()


def test_a_producers_settings() -> None:
    settings = Settings()
    for name in ("trades", "orders", "trades"):
        settings.publishing.topics.add(name=name)
    told = told_settings(settings)
    assert told.client(CALLER).producer_groups == ("orders", "trades")
    answer = answered_settings(settings, told, GroupRules())
    assert answer.backoff_policy.max_attempts == 3
    assert answer.backoff_policy.exponential_backoff.initial.nanos == 10_000_000
    assert (answer.publishing.max_body_size, answer.publishing.validate_message_type) == (4 << 20, True)
    assert not answer.metric.on


def test_settings_that_are_none() -> None:
    assert refusal(lambda: told_settings(Settings())) is Code.UNRECOGNIZED_CLIENT_TYPE
    many = Settings()
    for _ in range(10_001):
        many.publishing.topics.add(name="t")
    assert refusal(lambda: told_settings(many)) is Code.BAD_REQUEST
    wanted = subscribed()
    for _ in range(10_001):
        wanted.subscription.subscriptions.add()
    assert refusal(lambda: told_settings(wanted)) is Code.BAD_REQUEST


def test_filters() -> None:
    expression = subscribed().subscription.subscriptions[0].expression
    assert subscription_of("t", expression).tags == {"a", "b"}
    expression.type, expression.expression = enum_value("FilterType", "SQL"), "amount > 10"
    assert subscription_of("t", expression).kind is ExpressionKind.SQL92
    expression.expression = "amount >"
    assert refusal(lambda: subscription_of("t", expression)) is Code.ILLEGAL_FILTER_EXPRESSION
    expression.type, expression.expression = enum_value("FilterType", "TAG"), "||"
    assert refusal(lambda: subscription_of("t", expression)) is Code.ILLEGAL_FILTER_EXPRESSION


# ---- groups


@pytest.mark.parametrize(
    ("document", "rules"),
    [
        ({}, GroupRules()),
        ({"retryMaxTimes": 3, "consumeMessageOrderly": True}, GroupRules(3, LEVELS_MS[2:], True)),
        ({"retryMaxTimes": -1, "groupRetryPolicy": "none"}, GroupRules()),
        (
            {"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}}},
            GroupRules(16, (3, 4)),
        ),
        (
            {"groupRetryPolicy": {"customizedRetryPolicy": {"next": [7, "x", 0]}}},
            GroupRules(16, (7,)),
        ),
        ({"groupRetryPolicy": {"customizedRetryPolicy": {"next": []}}}, GroupRules()),
        (
            {"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10, "max": 35}}},
            GroupRules(16, (10, 20, *(35,) * 14)),
        ),
        (
            {"groupRetryPolicy": {"type": "EXPONENTIAL"}},
            GroupRules(16, tuple(min(5_000 * 2**step, 7_200_000) for step in range(16))),
        ),
    ],
)
def test_what_a_group_is_set_to(document: dict[str, Any], rules: GroupRules) -> None:
    assert group_rules(document) == rules
