"""A slave asks its master for a beginning until it is written down: nothing that goes wrong on the way ends that."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from typing import Any

import pytest
from link_kit import FakeClient, ManualLoop
from sim.group_kit import group

from zenitmq.broker.group.beginning_anew import GIVE_UP_MS, LOOK_MS, RETRY_MS, BeginningSearch
from zenitmq.broker.group.store_directory import DirectoryOnDisk
from zenitmq.broker.replication.beginning import Beginning, beginning_document, is_beginning_noted
from zenitmq.broker.replication.epochs import Epoch, EpochList
from zenitmq.model.errors import BufferFull, ConnectionLost
from zenitmq.model.groups.group import KnownGroup
from zenitmq.model.queue import PhysicalOffset
from zenitmq.remoting.commands import GetBeginning
from zenitmq.store.compaction.incoming import INCOMING_FOLDER
from zenitmq.store.config import StoreConfig

BEGINNING = Beginning(4096, 4096, EpochList((Epoch(1, PhysicalOffset(0)),)), {}, {("t", 0): 7})
ANSWER = json.dumps(beginning_document(replace(BEGINNING, has_compacted=True))).encode()
ANSWER_WITHOUT = json.dumps(beginning_document(BEGINNING)).encode()


class CopyingClient(FakeClient):
    """Its master has no compacted files, or cannot be asked about them."""

    listed: Any = json.dumps({"queues": []}).encode()

    def call(self, _address: str, _request: Any, *, timeout_ms: int) -> tuple[None, bytes]:
        if isinstance(self.listed, Exception):
            raise self.listed
        return None, self.listed


class Story:
    """b asks; a is master, until the test says otherwise."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.loop: Any = ManualLoop()
        self.client: Any = CopyingClient()
        self.known: KnownGroup | None = KnownGroup(group("ab", in_sync="a"), 3)
        self.noted = 0
        self.search = BeginningSearch(
            self.client,
            self.loop,
            DirectoryOnDisk(directory, StoreConfig()),
            name="b",
            store_id="store-b",
            known=lambda: self.known,
            on_noted=self.on_noted,
        )
        self.search.begin()

    def on_noted(self) -> None:
        self.noted += 1

    def answer(self, data: bytes = ANSWER) -> None:
        self.client.one(GetBeginning).on_reply(None, data, None)
        self.copy()

    def copy(self) -> None:
        """The compacted files are copied; the loop sees it."""
        self.search._copying.submit(lambda: None).result(20)
        self.loop.pass_ms(LOOK_MS)


@pytest.fixture
def story(tmp_path) -> Story:
    return Story(str(tmp_path))


def test_what_the_master_answers_is_written_down(story: Story) -> None:
    story.answer()
    assert story.noted == 1
    assert is_beginning_noted(story.directory)
    assert not story.search.withdraw(), "the broker is opened anew already"
    story.loop.pass_ms(60_000)
    assert story.client.sent == []


def test_a_master_without_compacted_files_is_not_asked_for_them_and_ours_go(story: Story) -> None:
    """So does an older one, which does not say what it has. What an earlier copy has left goes, too."""
    older = json.dumps(
        {name: value for name, value in json.loads(ANSWER_WITHOUT).items() if name != "compacted"}
    ).encode()
    incoming = os.path.join(story.directory, INCOMING_FOLDER)
    os.makedirs(os.path.join(incoming, "queues", "left"))
    story.client.listed = ConnectionLost("a")
    story.client.one(GetBeginning).on_reply(None, older, None)
    assert story.noted == 1
    assert os.path.isdir(incoming)
    assert not os.path.exists(os.path.join(incoming, "queues", "left"))


def test_who_does_not_answer_or_answers_nonsense_is_asked_again(story: Story) -> None:
    for answer in (b"{}", b"no"):
        story.answer(answer)
        story.loop.pass_ms(RETRY_MS)
    story.client.one(GetBeginning).fail(ConnectionLost("a"))
    story.client.refuses = ConnectionLost("a")
    story.loop.pass_ms(RETRY_MS)
    story.client.refuses = None
    story.loop.pass_ms(RETRY_MS)
    story.answer()
    assert story.noted == 1


def test_an_answer_that_the_loop_had_no_room_for_is_asked_for_again(story: Story, monkeypatch) -> None:
    def full(_callback: object) -> None:
        raise BufferFull("loop")

    with monkeypatch.context() as patched:
        patched.setattr(story.loop, "post", full)
        story.answer()
    story.loop.pass_ms(GIVE_UP_MS)
    story.answer()
    assert story.noted == 1


def test_a_full_disk_is_waited_for(story: Story, monkeypatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("zenitmq.store.opening.small_file.SystemFiles.replace", full)
        story.answer()
    assert story.noted == 0
    story.loop.pass_ms(RETRY_MS)
    story.answer()
    assert story.noted == 1


def test_a_master_that_cannot_be_copied_from_is_asked_again(story: Story) -> None:
    for wrong in (ConnectionLost("a"), b"no", b'{"queues": [["t", 0, "damaged"]]}', b'{"queues": [["../t", 0, ""]]}'):
        story.client.listed = wrong
        story.answer()
        assert story.noted == 0
        story.loop.pass_ms(RETRY_MS)
    del story.client.listed
    story.answer()
    assert story.noted == 1


def test_while_nobody_else_leads_nobody_is_asked(story: Story) -> None:
    late = story.client.one(GetBeginning)
    story.known = KnownGroup(group("ab", in_sync="b", master="b", epoch=2), 4)
    late.fail(ConnectionLost("a"))
    story.loop.pass_ms(10 * RETRY_MS)
    assert story.client.sent == []


def test_what_comes_once_it_was_withdrawn_is_too_late(story: Story) -> None:
    late = story.client.one(GetBeginning)
    assert story.search.withdraw()
    late.on_reply(None, ANSWER, None)
    story.loop.pass_ms(2 * GIVE_UP_MS)
    assert (story.noted, story.client.sent) == (0, [])
    assert not is_beginning_noted(story.directory)
    story.search.begin()
    story.answer()
    assert story.noted == 1
