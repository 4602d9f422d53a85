"""The `zenit` command: one file per subject in `commands/`, put together here.

Each command is thin: it calls the client, a service or a tool below, and prints. What a command needs is imported when
it runs, so that `zenit --help` stays quick, and a file under `commands/` when one of its commands is asked for. Exit codes:
0 done, 1 the thing failed (one line on stderr: what, and what to do), 2 wrong usage, 128 + N ended by signal N.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from ..model.errors import GroupNotFound, InvalidName, SqlSyntaxError, TopicNotFound, ZenitError
from .endings import ENDINGS
from .options import Chosen, add_context_option
from .output import STDOUT, reader_is_gone
from .watch import add_watch_option, with_seconds

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
SIGNALLED = 128  # and the number of the signal, as shells have it
NAMES_TIMEOUT_S = 1.0

# What typer raises for a wrong command line: a usage error, which knows the command that was meant.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# The module that has a command, in the order of the help.
SUBJECTS = {
    **dict.fromkeys(("up", "down", "status"), "commands.local"),
    **dict.fromkeys(("peek", "tail"), "commands.peek"),
    **dict.fromkeys(("request", "reply"), "commands.request"),
    **{
        name: f"commands.{name.replace('-', '_')}"
        for name in (
            "context cluster topic produce consume group message dlq namesrv broker controller config store sql query-offsets"
        ).split()
    },
    "bench": "bench.bench",
    "drill": "commands.drill",
    "job": "commands.job",
}


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    from ..record.kernel import COMPILED

    typer.echo(f"zenit {version('zenitmq')} (record kernel: {'compiled' if COMPILED else 'interpreted'})")
    raise typer.Exit


def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A distributed message queue: clusters, topics, messages, groups, stores."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def application(command: str | None = None) -> typer.Typer:
    """With the subject of that command, which is what it takes to run it; with all of them where nothing has that name."""
    app = typer.Typer(
        name="zenit",
        help="A distributed message queue: clusters, topics, messages, groups, stores.",
        rich_markup_mode=None,  # plain help: it is read in pipes too, and starts in half the time
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for subject in [SUBJECTS[command]] if command in SUBJECTS else dict.fromkeys(SUBJECTS.values()):
        import_module(f".{subject}", __package__).register(app)
    return app


def _command(name: str | None) -> Any:
    """The parser of that command, or of all."""
    command = typer.main.get_command(application(name))
    add_context_option(command)
    add_watch_option(command)
    return command


def run() -> None:
    """The console script. Ends the process with the exit code; a user never sees a traceback."""
    if "ZENIT_DEBUG" not in os.environ:
        logging.getLogger().addHandler(logging.NullHandler())  # a failure is one line, told below
    sys.exit(_outcome())


def _outcome() -> int:
    chosen: Chosen = {}
    ENDINGS.take()
    try:
        arguments = with_seconds(sys.argv[1:])
        code = _command(arguments[0] if arguments else None)(arguments, standalone_mode=False, obj=chosen)
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer's own way out of KeyboardInterrupt
            raise KeyboardInterrupt
        return code if isinstance(code, int) else DONE
    except UsageError as error:
        return _tell(_usage_text(error), WRONG_USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return SIGNALLED + ENDINGS.number
    except SystemExit as ending:  # the parser's own way out of a broken pipe, and of a shell's completion
        if isinstance(ending.__context__, BrokenPipeError) and reader_is_gone():
            os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # what is still buffered is wanted by nobody
            return DONE
        if ending.__context__ is None:
            raise
        return _tell(f"internal error: {ending.__context__!r}", FAILED)
    except (TopicNotFound, GroupNotFound) as error:
        return _tell(_not_found_text(error, chosen.get("namesrv")), FAILED)
    except (InvalidName, SqlSyntaxError) as error:  # texts that nobody could take, whatever there is
        return _tell(str(error), WRONG_USAGE)
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
    """What is not there, and what was perhaps meant: the cluster is asked for a moment what it has."""
    from ..client.admin import Admin
    from .near_names import not_found_text

    names: list[str] = []
    with contextlib.suppress(ZenitError), Admin(namesrv, timeout=NAMES_TIMEOUT_S) as admin:
        names = admin.topics() if isinstance(error, TopicNotFound) else [group["name"] for group in admin.groups()]
    return not_found_text(error, names, may_create=sys.argv[1:2] != ["topic"])


def _usage_text(error: Exception) -> str:
    """What is wrong with the command line, and which help to read."""
    context: typer.Context | None = getattr(error, "ctx", None)
    said = getattr(error, "format_message", error.__str__)()
    return f"{said.rstrip('.')} (see: {context.command_path if context is not None else 'zenit'} --help)"


def _tell(text: str, code: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"zenit: {' '.join(text.split())}\n")
    return code
