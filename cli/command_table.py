"""The table of `zenit` commands, in the order of the help: each one's module and its line of help.

The main help and the completion of command names read only this table. A command's module is imported, and its parser
built, when the command is used.
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
"""The arguments of every parser."""


class CommandRow(NamedTuple):
    """`module`: relative to this package. `summary`: fits a line of the help, and is the help of a group without its own."""

    module: str
    summary: str


COMMANDS: Final = {
    "up": CommandRow("commands.local", "Start a cluster on this machine, or what is down of it."),
    "down": CommandRow("commands.local", "Stop the processes of a cluster; its data stays."),
    "status": CommandRow("commands.local", "Show which processes run and how far each log reaches."),
    "peek": CommandRow("commands.messages.peek", "Print the last messages of a topic, without a group."),
    "tail": CommandRow("commands.messages.peek", "Print the messages of a topic as they come."),
    "request": CommandRow("commands.messages.request", "Send one message and print the reply to it."),
    "reply": CommandRow("commands.messages.request", "Answer the requests of a topic, and print each."),
    "cluster": CommandRow("commands.cluster", "List the brokers that are registered with a name server."),
    "canary": CommandRow("commands.operating.canary", "Send a message through each group each second, and time it."),
    "doctor": CommandRow("commands.operating.doctor", "Examine this machine and each server of a cluster."),
    "upgrade": CommandRow("commands.operating.upgrade", "Print the order of an upgrade; wait at its gates."),
    "debug": CommandRow("commands.operating.debug", "Collect what shows a fault to somebody else."),
    "events": CommandRow("commands.events", "Show what happened to a cluster, and follow it."),
    "top": CommandRow("commands.top", "Show rates, lag, replicas, disks and events, live."),
    "produce": CommandRow("commands.messages.produce", "Send one message for each line of a file or of stdin."),
    "consume": CommandRow("commands.messages.consume", "Print the messages of a topic, as a member of a group."),
    "namesrv": CommandRow("commands.namesrv", "Run a name server in the foreground."),
    "proxy": CommandRow("commands.proxy", "Run a proxy for RocketMQ's own clients in the foreground."),
    "sql": CommandRow("commands.sql", "Query topics with SQL: each is a table of its name."),
    "context": CommandRow("commands.context", "Name clusters, and choose the one that commands talk to."),
    "topic": CommandRow("commands.topic", "Create, change, list, describe, compact and delete topics."),
    "group": CommandRow("commands.group", "List, describe, change, move and delete consumer groups."),
    "message": CommandRow("commands.messages.message", "Find single messages, and trace them."),
    "transaction": CommandRow("commands.messages.transaction", "List, show and decide transactions that are pending."),
    "dlq": CommandRow("commands.messages.dlq", "List, show and resend messages that groups gave up."),
    "broker": CommandRow("commands.broker", "Run a broker in the foreground, or ask one that runs."),
    "key": CommandRow("commands.rights.key", "Make, show and replace the key files of users and servers."),
    "user": CommandRow("commands.rights.user", "Create, list, change and delete users, and their keys."),
    "role": CommandRow("commands.rights.role", "Create, list and delete roles: rules for several users."),
    "policy": CommandRow("commands.rights.policy", "Allow and deny, list rules, import RocketMQ's."),
    "explain": CommandRow("commands.rights.policy", "Say whether a user may do something, and by which rule."),
    "controller": CommandRow("commands.controller", "Run a controller in the foreground, or ask the leader."),
    "config": CommandRow("commands.config", "List the settings of each role."),
    "sbom": CommandRow("commands.installation.sbom", "List what is installed, and check it against a list."),
    "store": CommandRow("commands.store", "Inspect and change a store's files; check running ones."),
    "backup": CommandRow("commands.backups.backup", "Back up a replica's log to a directory or bucket, check it."),
    "restore": CommandRow("commands.backups.restore", "Make a broker's store of a backup."),
    "query-offsets": CommandRow("commands.query_offsets", "List, show and drop the offsets of Spark queries."),
    "bench": CommandRow("bench.bench", "Measure a cluster, and the raw path of this machine."),
    "drill": CommandRow("commands.drill", "Inject faults under load, and check every message."),
    "job": CommandRow("commands.job", "Run jobs on Spark: archive, verify, replay and more."),
}


class CommandLine(TyperGroup):
    """The parser of the whole command line. It lists commands without importing them, and builds the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=row.summary) for name, row in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As for a group: (the command's name, the command, the remaining arguments)."""
        name, _, following = super().resolve_command(ctx, args)
        return name, None if name is None else command_of(name), following


def command_of(name: str) -> Any:
    """The parser of one command and of its subcommands, with the options that many commands share."""
    from .help_text import complete_help
    from .options import add_context_option, refuse_endless_numbers
    from .watch import add_watch_option

    app = typer.Typer(**PLAIN)
    import_module(f".{COMMANDS[name].module}", __package__).register(app)
    command = typer.main.get_group(app).commands[name]
    command.help = command.help or COMMANDS[name].summary
    add_context_option(command)
    add_watch_option(command)
    complete_help(command)
    refuse_endless_numbers(command)
    return command
