"""Whether what a proxy needs is installed: the extra `proxy`."""

from __future__ import annotations

import importlib.util
from typing import Final

from ..model.errors import RequirementMissing

INSTALL: Final = "pip install 'zenitmq[proxy]'"


def check_installed() -> None:
    """Raises RequirementMissing if what speaks gRPC is not installed."""
    for module in ("grpc", "google.protobuf"):
        try:
            is_there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise RequirementMissing(f"{module}, which a proxy needs,", INSTALL)
