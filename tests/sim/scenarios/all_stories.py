"""All stories: each module adds its own to the table as it is imported."""

from __future__ import annotations

from . import (
    confirm_stories,
    controller_stories,
    disk_stories,
    drain_stories,
    in_sync_stories,
    log_stories,
    role_stories,
    session_stories,
    set_back_stories,
    stall_stories,
    stranger_stories,
)
from .table import STORIES

MODULES = (
    confirm_stories,
    controller_stories,
    disk_stories,
    drain_stories,
    in_sync_stories,
    log_stories,
    role_stories,
    session_stories,
    set_back_stories,
    stall_stories,
    stranger_stories,
)

__all__ = ["MODULES", "STORIES"]
