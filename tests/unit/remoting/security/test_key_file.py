"""A key file is whole and its owner's alone, or it is refused in one line; the secret is never shown."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from zenitmq.model.errors import KeyFileRefused
from zenitmq.remoting.security.key_file import (
    KeyFile,
    KeyPair,
    key_file_text,
    parse_key_file,
    read_key_file,
    write_key_file,
)

PAIR = KeyPair("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")
KEY = KeyFile("billing", PAIR, {"127.0.0.1:9876": ("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",)})


def test_it_reads_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "billing.key"
    write_key_file(str(path), KEY)
    assert read_key_file(str(path)) == KEY
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["billing.key"]


def test_a_server_whose_key_is_changed_has_two() -> None:
    both = KeyFile("billing", PAIR, {"h:1": ("a" * 40, "b" * 40), "h:2": ("c" * 40,)})
    assert parse_key_file(key_file_text(both), "p") == both
    for wrong in ("[]", f"[{', '.join(['%r'] * 3)}]" % (("a" * 40,) * 3), "[1]", f'["{"a" * 40}", "x"]'):
        text = key_file_text(KEY).replace('"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"', wrong)
        with pytest.raises(KeyFileRefused, match=r"127\.0\.0\.1:9876"):
            parse_key_file(text, "p")


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(KeyFileRefused, match="No such file or directory"):
        write_key_file(str(tmp_path / "kyes" / "billing.key"), KEY)
    assert os.listdir(tmp_path) == []


def test_it_replaces_no_key_unless_told(tmp_path: Path) -> None:
    path = str(tmp_path / "a.key")
    write_key_file(path, KEY)
    with pytest.raises(KeyFileRefused, match="exists already"):
        write_key_file(path, KEY)
    write_key_file(path, KeyFile("other", PAIR, {}), replace=True)
    assert read_key_file(path).user == "other"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.key"
    write_key_file(str(path), KEY)
    path.chmod(mode)
    with pytest.raises(KeyFileRefused, match="chmod 600"):
        read_key_file(str(path))


@pytest.mark.parametrize(
    ("mode", "own", "is_refused"), [(0o440, 4242, False), (0o440, 0, True), (0o444, 4242, True), (0o460, 4242, True)]
)
def test_a_secret_that_root_lets_the_servers_group_read_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, own: int, is_refused: bool
) -> None:
    """As systemd and Kubernetes mount them: root's, mode 440, for a process that is not root."""
    path = str(tmp_path / "mounted.key")
    write_key_file(path, KEY)
    seen = os.stat(path)
    monkeypatch.setattr(os, "geteuid", lambda: own)
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result((seen.st_mode & ~0o777 | mode, *seen[1:4], 0, *seen[5:])))
    if is_refused:
        with pytest.raises(KeyFileRefused, match="others than its owner may use it"):
            read_key_file(path)
    else:
        assert read_key_file(path) == KEY


@pytest.mark.parametrize(("owner", "is_refused"), [(0, False), (4242, False), (4243, True)])
def test_a_file_of_another_account_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, is_refused: bool
) -> None:
    path = str(tmp_path / "a.key")
    write_key_file(path, KEY)
    seen = os.stat(path)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result((*seen[:4], owner, *seen[5:])))
    if is_refused:
        with pytest.raises(KeyFileRefused, match=r"another account \(user id 4243\): chown 4242"):
            read_key_file(path)
    else:
        assert read_key_file(path) == KEY


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "it has no public"),
        ("user = 'a'\npublic = 'short'\nsecret = 'short'", "'public' is no key"),
        ("[", "no key file"),
        (key_file_text(KEY).replace("secret", "sekret"), "unknown entry 'sekret'"),
        (key_file_text(KEY).replace("[servers]", "servers = 3\n[x]"), "unknown entry"),
        (key_file_text(KEY).replace('user = "billing"', "user = 7"), "has no user"),
        ("a" * 70_000, "no key file"),
    ],
)
def test_what_is_no_key_file_is_refused_without_showing_the_secret(text: str, match: str) -> None:
    with pytest.raises(KeyFileRefused, match=match) as refused:
        parse_key_file(text, "a.key")
    assert PAIR.secret not in str(refused.value)


def test_a_missing_file_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(KeyFileRefused, match="zenit key new"):
        read_key_file(str(tmp_path / "none.key"))
    with pytest.raises(KeyFileRefused, match=r"cannot be read|no file"):
        read_key_file(str(tmp_path))


def test_the_secret_is_never_shown() -> None:
    assert PAIR.secret not in repr(PAIR)
    assert PAIR.secret not in repr(KEY)


def test_the_secret_is_written_into_no_file_that_somebody_laid_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the temporary file is not to be guessed; a link of that name is not followed all the same."""
    seen = tmp_path / "seen"
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    for name in ("a.key.guessed.tmp", f"a.key.{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(seen)
    with pytest.raises(KeyFileRefused, match="cannot be written"):
        write_key_file(str(tmp_path / "a.key"), KEY)
    assert not seen.exists()
    assert (tmp_path / "a.key.guessed.tmp").is_symlink(), "it is not ours to remove"


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.key", 0o600)
    with pytest.raises(KeyFileRefused, match="it is no file"):
        read_key_file(str(tmp_path / "a.key"))
