"""The dataclass of values inside the package: each class is made in a quarter of the time. Pure.

To the type checker it is the standard one, which nobody assigns to where it is frozen. At run time Python generates no code for
that, nor for comparing, hashing and showing each of several hundred classes, which was a third of what a process took to
start. What users get from us, and may assign to by mistake, is the standard one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from collections.abc import Callable
    from operator import attrgetter

    def dataclass(*, frozen: bool = False, slots: bool, kw_only: bool = False) -> Callable[[type], type]:
        """The class, with slots; equal by its fields, and hashed by them where it is frozen."""
        make = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)

        def made(plain: type) -> type:
            return _made_when_first_called(_by_fields(make(plain), frozen))

        return made

    def _made_when_first_called(made: type) -> type:
        """The class, whose `__init__` Python generates once somebody wants an object of it."""

        def first(self: object, *values: object, **named: object) -> None:
            if made.__init__ is first:
                made.__init__ = _init_of(made)
            made.__init__(self, *values, **named)

        made.__init__ = first
        return made

    def _init_of(made: type) -> Callable[..., None]:
        """That of a standard dataclass with the same fields."""
        fields = [(each.name, each.type, each) for each in dataclasses.fields(made)]
        after = {name: getattr(made, name) for name in ("__post_init__",) if hasattr(made, name)}
        twin = dataclasses.make_dataclass(made.__qualname__, fields, namespace=after, repr=False, eq=False)
        return twin.__init__

    def _by_fields(made: type, frozen: bool) -> type:
        fields = dataclasses.fields(made)
        compared = tuple(each.name for each in fields if each.compare)
        shown = tuple(each.name for each in fields if each.repr)
        values = attrgetter(*compared) if compared else type

        def equal(self: object, other: object) -> bool:
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        def hashed(self: object) -> int:
            return hash(values(self))

        def text(self: object) -> str:
            return f"{made.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        made.__eq__, made.__hash__, made.__repr__ = equal, hashed if frozen else None, text
        return made
