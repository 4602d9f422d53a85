"""The last step of a conversion of a store's queues to another engine, and what a crash in it leaves.

    1  converting/consumequeue    made, compared, durable           interrupted before: it is made anew
       (or shadow/consumequeue, which followed the old ones: queue_pair)
    2  consumequeue -> consumequeue.old
    3  converting/consumequeue -> consumequeue                      interrupted between: the next opening does it
    4  consumequeue.old and converting are deleted                  interrupted: the next opening does it

So at any time either the old queues or the new ones are whole under the name that everybody opens.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

from ..log.segment import sync_directory
from .queue_engine import QUEUE_FOLDER

CONVERTING_FOLDER: Final = "converting"
SHADOW_FOLDER: Final = "shadow"
WHOLE_FILE: Final = "whole"
OLD_QUEUE_FOLDER: Final = f"{QUEUE_FOLDER}.old"


def begin_conversion(directory: str) -> str:
    """An empty folder to make the new queues in, as if it were a store. Raises OSError."""
    finish_conversion(directory)
    target = os.path.join(directory, CONVERTING_FOLDER)
    shutil.rmtree(target, ignore_errors=True)
    os.mkdir(target)
    return target


def drop_shadow(directory: str) -> None:
    """Deletes a store's shadow: first what says that it is whole, since a crash may leave a part of it. Raises OSError."""
    shadow = os.path.join(directory, SHADOW_FOLDER)
    whole = os.path.join(shadow, WHOLE_FILE)
    if os.path.exists(whole):
        os.unlink(whole)
        sync_directory(shadow)
    shutil.rmtree(shadow, ignore_errors=True)


def adopt_shadow(directory: str) -> None:
    """The shadow, which is whole, takes the place of the old queues. Raises OSError."""
    converting = os.path.join(directory, CONVERTING_FOLDER)
    if os.path.isdir(converting):  # an interrupted conversion, which would be preferred
        shutil.rmtree(converting)
        sync_directory(directory)
    adopt_converted(directory)


def adopt_converted(directory: str) -> None:
    """The new queues, which are durable, take the place of the old ones. Raises OSError."""
    os.rename(os.path.join(directory, QUEUE_FOLDER), os.path.join(directory, OLD_QUEUE_FOLDER))
    sync_directory(directory)
    finish_conversion(directory)


def finish_conversion(directory: str) -> None:
    """Ends what a crash interrupted after the new queues were whole. Raises OSError."""
    old, new = os.path.join(directory, OLD_QUEUE_FOLDER), os.path.join(directory, CONVERTING_FOLDER)
    if not os.path.isdir(old):
        return
    queues = os.path.join(directory, QUEUE_FOLDER)
    shadow = os.path.join(directory, SHADOW_FOLDER)
    if not os.path.isdir(queues):
        made = next(found for found in (new, shadow) if os.path.isdir(os.path.join(found, QUEUE_FOLDER)))
        os.rename(os.path.join(made, QUEUE_FOLDER), queues)
        sync_directory(directory)
    shutil.rmtree(old)
    shutil.rmtree(new, ignore_errors=True)
    drop_shadow(directory)
