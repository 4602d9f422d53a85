"""The queues of deleted topics, kept until the deletion is confirmed.

A replica applies what it appends at once, but that may still be cut from its log, a deletion too. So the queues of a topic
are set aside by a rename, and are deleted for good when the deletion is confirmed:

    consumequeue/{topic}/  --the event that ends at byte `at`-->  deletedqueue/{at, 20 digits}.{topic}/
                                                                     | confirmed past `at`: deleted
    consumequeue/{topic}/  <--the log was cut below `at`-------------'
"""

from __future__ import annotations

import os
import shutil
from typing import Final

from ..log.segment import NAME_DIGITS, make_directory, sync_directory

DELETED_FOLDER: Final = "deletedqueue"
DELETED_BATCH_FOLDER: Final = "deletedbatchqueue"  # the same, of batch queues


def set_aside(deleted: str, topic_folder: str, at: int) -> str:
    """Moves a topic's queues away into the folder `deleted`, durably; returns their new folder. Raises OSError.

    If an earlier process has done that already, the queues found now were made by a replay, and are deleted.
    """
    make_directory(deleted)
    target = os.path.join(deleted, f"{at:0{NAME_DIGITS}d}.{os.path.basename(topic_folder)}")
    if os.path.isdir(target):
        shutil.rmtree(topic_folder)
    else:
        os.rename(topic_folder, target)
    sync_directory(deleted)
    sync_directory(os.path.dirname(topic_folder))
    return target


def purge(deleted: str, confirmed: int) -> None:
    """Deletes the queues whose deletion is confirmed. Worker thread. Raises OSError."""
    for at, topic in _listed(deleted):
        if at <= confirmed:
            shutil.rmtree(_path(deleted, at, topic))


def restore(deleted: str, queue_folder: str, end: int) -> bool:
    """Takes back the deletions behind `end`, to which the log was cut; returns whether there are any. May be repeated after a
    crash. Raises OSError."""
    taken_back = False
    for at, topic in reversed(_listed(deleted)):
        if at > end:
            shutil.rmtree(
                os.path.join(queue_folder, topic), ignore_errors=True
            )  # queues of a topic created after the deletion
            make_directory(queue_folder)
            os.rename(_path(deleted, at, topic), os.path.join(queue_folder, topic))
            taken_back = True
    for folder in (queue_folder, deleted):
        if os.path.isdir(folder):
            sync_directory(folder)
    return taken_back


def _listed(deleted: str) -> list[tuple[int, str]]:
    """(end of the deletion event, topic), ascending."""
    try:
        names = sorted(os.listdir(deleted))
    except FileNotFoundError:
        return []
    return [(int(name[:NAME_DIGITS]), name[NAME_DIGITS + 1 :]) for name in names if name[:NAME_DIGITS].isdigit()]


def _path(deleted: str, at: int, topic: str) -> str:
    return os.path.join(deleted, f"{at:0{NAME_DIGITS}d}.{topic}")
