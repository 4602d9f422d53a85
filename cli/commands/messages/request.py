"""`zenit request TOPIC` sends a request and prints its reply; `zenit reply TOPIC` answers requests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ....model.errors import NotARequest, RequesterGone, RequestTimeout
from ....model.message import Message
from ....model.names import COMMAND_GROUP
from ...message_text import message_document
from ...options import Json, Namesrv, complete_groups, complete_topics, parse_pairs, usage_of_values
from ...output import note, print_json

if TYPE_CHECKING:
    from ....client.producer import Producer
    from ....record.kernel import StoredMessage

POLL_SECONDS = 0.25
SECONDS_MAX = 86_400.0

Topic = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]
Properties = Annotated[list[str] | None, typer.Option("--prop", metavar="NAME=VALUE", help="A property; repeatable.")]


def register(app: typer.Typer) -> None:
    """Adds these subjects' commands."""
    app.command("request")(request)
    app.command("reply")(reply)


def request(
    topic: Topic,
    body: Annotated[
        str | None, typer.Option("--body", metavar="TEXT", help="Body of the request; else all of stdin.")
    ] = None,
    tags: Annotated[str | None, typer.Option("--tags", metavar="TAG")] = None,
    prop: Properties = None,
    sharding_key: Annotated[
        str | None, typer.Option("--sharding-key", metavar="KEY", help="Same key, same queue, in order.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, max=SECONDS_MAX, help="For the send and the reply together.")
    ] = 10.0,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Send one message, wait for its reply and print the reply's body (--json: all of it); exits 1 if none comes in time.

    Any consumer of the topic may answer: a program by its producer's `reply`, or `zenit reply`. A request that nobody answers
    stays in the topic.
    """
    properties = parse_pairs(prop, "--prop")
    asked = sys.stdin.buffer.read() if body is None else body.encode()
    from ....client.producer import Producer

    with Producer(COMMAND_GROUP, namesrv=namesrv) as producer:
        try:
            answer = producer.request(
                Message(topic, asked, tags=tags, properties=properties), sharding_key=sharding_key, timeout=timeout
            )
        except RequestTimeout:
            note(
                f"zenit: nobody on topic {topic} replied within {timeout:g} s; is somebody there? (zenit reply {topic})"
            )
            raise typer.Exit(1) from None
    _print(answer, as_json=as_json)


def reply(
    topic: Topic,
    group: Annotated[
        str,
        typer.Option(
            "--group",
            metavar="G",
            help="The consumer group; its members share the requests.",
            autocompletion=complete_groups,
        ),
    ] = "zenit-reply",
    body: Annotated[
        str | None, typer.Option("--body", metavar="TEXT", help="Body of the reply; else the request's own body.")
    ] = None,
    maximum: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="End after N requests.")] = None,
    expression: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Tags: 'buy || sell'; else all messages.")
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Answer the requests of a topic, and print each, until --max or Ctrl-C: to try requests without a program.

    A new group begins with the messages that come after its first start. Messages that are not requests are skipped.
    """
    from ....client.consuming.start_from import StartFrom
    from ....client.producer import Producer
    from ....client.pull_consumer import PullConsumer

    answered = 0
    with (
        Producer(COMMAND_GROUP, namesrv=namesrv) as producer,
        PullConsumer(group, namesrv=namesrv, start_from=StartFrom.LAST) as consumer,
    ):
        with usage_of_values():
            consumer.subscribe(topic, expression)
        while maximum is None or answered < maximum:
            for asked in consumer.poll(max_messages=1, timeout=POLL_SECONDS):
                answered += _answer(producer, asked, asked.body if body is None else body.encode(), as_json=as_json)
                consumer.commit()


def _answer(producer: Producer, asked: StoredMessage, body: bytes, *, as_json: bool) -> bool:
    """Whether it was a request."""
    try:
        producer.reply(asked, body)
    except NotARequest:
        return False
    except RequesterGone as error:
        note(f"zenit: {error}")
    _print(asked, as_json=as_json)
    return True


def _print(message: StoredMessage, *, as_json: bool) -> None:
    if as_json:
        print_json(message_document(message))
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
