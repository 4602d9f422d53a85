"""Common parts of the foreground roles: logging to stderr, and the signals that stop them."""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TypeVar

import typer

from ..model.config import load_config
from ..model.errors import ConfigError
from .endings import ENDINGS

_C = TypeVar("_C")

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def load_role(cls: type[_C], role: str, file: str | None, settings: list[str] | None) -> _C:
    """The configuration of a role (defaults, file, environment, --set), after logging is set up. Raises typer.BadParameter.

    A fatal signal (SIGBUS, SIGSEGV) prints each thread's position to stderr. Each connection takes a descriptor, and a
    broker without any stops as after a disk failure: so the process raises its limit from the usual 1,024 to its hard
    limit.
    """
    faulthandler.enable()
    _raise_descriptor_limit()
    logging.basicConfig(level=os.environ.get("ZENIT_LOG", "INFO").upper(), format=LOG_FORMAT, force=True)
    try:
        return load_config(cls, role, file=file, environ=os.environ, overrides=tuple(settings or ()))
    except ConfigError as error:
        raise typer.BadParameter(f"{error.value!r}: expected {error.expected}", param_hint=error.key) from None


def _raise_descriptor_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # macOS reports "unlimited" but refuses it: the soft limit then stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Makes SIGTERM and SIGINT call `stop`, in the main thread."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        ENDINGS.number = signal.Signals(number)
        stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
