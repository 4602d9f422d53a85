"""Errors of backups of a group's log. Pure."""

from __future__ import annotations

from .base import ZenitError


class BackupTargetFailed(ZenitError):
    """A directory or bucket for backups did not do what it was asked; what it holds is as before. Args: target, reason."""

    code, retriable = 9220, True

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"backup target {self.target}: {self.reason}"


class BackupRefused(ZenitError):
    """A backup or a restore would mix what does not belong together, or cannot go on; nothing was changed.

    Args: target, reason (with the remedy).
    """

    code = 9221

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.target}: {self.reason}"


class BackupConflict(ZenitError):
    """Somebody else has changed the manifest of a backup meanwhile. Args: target."""

    code = 9222

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        return (
            f"{self.target}: another process writes this backup too; of each group one process may, stop the other"
            " (what both have written is whole)"
        )


class BackupDamaged(ZenitError):
    """Bytes of a backup are missing, or not what was written. Args: target, what."""

    code = 9223

    def __init__(self, target: str, what: str) -> None:
        super().__init__(target, what)
        self.target = target
        self.what = what

    def __str__(self) -> str:
        return (
            f"backup in {self.target} is damaged: {self.what}; zenit backup verify lists what is wrong, zenit backup run"
            " --mend uploads what the store still has, and a copy of the target may have the rest"
        )


class BackupObjectMissing(BackupDamaged):
    """An object of a backup is not there. Args: target, name."""

    code = 9224

    def __init__(self, target: str, name: str) -> None:
        super().__init__(target, f"{name} is missing")
        self.args = (target, name)
        self.name = name
