"""All mutations: each module adds its own to the table as it is imported."""

from __future__ import annotations

from . import (
    mutations_of_controllers,
    mutations_of_detection,
    mutations_of_drains,
    mutations_of_masters,
    mutations_of_roles,
    mutations_of_sessions,
    mutations_of_set_backs,
    mutations_of_slaves,
    mutations_of_strangers,
)
from .mutation_table import MUTATIONS, mutated

MODULES = (
    mutations_of_masters,
    mutations_of_sessions,
    mutations_of_set_backs,
    mutations_of_slaves,
    mutations_of_roles,
    mutations_of_controllers,
    mutations_of_detection,
    mutations_of_drains,
    mutations_of_strangers,
)

__all__ = ["MODULES", "MUTATIONS", "mutated"]
