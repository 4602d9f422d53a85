"""Common parts of the foreground roles: logging to stderr, and the signals that stop them."""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from ..model.config import load_config, with_online_changes
from ..model.errors import ConfigError
from ..model.events.log_config import LogConfig
from ..model.events.log_lines import formatter_of
from ..model.events.telling import limit_repeats
from ..model.examination.finding import Severity
from ..model.examination.machine_rules import judge
from ..remoting.examination.machine import read_machine
from ..remoting.reloading import Reloading, hold_hangups
from .endings import ENDINGS

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from ..metrics.config import MetricsConfig
    from ..metrics.endpoint import MetricsEndpoint


class RoleConfig(Protocol):
    """What the configuration of each role has."""

    @property
    def log(self) -> LogConfig:
        """How it logs."""

    @property
    def node(self) -> str:
        """Its name in logs."""

    @property
    def group(self) -> str:
        """The replica group that it is in; "" for none."""


_C = TypeVar("_C", bound=RoleConfig)


def load_role(cls: type[_C], role: str, file: str | None, settings: list[str] | None) -> _C:
    """The configuration of a role (defaults, file, environment, --set); logging is set up as it says. Raises
    typer.BadParameter.

    A fatal signal (SIGBUS, SIGSEGV) prints each thread's position to stderr. Each connection takes a descriptor, and a
    broker without any stops as after a disk failure: so the process raises its limit from the usual 1,024 to its hard
    limit.
    """
    faulthandler.enable()
    hold_hangups()
    _raise_descriptor_limit()
    try:
        config = load_config(cls, role, file=file, environ=os.environ, overrides=tuple(settings or ()))
    except ConfigError as error:
        raise typer.BadParameter(f"{error.value!r}: expected {error.expected}", param_hint=error.key) from None
    lines = logging.StreamHandler()
    lines.setFormatter(formatter_of(config.log.format, role=role, node=config.node, group=config.group))
    level = os.environ.get("ZENIT_LOG", config.log.level)
    logging.basicConfig(level=level.upper(), handlers=[lines], force=True)
    limit_repeats()
    _judge_machine(getattr(config, "store_dir", None))
    return config


def rereader(cls: type[_C], role: str, file: str | None, settings: list[str] | None) -> Callable[[_C], _C]:
    """A function that reads the sources of a running configuration again, and returns what goes on with: the online keys are
    changed. It logs what changes, what waits for a restart, and what is wrong: then nothing changes."""

    def reread(running: _C) -> _C:
        try:
            wanted = load_config(cls, role, file=file, environ=os.environ, overrides=tuple(settings or ()))
            new, changed, waiting = with_online_changes(running, wanted)
        except ConfigError as error:
            log.error("nothing was reloaded: %s", error)
            return running
        log.warning("reloaded changed=%s", changed)
        if waiting:
            log.warning("these wait for a restart: %s", ", ".join(waiting))
        logging.getLogger().setLevel(os.environ.get("ZENIT_LOG", new.log.level).upper())
        return new

    return reread


def reread_on_hangup(config: _C, reread: Callable[[_C], _C]) -> None:
    """Makes SIGHUP read a role's configuration again, where nothing but its log changes online. Main thread."""
    Reloading(config, reread).listen()


def _judge_machine(store_dir: str | None) -> None:
    """Logs a line for each limit or setting of the machine that is not as a server wants it."""
    levels = {Severity.NOTE: logging.INFO, Severity.WARNING: logging.WARNING, Severity.PROBLEM: logging.ERROR}
    for finding in judge(read_machine(store_dir), with_store=store_dir is not None):
        if finding.severity in levels:
            log.log(levels[finding.severity], "machine: %s", finding.line())


def _raise_descriptor_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # macOS reports "unlimited" but refuses it: the soft limit then stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def measured(config: MetricsConfig) -> Iterator[MetricsEndpoint | None]:
    """The port for metrics and health of a role without a record kernel; None where it is off. Raises ConfigError."""
    from ..metrics.endpoint import MetricsEndpoint
    from ..model.names import VERSION

    if not config.bind:
        yield None
        return
    with MetricsEndpoint(config, version=VERSION, kernel="none") as endpoint:
        yield endpoint


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Makes SIGTERM and SIGINT call `stop`, in the main thread."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        ENDINGS.number = signal.Signals(number)
        stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
