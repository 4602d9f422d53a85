"""`--user NAME` of any command: as whom it comes to a secured cluster. It may stand anywhere before a `--`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import typer

OPTION: Final = "--user"
KEY_ENDING: Final = ".key"


def take_user(arguments: Sequence[str]) -> list[str]:
    """The arguments without the option; its key file is the process's from now on ($ZENIT_KEY). Raises typer.BadParameter."""
    rest: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument == "--":
            return [*rest, argument, *given]
        name, equals, value = argument.partition("=")
        if name != OPTION:
            rest.append(argument)
            continue
        user = value if equals else next(given, "")
        os.environ["ZENIT_KEY"] = _key_of(user)
    return rest


def _key_of(user: str) -> str:
    from ..client.connection.cluster import recorded_user_key

    if not user or user.startswith("-"):
        raise typer.BadParameter("expected a user's name, or the path of a key file", param_hint=OPTION)
    if os.sep in user or user.endswith(KEY_ENDING):
        return user
    beside = os.path.join(os.path.dirname(os.environ.get("ZENIT_KEY", "")), f"{user}{KEY_ENDING}")
    if os.environ.get("ZENIT_KEY") and os.path.exists(beside):  # where `zenit user create` puts it
        return beside
    found = recorded_user_key(os.path.expanduser("~"), user)
    if not found:
        where = "beside $ZENIT_KEY, in ~/.zenit/keys or among those of the cluster that `zenit up` started last"
        raise typer.BadParameter(f"no key file {user}{KEY_ENDING} {where}: give its path", param_hint=OPTION)
    return found
