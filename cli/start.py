"""The console script: sets what must be set before the libraries of the command line are imported, then runs `main`."""

from __future__ import annotations

import os

from . import garbage


def run() -> None:
    """Ends the process with the exit code of the command."""
    # numpy starts threads for linear algebra when it is imported; nothing here does any.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    garbage.begin()
    from .main import run as run_command

    try:
        run_command()
    finally:
        garbage.end()
