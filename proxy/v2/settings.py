"""Settings: what a client tells of itself when its telemetry stream begins, and what it is answered. Pure."""

from __future__ import annotations

from typing import Any, Final

from ...model.errors import InvalidParameter, SqlSyntaxError
from ...model.message import BODY_BYTES_MAX
from ...model.plain_dataclass import dataclass
from ...model.subscription import POPPING, Sql, Subscription
from ..back.foreign_client import ForeignClient, ForeignConsumer
from ..back.group_rules import GroupRules
from ..schema import enum_value, message_class
from .authorization import Caller
from .limits import POP_MAX, fill_duration
from .mapping import producer_group_of
from .resources import group_of, topic_of
from .status import CallRefused, Code

ATTEMPTS_MAX: Final = 3
BACKOFF_MS: Final = 10
BACKOFF_MS_MAX: Final = 1_000
BACKOFF_FACTOR: Final = 2
POLL_MS: Final = 20_000
LITE_QUOTA: Final = 2_000
LITE_LENGTH_MAX: Final = 64
TOPICS_MAX: Final = 10_000
LANGUAGE_NAMES: Final = {
    enum_value("Language", name): told
    for name, told in (
        ("JAVA", "JAVA"),
        ("CPP", "CPP"),
        ("DOT_NET", "DOTNET"),
        ("GOLANG", "GO"),
        ("RUST", "RUST"),
        ("PYTHON", "PYTHON"),
        ("PHP", "PHP"),
        ("NODE_JS", "NODE_JS"),
        ("RUBY", "RUBY"),
    )
}

PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER, PULL_CONSUMER, LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER = (
    enum_value("ClientType", name)
    for name in (
        "PRODUCER",
        "PUSH_CONSUMER",
        "SIMPLE_CONSUMER",
        "PULL_CONSUMER",
        "LITE_PUSH_CONSUMER",
        "LITE_SIMPLE_CONSUMER",
    )
)
LITE_CONSUMERS: Final = frozenset({LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER})
CONSUMERS: Final = frozenset({PUSH_CONSUMER, SIMPLE_CONSUMER, PULL_CONSUMER, LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER})

_SQL: Final = enum_value("FilterType", "SQL")
_Settings: Final = message_class("Settings")


@dataclass(frozen=True, slots=True)
class ToldSettings:
    """What a client told. `topics`: that it publishes to; `group` "": it consumes nothing."""

    client_type: int
    topics: tuple[str, ...] = ()
    group: str = ""
    subscriptions: tuple[Subscription, ...] = ()
    language: str = ""
    version: str = ""
    host: str = ""

    def client(self, caller: Caller) -> ForeignClient:
        """As the brokers are told of it: a producer is in the group of each of its topics."""
        consumers: tuple[ForeignConsumer, ...] = ()
        if self.group and self.client_type != PULL_CONSUMER:
            wires = tuple(sorted(one.wire() for one in self.subscriptions))
            consumers = ((self.group, POPPING.value, wires),)
        return ForeignClient(
            caller.client_id,
            self.language or caller.language,
            self.version or caller.version,
            self.host or caller.address,
            tuple(sorted({producer_group_of(topic) for topic in self.topics})),
            consumers,
        )


def told_settings(settings: Any) -> ToldSettings:
    """Raises CallRefused."""
    agent = settings.user_agent
    names = LANGUAGE_NAMES.get(agent.language, ""), agent.version[:64], agent.hostname[:255]
    kind = settings.WhichOneof("pub_sub")
    if kind == "publishing":
        if len(settings.publishing.topics) > TOPICS_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"publishing.topics: at most {TOPICS_MAX}")
        topics = tuple(dict.fromkeys(topic_of(topic) for topic in settings.publishing.topics))
        return ToldSettings(settings.client_type or PRODUCER, topics, "", (), *names)
    if kind == "subscription":
        entries = settings.subscription.subscriptions
        if len(entries) > TOPICS_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"subscription.subscriptions: at most {TOPICS_MAX}")
        found = tuple(subscription_of(topic_of(entry.topic), entry.expression) for entry in entries)
        group = group_of(settings.subscription.group)
        return ToldSettings(settings.client_type, (), group, found, *names)
    raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE, "settings: publishing or subscription is expected")


def subscription_of(topic: str, expression: Any) -> Subscription:
    """Of a FilterExpression. Raises CallRefused."""
    text = expression.expression
    try:
        return Subscription.parse(topic, Sql(text) if expression.type == _SQL else text)
    except (InvalidParameter, SqlSyntaxError) as error:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None


def subscription_of_all(topic: str) -> Subscription:
    """To all messages."""
    return Subscription.parse(topic, "*")


def answered_settings(settings: Any, told: ToldSettings, rules: GroupRules) -> Any:
    """The client's own settings, and what is the server's to say. `rules`: of its group."""
    answer = _Settings()
    answer.CopyFrom(settings)
    answer.ClearField("client_properties")
    answer.metric.on = False
    policy = answer.backoff_policy
    if told.group:
        policy.max_attempts = rules.retries_max + 1
        policy.ClearField("strategy")
        for delay_ms in rules.backoff_ms:
            fill_duration(policy.customized_backoff.next.add(), delay_ms)
        subscription = answer.subscription
        subscription.fifo = rules.is_ordered or told.client_type in LITE_CONSUMERS
        subscription.receive_batch_size = POP_MAX
        fill_duration(subscription.long_polling_timeout, POLL_MS)
        subscription.lite_subscription_quota = LITE_QUOTA
        subscription.max_lite_topic_size = LITE_LENGTH_MAX
        return answer
    policy.max_attempts = ATTEMPTS_MAX
    policy.ClearField("strategy")
    fill_duration(policy.exponential_backoff.initial, BACKOFF_MS)
    fill_duration(policy.exponential_backoff.max, BACKOFF_MS_MAX)
    policy.exponential_backoff.multiplier = BACKOFF_FACTOR
    answer.publishing.max_body_size = BODY_BYTES_MAX
    answer.publishing.validate_message_type = True
    return answer
