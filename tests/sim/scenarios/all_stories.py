"""All stories: each module adds its own to the table as it is imported."""

from __future__ import annotations

from . import (
    controller_stories,
    disk_stories,
    in_sync_stories,
    log_stories,
    role_stories,
    session_stories,
    set_back_stories,
    stall_stories,
)
from .table import STORIES

MODULES = (
    controller_stories,
    disk_stories,
    in_sync_stories,
    log_stories,
    role_stories,
    session_stories,
    set_back_stories,
    stall_stories,
)

__all__ = ["MODULES", "STORIES"]
