"""The file with the key of users' secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.model.errors import KeyFileRefused
from zenitmq.remoting.security.secret_keys import new_secret_key, read_secret_keys


def written(directory: Path, text: str, mode: int = 0o600) -> str:
    path = directory / "secrets.key"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_one_key_or_two_while_it_is_changed(tmp_path: Path) -> None:
    first, second = new_secret_key(), new_secret_key()
    (key,) = read_secret_keys(written(tmp_path, f"{first}\n"))
    assert len(key) == 32
    assert read_secret_keys(written(tmp_path, f"{second}\n{first}\n"))[1] == key
    assert read_secret_keys("") == ()


@pytest.mark.parametrize("text", ["", "x", "=" * 44, "A" * 44, f"{'A' * 43}=\n" * 3, "A" * 5000])
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeyFileRefused):
        read_secret_keys(written(tmp_path, text))


def test_one_that_others_may_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileRefused, match="chmod 600"):
        read_secret_keys(written(tmp_path, new_secret_key(), 0o644))
    with pytest.raises(KeyFileRefused, match="zenit key secrets"):
        read_secret_keys(str(tmp_path / "absent"))
