"""State files: ours are whole or not there, RocketMQ's are read although they are not quite JSON."""

import json

import pytest

from zenitmq.store.opening import snapshot
from zenitmq.store.opening.snapshot import Snapshot, parse_snapshot, read_snapshot, write_snapshot

DOCUMENT = {"offsetTable": {"t@g": {"0": 5, "1": 7}}, "text": 'a "quoted" {0:1} größe \\'}


def test_written_and_read(tmp_path) -> None:
    path = str(tmp_path / "config" / "x.json")
    write_snapshot(path, DOCUMENT, 77)
    assert read_snapshot(path) == Snapshot(DOCUMENT, 77)
    write_snapshot(path, {}, 78)
    assert read_snapshot(path) == Snapshot({}, 78)
    assert [entry.name for entry in (tmp_path / "config").iterdir()] == ["x.json"]
    assert "zenit" in json.loads((tmp_path / "config" / "x.json").read_text())


def test_rocketmq_s_bare_keys() -> None:
    text = '{"offsetTable":{"t@g":{0:58,\n\t1:-3 , -1 : 2},"odd{0:1}":{}},"list":[1,2,{3:4}]}'
    assert parse_snapshot(text) == Snapshot(
        {"offsetTable": {"t@g": {"0": 58, "1": -3, "-1": 2}, "odd{0:1}": {}}, "list": [1, 2, {"3": 4}]}, None
    )


def test_any_change_is_noticed(tmp_path) -> None:
    path = tmp_path / "x.json"
    write_snapshot(str(path), DOCUMENT, 5)
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in (0, 3, 6):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            found = read_snapshot(str(path))
            assert found is None or found == Snapshot(DOCUMENT, 5) or found.reflected is None, (at, bit)
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        assert read_snapshot(str(path)) is None


@pytest.mark.parametrize("broken", [None, b"", b"{", b"\xff\xfe", b"[1]", b'{"zenit":{"reflected":1,"crc32":0}}'])
def test_the_copy_stands_in_for_what_is_missing_or_broken(tmp_path, broken: bytes | None) -> None:
    if broken is not None:
        (tmp_path / "x.json").write_bytes(broken)
    assert read_snapshot(str(tmp_path / "x.json")) is None
    (tmp_path / "x.json.bak").write_text('{"a":{0:1}}')
    assert read_snapshot(str(tmp_path / "x.json")) == Snapshot({"a": {"0": 1}}, None)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"a": {}, "b": [], "c": None, "d": {"x": {"y": [1, "z", {"w": 1.5}]}}},
        {"t": {"caf\u00e9": '\u2028 "quoted" \ud800', "": True}, "numbers": {1: 2, 3: {"4": 5}}, "rest": "text"},
    ],
)
def test_an_entry_at_a_time_gives_the_same_text(document) -> None:
    entries = {name: snapshot._entries(value) for name, value in document.items()}
    assert snapshot._joined(entries) == json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def test_a_large_file_has_an_entry_a_line_and_reads_the_same(tmp_path, monkeypatch) -> None:
    path, document = tmp_path / "x.json", {**DOCUMENT, "numbers": {1: 2, 3: {"4": 5}}, "none": {}}
    write_snapshot(str(path), document, 5)
    small = path.read_text()
    monkeypatch.setattr(snapshot, "_INDENTED_MAX", 10)
    write_snapshot(str(path), document, 5)
    assert json.loads(path.read_text()) == json.loads(small)
    assert read_snapshot(str(path)).reflected == 5
    assert path.read_text().count("\n") == 4


def test_no_step_encodes_a_whole_table(tmp_path, monkeypatch) -> None:
    """The encoder holds the interpreter: the loop waits for as long as its longest step."""
    sizes, encode = [], snapshot._encode
    monkeypatch.setattr(snapshot, "_encode", lambda value: sizes.append(len(encode(value))) or encode(value))
    table = {f"t{number}@g": {str(queue_id): 123_456 for queue_id in range(16)} for number in range(800)}
    path = str(tmp_path / "consumerOffset.json")
    write_snapshot(path, {"offsetTable": table, "dataVersion": {"counter": 1}}, 7)
    assert max(sizes) < 500
    assert read_snapshot(path).document["offsetTable"] == table
