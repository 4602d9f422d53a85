"""Splits a condition into tokens. A text over the limit is refused before it is scanned. Pure.

Raises SqlSyntaxError; positions count characters from 1.
"""

from __future__ import annotations

import enum
import math
import re
from typing import Final

from ..errors import SqlSyntaxError
from ..plain_dataclass import dataclass

LENGTH_MAX: Final = 4096  # characters
TOKENS_MAX: Final = 1024
INTEGER_MAX: Final = (1 << 63) - 1
FOUND_LENGTH_MAX: Final = 32  # how many characters of the text an error quotes

KEYWORDS: Final = frozenset("AND OR NOT BETWEEN IN IS NULL TRUE FALSE CONTAINS STARTSWITH ENDSWITH".split())

_BLANK: Final = re.compile(r"[ \t\n\r\f]+")
_WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_QUOTED: Final = {"'": re.compile(r"'((?:[^']|'')*)'"), '"': re.compile(r'"((?:[^"]|"")*)"')}
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[lL]?")
_SYMBOL: Final = re.compile(r"<>|<=|>=|[=<>(),+-]")
_WORD_OR_NUMBER_GOES_ON: Final = re.compile(r"[A-Za-z0-9_$.]", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+[lL]?")


class TokenKind(enum.Enum):
    """KEYWORD: `text` in capitals. NAME: of a property. TEXT: the text between the quotes."""

    KEYWORD = "keyword"
    NAME = "name"
    TEXT = "text"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """`number`: the value of a NUMBER."""

    kind: TokenKind
    text: str
    position: int
    number: int | float = 0

    def found(self) -> str:
        """How an error quotes it."""
        return "the end" if self.kind is TokenKind.END else quoted(self.text)


def quoted(text: str) -> str:
    """The part of a text that an error shows, in printable characters."""
    shown = text if len(text) <= FOUND_LENGTH_MAX else text[:FOUND_LENGTH_MAX] + "..."
    return ascii(shown)


def tokens_of(text: str) -> list[Token]:
    """All words of the text, the END last."""
    if len(text) > LENGTH_MAX:
        raise SqlSyntaxError(LENGTH_MAX + 1, f"{len(text)} characters", f"at most {LENGTH_MAX}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SqlSyntaxError(error.start + 1, quoted(text[error.start]), "text that UTF-8 can carry") from error
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            at = blank.end()
            continue
        if len(tokens) == TOKENS_MAX:
            raise SqlSyntaxError(at + 1, "more", f"at most {TOKENS_MAX} words and symbols")
        token, at = _token_at(text, at)
        tokens.append(token)
    tokens.append(Token(TokenKind.END, "", len(text) + 1))
    return tokens


def _token_at(text: str, at: int) -> tuple[Token, int]:
    """The token that begins at index `at`, and the index behind it."""
    if text[at] in _QUOTED:
        return _quoted_token(text, at)
    word = _WORD.match(text, at)
    if word is not None:
        capitals = word[0].upper()
        if capitals in KEYWORDS:
            return Token(TokenKind.KEYWORD, capitals, at + 1), word.end()
        return Token(TokenKind.NAME, word[0], at + 1), word.end()
    number = _NUMBER.match(text, at)
    if number is not None:
        return _number_token(text, number), number.end()
    symbol = _SYMBOL.match(text, at)
    if symbol is None:
        raise SqlSyntaxError(at + 1, quoted(text[at]), "a property, a value or an operator")
    return Token(TokenKind.SYMBOL, symbol[0], at + 1), symbol.end()


def _quoted_token(text: str, at: int) -> tuple[Token, int]:
    """'...' is a text, "..." the name of a property; a quote inside is doubled."""
    quote = text[at]
    match = _QUOTED[quote].match(text, at)
    if match is None:
        raise SqlSyntaxError(at + 1, quoted(text[at:]), f"a closing {quote}")
    inside = match[1].replace(quote * 2, quote)
    control = re.search(r"[\x00-\x02]", inside)
    if control is not None:
        raise SqlSyntaxError(at + 1, quoted(control[0]), "text without the bytes 0, 1 and 2")
    if quote == "'":
        return Token(TokenKind.TEXT, inside, at + 1), match.end()
    if not inside:
        raise SqlSyntaxError(at + 1, quoted('""'), "the name of a property")
    return Token(TokenKind.NAME, inside, at + 1), match.end()


def _number_token(text: str, match: re.Match[str]) -> Token:
    """A whole number of 64 bits with a sign, or a finite one with a point or an exponent."""
    digits = match[0]
    position = match.start() + 1
    if _WORD_OR_NUMBER_GOES_ON.match(text, match.end()):
        raise SqlSyntaxError(position, quoted(text[match.start() :]), "a number")
    if _DIGITS.fullmatch(digits):
        value = int(digits.rstrip("lL"))
        if value > INTEGER_MAX:
            raise SqlSyntaxError(position, quoted(digits), f"a whole number of at most {INTEGER_MAX}")
        return Token(TokenKind.NUMBER, digits, position, value)
    if digits[-1] in "lL":
        raise SqlSyntaxError(position, quoted(digits), "a number")
    real = float(digits)
    if math.isinf(real):
        raise SqlSyntaxError(position, quoted(digits), "a number that 64 bits can hold")
    return Token(TokenKind.NUMBER, digits, position, real)
