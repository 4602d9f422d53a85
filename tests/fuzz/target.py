"""What is fuzzed: a decoder, inputs that come near to what it expects, and what must hold of each.

A *case* is bytes and a number: the bytes are what the decoder is given, the number seeds whatever else the check chooses
(limits, offsets, which side decodes). So a case in a file is all that is needed to see a failure again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

CASE_BYTES_MAX = 256 * 1024
_MAGIC = "zenit fuzz case"


@dataclass(frozen=True, slots=True)
class Target:
    """`make`: the bytes of one case. `check`: decodes them; may raise one of `errors`, which it names, and no other."""

    name: str
    make: Callable[[Random], bytes]
    check: Callable[[bytes, Random], object]
    errors: tuple[type[Exception], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One input of a target."""

    target: str
    number: int
    data: bytes

    def encode(self) -> bytes:
        """A file of it: three lines of text, then the bytes."""
        return f"{_MAGIC}\n{self.target}\n{self.number}\n".encode() + self.data

    @staticmethod
    def decode(content: bytes) -> Case:
        """The reverse. Raises ValueError."""
        magic, target, number, data = content.split(b"\n", 3)
        if magic.decode() != _MAGIC:
            raise ValueError("no case of the fuzz")
        return Case(target.decode(), int(number), data)

    def random(self) -> Random:
        """What the check chooses by."""
        return Random(self.number)


def made_case(target: Target, seed: int, index: int) -> Case:
    """The case number `index` of a run with that seed: always the same one."""
    draw = Random(f"{seed} {target.name} {index}")
    number = draw.getrandbits(48)
    return Case(target.name, number, target.make(draw)[:CASE_BYTES_MAX])
