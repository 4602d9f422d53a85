"""The glossary of docs/architecture.md: each word is used, and modules are named with its words and with plain English."""

from __future__ import annotations

import re
from pathlib import Path

from measured_files import package_files

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PLAIN = Path(__file__).with_name("plain_words.txt")


def page_and_glossary() -> tuple[str, list[str]]:
    """The page before its glossary, and the words defined there."""
    text, _, glossary = PAGE.read_text(encoding="utf-8").partition("\n## Glossary\n")
    return text, re.findall(r"^\| ([a-z][a-z -]+) \| [A-Z]", glossary, re.MULTILINE)


def test_each_word_is_defined_once_in_alphabetical_order() -> None:
    _, words = page_and_glossary()
    assert len(words) > 100
    assert words == sorted(set(words))


def test_each_word_of_the_glossary_is_used() -> None:
    text, words = page_and_glossary()
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path != PAGE]
    sources = "\n".join([text, *(path.read_text(encoding="utf-8") for path in [*package_files(), *pages])])
    used = re.sub(r"[-_\s]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", sources)).lower()
    assert not [word for word in words if not re.search(rf"\b{word.replace('-', ' ')}", used)]


def test_module_names_are_words_of_the_glossary_or_plain_ones() -> None:
    _, glossary = page_and_glossary()
    known = {part for word in glossary for part in re.split(r"[ -]", word)}
    known.update(PLAIN.read_text(encoding="utf-8").split())
    names = {part for path in package_files() for part in path.relative_to(ROOT).with_suffix("").parts}
    words = {word for name in names - {"__init__"} for word in name.split("_")}
    unknown = sorted(word for word in words if word not in known and word.removesuffix("s") not in known)
    assert not unknown, f"explain {unknown} in the glossary, or list them in {PLAIN.name} if everybody knows them"


def test_what_the_page_says_to_read_is_there() -> None:
    """The functions that "in one hour" names are in their files."""
    text, _ = page_and_glossary()
    hour = text.partition("**In one hour**")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| (.*) \|$", hour, re.MULTILINE)
    assert len(rows) > 5
    named = [(file, name) for file, names in rows for name in re.findall(r"`(\w+)`", names)]
    assert not [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")]
