"""The `zenit` command: one file per subject in `commands/`, put together here.

Each command is thin: it calls the client, a service or a tool below, and prints. `command_table` imports a file under
`commands/` when one of its commands is used; a command imports what it needs when it runs. Exit codes: 0 done, 1 failed
(one line on stderr: what, and what to do), 2 wrong usage, 128 + N ended by signal N.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import Annotated, Any

import typer

from ..model.errors import ConnectionLost, GroupNotFound, InvalidName, SqlSyntaxError, TopicNotFound, ZenitError
from .command_table import PLAIN, CommandLine
from .endings import ENDINGS
from .options import Chosen, UsageError
from .output import STDOUT, reader_is_gone
from .user_option import take_user
from .watch import with_seconds

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SIGNALLED = 128  # plus the number of the signal, as in shells
NAMES_TIMEOUT_S = 1.0
_WRITERS = (["produce"], ["request"])  # who uses these may want to create the topic


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from ..model.names import VERSION
    from ..record.kernel import COMPILED

    typer.echo(f"zenit {VERSION} (record kernel: {'compiled' if COMPILED else 'interpreted'})")
    raise typer.Exit


def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A distributed message queue: clusters, topics, messages, groups, stores.

    --user NAME, anywhere: whose key file to use with a secured cluster, by the user's name or its path; else $ZENIT_KEY.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def application() -> typer.Typer:
    """The whole command line; each command is imported when it is used."""
    app = typer.Typer(
        cls=CommandLine,
        name="zenit",
        help=_root.__doc__,
        context_settings={"help_option_names": ["-h", "--help"]},
        **PLAIN,
    )
    app.callback(invoke_without_command=True)(_root)
    return app


def run() -> None:
    """The console script. Ends the process with the exit code; a user never sees a traceback."""
    if "ZENIT_DEBUG" not in os.environ:
        logging.getLogger().addHandler(logging.NullHandler())  # a failure is one line, printed below
    sys.exit(_outcome())


def _outcome() -> int:
    chosen: Chosen = {}
    ENDINGS.take()
    try:
        parser: Any = typer.main.get_command(application())
        code = parser(with_seconds(take_user(sys.argv[1:])), standalone_mode=False, obj=chosen)
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer's exit code for KeyboardInterrupt
            raise KeyboardInterrupt
        return code if isinstance(code, int) else DONE
    except UsageError as error:
        return _tell(_usage_text(error), WRONG_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return SIGNALLED + ENDINGS.number
    except SystemExit as ending:  # raised by the parser for a broken pipe, and for a shell's completion
        if isinstance(ending.__context__, BrokenPipeError) and reader_is_gone():
            os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # nobody reads the rest of the buffer
            return DONE
        if ending.__context__ is None:
            raise
        return _tell(f"internal error: {ending.__context__!r}", FAILED)
    except (TopicNotFound, GroupNotFound) as error:
        return _tell(_not_found_text(error, chosen.get("namesrv")), FAILED)
    except (InvalidName, SqlSyntaxError) as error:  # invalid whatever the cluster has
        return _tell(str(error), WRONG_USAGE)
    except ConnectionLost as error:
        return _tell(f"{error}{_detour_text(error.address)}", FAILED)
    except ZenitError as error:
        return _tell(str(error), FAILED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _tell(f"{where}{error.strerror or error}", FAILED)
    except Exception as error:  # the top of the thread: one line instead of a traceback
        logging.getLogger(__name__).debug("internal error", exc_info=error)
        if "ZENIT_DEBUG" in os.environ:
            raise
        return _tell(f"internal error: {type(error).__name__}: {error} (ZENIT_DEBUG=1 shows where)", FAILED)


def _not_found_text(error: TopicNotFound | GroupNotFound, namesrv: str | None) -> str:
    """What does not exist, and the most similar name: asks the cluster briefly for its names."""
    from ..client.admin import Admin
    from .near_names import not_found_text

    names: list[str] = []
    with contextlib.suppress(ZenitError), Admin(namesrv, timeout=NAMES_TIMEOUT_S) as admin:
        names = admin.topics() if isinstance(error, TopicNotFound) else [group["name"] for group in admin.groups()]
    return not_found_text(error, names, may_create=sys.argv[1:2] in _WRITERS)


def _detour_text(address: str) -> str:
    """Where $ZENIT_DETOURS leads who wants to reach an address; "" if it does not name it."""
    from ..remoting.addresses import ENVIRONMENT_DETOURS, by_detour

    there = by_detour(address)
    return f"; ${ENVIRONMENT_DETOURS} leads there by {there}" if there != address else ""


def _usage_text(error: Exception) -> str:
    """What is wrong with the command line, and which help to read."""
    context: typer.Context | None = getattr(error, "ctx", None)
    said = getattr(error, "format_message", error.__str__)()
    return f"{said.rstrip('.')} (see: {context.command_path if context is not None else 'zenit'} --help)"


def _tell(text: str, code: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"zenit: {' '.join(text.split())}\n")
    return code
