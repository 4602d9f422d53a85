"""The selection of dead letters that the jobs dlq-report and dlq-redrive share."""

from __future__ import annotations

from typing import Protocol

from ...client.admin import Admin
from ...client.administration.letter_selection import LetterSelection
from ...model.errors import GroupNotFound
from .job import Document


class LetterOptions(Protocol):
    """The settings of both jobs."""

    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def origins(self) -> tuple[str, ...]: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def reason(self) -> str: ...


def selection_of(options: LetterOptions) -> LetterSelection:
    """The selection of the options."""
    return LetterSelection(topics=frozenset(options.origins), tags=frozenset(options.tags), reason=options.reason)


def groups_with_letters(admin: Admin, groups: tuple[str, ...]) -> list[Document]:
    """The dead letters of all groups or of the named ones; groups without any are left out.

    Raises GroupNotFound if a named one has none and does not exist: a deleted group may have left letters.
    """
    if not groups:
        return [row for row in admin.dead_letter_groups() if row["letters"]]
    found = [row for group in groups for row in admin.dead_letter_groups(group) if row["letters"]]
    without = set(groups) - {row["group"] for row in found}
    unknown = without - {row["name"] for row in admin.groups()} if without else without
    if unknown:
        raise GroupNotFound(min(unknown))
    return found
