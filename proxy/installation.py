"""Whether what a proxy needs is installed: the extra `proxy`."""

from __future__ import annotations

import importlib.util
from typing import Final

from ..model.errors import RequirementMissing

INSTALL: Final = "a proxy needs it: pip install 'zenitmq[proxy]', in a clone '.[proxy]'"


def check_installed() -> None:
    """Raises RequirementMissing if what speaks gRPC is not installed."""
    for module in ("hpack", "google.protobuf"):
        try:
            is_there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise RequirementMissing(module, INSTALL)
