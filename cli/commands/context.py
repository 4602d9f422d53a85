"""`zenit context add | use | list | remove`: names for clusters, so that no command needs their addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ..context_file import Contexts, change_contexts, read_contexts
from ..options import Json, usage_of_values
from ..output import print_table, show

Name = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    context_app = typer.Typer()
    context_app.command("add")(add)
    context_app.command("use")(use)
    context_app.command("list")(list_contexts)
    context_app.command("remove")(remove)
    app.add_typer(context_app, name="context")


def add(
    name: Name,
    addresses: Annotated[str, typer.Argument(metavar="HOST:PORT[,...]", help="The cluster's name servers.")],
    in_use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
    as_json: Json = False,
) -> None:
    """Name the name servers of a cluster; an existing name gets these addresses."""

    def change(contexts: Contexts) -> Contexts:
        added = contexts.with_context(name, addresses)
        return added.using(name) if in_use else added

    _show(_changed(change), as_json, f"context {name} is {addresses}{', and in use' if in_use else ''}")


def use(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    none: Annotated[
        bool, typer.Option("--none", help="Use no context: go back to the cluster of this machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Choose the cluster that commands talk to by default."""
    if (name is None) != none:
        raise typer.BadParameter("give either NAME or --none", param_hint="NAME")
    _show(_changed(lambda contexts: contexts.using(name)), as_json, f"context in use: {name or 'none'}")


def list_contexts(as_json: Json = False) -> None:
    """List the contexts, and which one is in use."""
    contexts = read_contexts()
    rows = [[name, addresses, name == contexts.current] for name, addresses in sorted(contexts.addresses.items())]
    show(_document(contexts), as_json, lambda: print_table(("name", "namesrv", "in_use"), rows))


def remove(name: Name, as_json: Json = False) -> None:
    """Forget a context."""
    _show(_changed(lambda contexts: contexts.without(name)), as_json, f"context {name} is removed")


def _changed(change: Callable[[Contexts], Contexts]) -> Contexts:
    """Changes and stores the contexts. An invalid name or address is wrong usage."""
    with usage_of_values():
        return change_contexts(change)


def _show(contexts: Contexts, as_json: bool, said: str) -> None:
    show(_document(contexts), as_json, lambda: typer.echo(said))


def _document(contexts: Contexts) -> dict[str, object]:
    return {"contexts": dict(sorted(contexts.addresses.items())), "current": contexts.current}
