"""`./test.sh` leaves no test file out, and its quick form finds those of a folder."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import durations, parts, tracing


def test_every_test_file_is_in_one_part() -> None:
    once = [part for part in parts.every_part() if part.kind not in (parts.INTERPRETED, parts.SECURED)]
    listed = Counter(file for part in once for file in part.files)
    assert listed == Counter(parts.test_files("tests"))


def test_what_runs_secured_is_there() -> None:
    assert set(parts.SECURED_FILES) <= set(parts.test_files("tests/integration"))


def test_what_is_not_traced_is_there() -> None:
    """A line that names no test any more would hide nothing, and be in the way."""
    lines = tracing.LIST.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    texts: dict[str, str] = {}
    for line in lines:
        file, *_, test = line.split("::")
        text = texts.setdefault(file, (parts.ROOT / file).read_text(encoding="utf-8"))
        assert f"def {test}(" in text or f"class {line.split('::')[1]}" in text, line


def test_the_longest_part_is_first() -> None:
    seconds = [part.seconds for part in parts.every_part()]
    assert seconds == sorted(seconds, reverse=True)


def test_a_kind_is_divided_by_what_its_files_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "kept", lambda: {"a": 300, "b": 180, "c": 130})
    kind, each = parts.Kind("it", "computes", ()), parts.IMPORT_S
    assert [(part.name, part.files, part.seconds) for part in parts.divided(kind, ["a", "b", "c", "new"])] == [
        ("it-1", ("a",), 300 + each),
        ("it-2", ("b",), 180 + each),
        ("it-3", ("c", "new"), 130 + 2 * each),
    ]
    assert [part.files for part in parts.divided(kind, ["a", "b", "c"], count=2)] == [("a",), ("b", "c")]


def test_bytes_are_written_and_read_by_interpreted_kernels_too() -> None:
    assert {
        "tests/wire/test_golden_stores.py",
        "tests/unit/record/test_message_store.py",
        parts.INTERPRETED_STORE,
    } <= set(parts.interpreted_files())


def test_the_quick_form_takes_a_folder_and_the_folders_in_it() -> None:
    files = {file for part in parts.quick_parts("client") for file in part.files}
    assert {"tests/unit/client/sending/test_queue_choice.py", "tests/architecture/test_floors.py"} <= files
    assert not {
        file
        for file in files
        if not file.startswith(("tests/architecture", "tests/unit/client", "tests/property/client"))
    }
    assert len(files) < len({file for part in parts.quick_parts(None) for file in part.files})
