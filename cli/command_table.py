"""The table of `zenit` commands, in the order of the help: each one's module and its line of help.

The help of all and the completion of a name read this table alone. A command's module is imported, and its parser built, when
the command is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

PLAIN: Final[dict[str, Any]] = {
    "rich_markup_mode": None,  # plain help: it is read in pipes too, and starts in half the time
    "pretty_exceptions_enable": False,
}
"""What every parser is made with."""


class CommandRow(NamedTuple):
    """`module`: relative to this package. `summary`: fits a line of the help, and is the help of a group without its own."""

    module: str
    summary: str


COMMANDS: Final = {
    "up": CommandRow("commands.local", "Start a cluster on this machine, or what of it is down."),
    "down": CommandRow("commands.local", "End the processes of a cluster; its data stays."),
    "status": CommandRow("commands.local", "Tell which processes run, and how far each log reaches."),
    "peek": CommandRow("commands.messages.peek", "Print the last messages of a topic, without a group."),
    "tail": CommandRow("commands.messages.peek", "Print the messages of a topic as they come."),
    "request": CommandRow("commands.messages.request", "Send one message and print the reply to it."),
    "reply": CommandRow("commands.messages.request", "Answer the requests of a topic, and print each."),
    "cluster": CommandRow("commands.cluster", "List the brokers that are registered with a name server."),
    "produce": CommandRow("commands.messages.produce", "Send one message for each line of a file or of stdin."),
    "consume": CommandRow("commands.messages.consume", "Print the messages of a topic, as a member of a group."),
    "namesrv": CommandRow("commands.namesrv", "Run a name server in the foreground."),
    "sql": CommandRow("commands.sql", "Query topics with SQL: each is a table of its name."),
    "context": CommandRow("commands.context", "Name clusters, and choose the one that commands talk to."),
    "topic": CommandRow("commands.topic", "Create, change, list, describe and delete topics."),
    "group": CommandRow("commands.group", "List, describe, change, move and delete consumer groups."),
    "message": CommandRow("commands.messages.message", "Find single messages."),
    "transaction": CommandRow("commands.messages.transaction", "Transactions that nobody decided: look, and decide."),
    "dlq": CommandRow("commands.messages.dlq", "Dead letters: what groups gave up after the last attempt."),
    "broker": CommandRow("commands.broker", "Run a broker in the foreground, or ask one that runs."),
    "controller": CommandRow("commands.controller", "Run a controller in the foreground, or ask the leader."),
    "config": CommandRow("commands.config", "What can be configured."),
    "store": CommandRow("commands.store", "Look at a store's files; have brokers check theirs."),
    "query-offsets": CommandRow("commands.query_offsets", "The offsets that Spark queries keep at the brokers."),
    "bench": CommandRow("bench.bench", "Measure a cluster, and the raw path of this machine."),
    "drill": CommandRow("commands.drill", "Failover drills: every message is accounted for."),
    "job": CommandRow("commands.job", "Jobs on Spark: archive, verify, replay and more."),
}


class CommandLine(TyperGroup):
    """The parser of the whole command line. It lists commands that cannot run, and makes the one that is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=row.summary) for name, row in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As a group does: its name, the command, and what follows."""
        name, _, following = super().resolve_command(ctx, args)
        return name, None if name is None else command_of(name), following


def command_of(name: str) -> Any:
    """The parser of one command and of those below it, with the options that many commands share."""
    from .options import add_context_option
    from .watch import add_watch_option

    app = typer.Typer(**PLAIN)
    import_module(f".{COMMANDS[name].module}", __package__).register(app)
    command = typer.main.get_group(app).commands[name]
    command.help = command.help or COMMANDS[name].summary
    add_context_option(command)
    add_watch_option(command)
    return command
