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
        """That of a standard dataclass with the same fields.

        The standard one is made by `exec` of a text, after which Python forgets that the program is ending by Ctrl-C, and
        what a signal handler raises meanwhile becomes a RuntimeError. A text that was compiled before does neither.
        """
        fields = [each for each in dataclasses.fields(made) if each.init]
        plain = [each for each in fields if not each.kw_only]
        named = [each for each in fields if each.kw_only]
        known: dict[str, object] = {}
        parameters = ["self", *(_parameter(each, known) for each in plain)]
        parameters += ["*", *(_parameter(each, known) for each in named)] if named else []
        lines = [f"self.{each.name} = {_value(each, known)}" for each in dataclasses.fields(made) if _is_set(each)]
        if hasattr(made, "__post_init__"):
            lines.append("self.__post_init__()")
        text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])
        exec(compile(text, f"<the fields of {made.__qualname__}>", "exec"), known)  # noqa: S102  # of names of fields alone
        made_init: Callable[..., None] = known["__init__"]
        made_init.__qualname__ = f"{made.__qualname__}.__init__"
        return made_init

    def _parameter(each: dataclasses.Field, known: dict[str, object]) -> str:
        """`name`, or `name=its default`, which is `known` by a name of its own; a factory's is made in the body."""
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            return each.name
        known[f"_default_{each.name}"] = each.default  # MISSING if a factory makes it
        return f"{each.name}=_default_{each.name}"

    def _is_set(each: dataclasses.Field) -> bool:
        return each.init or each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING

    def _value(each: dataclasses.Field, known: dict[str, object]) -> str:
        """What the field is set to."""
        if each.default_factory is not dataclasses.MISSING:
            known[f"_make_{each.name}"] = each.default_factory
            made = f"_make_{each.name}()"
            return f"{made} if {each.name} is _default_{each.name} else {each.name}" if each.init else made
        if each.init:
            return each.name
        known[f"_default_{each.name}"] = each.default
        return f"_default_{each.name}"

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
