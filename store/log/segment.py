"""Files of a fixed size that are read through a map: the only file that maps memory.

A log is a run of such files, each named by the 20 digits of the offset of its first byte. They are written by
`pwritev`, never through the map (the first touch of a mapped page costs more, and under the GIL), and allocated before
they are mapped (touching a hole on a full disk is a SIGBUS, not an exception). Two kinds differ: consume-queue files
are sparse (they are only ever read through the map, and a hole reads as zeros), and index files have the one writable
map (`MappedFile(writable=True)` over a file made by `create_allocated`).

Views of a map pin it: `unmap` refuses while one is alive. `unmap` and `populate` do their slow part off the GIL.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...model.errors import StoreFormatError, StoreNotWriteable, StorePoisoned, ZenitError

NAME_DIGITS: Final = 20
WIPE_STEP_BYTES: Final = 256 * 1024  # wiped parts are first read and compared: memory for two of them
EMPTY: Final = memoryview(b"")
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FALLOC_KEEP_SIZE: Final = 1
_FALLOC_PUNCH_HOLE: Final = 2
_SYNC_FILE_RANGE_WRITE: Final = 2
_UNREADABLE: Final = frozenset({errno.EFAULT, errno.EIO, getattr(errno, "EHWPOISON", 133)})  # of MADV_POPULATE_READ
MADV_DONTNEED: Final = 4
MADV_POPULATE_READ: Final = 22
MADV_POPULATE_WRITE: Final = 23


def private_memory(size_bytes: int) -> memoryview:
    """Zeroed memory with a mapping of its own: a page is used from its first write on, and all are returned with the last view.

    Heap memory may be cleared, and so used whole, at once; freed, it may stay with the process as a hole.
    """
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _fallocate(fd: int, offset: int, size_bytes: int) -> None:
    """Reserves the space; if the platform cannot (macOS, for development only) a full disk is noticed later."""
    if sys.platform.startswith("linux"):
        os.posix_fallocate(fd, offset, size_bytes)
    else:
        os.ftruncate(fd, offset + size_bytes)


@dataclass(frozen=True, slots=True)
class Disk:
    """The system calls that can fail because of the disk; tests replace them by failing ones."""

    pwritev: Callable[[int, Sequence[bytes | memoryview], int], int] = os.pwritev
    fdatasync: Callable[[int], None] = os.fdatasync
    fallocate: Callable[[int, int, int], None] = _fallocate


SYSTEM_DISK: Final = Disk()


def segment_name(base_offset: int) -> str:
    """The file name of the segment that begins at `base_offset`."""
    return f"{base_offset:0{NAME_DIGITS}d}"


def list_segments(directory: str, size_bytes: int) -> list[int]:
    """The base offsets of the segments in a directory, ascending; none if it does not exist.

    Raises StoreFormatError if a name is no offset, a size is not `size_bytes` (except an empty last file, which RocketMQ
    may leave and which is skipped) or a segment is missing between two others.
    """
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    bases: list[int] = []
    for name in names:
        path = os.path.join(directory, name)
        if len(name) != NAME_DIGITS or not name.isascii() or not name.isdigit():
            raise StoreFormatError(path, "its name is not the 20 digits of an offset")
        found = os.path.getsize(path)
        if found == 0 and name == names[-1]:
            continue
        if found != size_bytes:
            raise StoreFormatError(path, f"it has {found} bytes where the configuration says {size_bytes}")
        base = int(name)
        if base % size_bytes or (bases and base != bases[-1] + size_bytes):
            raise StoreFormatError(path, "it does not follow the file before it")
        bases.append(base)
    return bases


def create_allocated(path: str, size_bytes: int, disk: Disk = SYSTEM_DISK) -> None:
    """Creates a fully allocated file; leaves none behind if that fails. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        disk.fallocate(fd, 0, size_bytes)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def create_sparse(path: str, size_bytes: int) -> None:
    """Creates a sparse file of zeros: only for files written by `pwrite` alone. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(fd, size_bytes)
    finally:
        os.close(fd)


def sync_directory(directory: str) -> None:
    """Makes the names in a directory durable. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """Creates a directory and its parents if missing; their names are then durable. Raises OSError."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path) or "."
    make_directory(above)
    os.makedirs(path, exist_ok=True)
    sync_directory(above)


def disk_error(error: OSError, doing: str) -> ZenitError:
    """The error for a failed allocation: without room StoreNotWriteable, for a broken disk StorePoisoned, which is final.

    `doing`: what was tried, and where; for files that are allocated whole, with their size.
    """
    if error.errno in (errno.EIO, errno.EROFS):
        return StorePoisoned(f"{doing}: {error.strerror}")
    if error.errno in NO_SPACE:
        return StoreNotWriteable(f"disk full: free space, then writes go on by themselves ({doing})")
    return StoreNotWriteable(f"{doing}: {error.strerror}")


def _madvise(view: memoryview, advice: int) -> bool:
    """Calls the kernel's madvise off the GIL; False if this platform or kernel does not know the advice."""
    return len(view) > 0 and _madvise_errno(view, advice) == 0


def _madvise_errno(view: memoryview, advice: int) -> int:
    """0, or why it failed."""
    if _libc is None:
        return errno.ENOSYS
    buffer = _Buffer()
    _get_buffer(view, buffer, _SIMPLE)
    try:
        skipped = buffer.address % mmap.PAGESIZE
        done = _libc.madvise(buffer.address - skipped, len(view) + skipped, advice) == 0
        return 0 if done else ctypes.get_errno()
    finally:
        _release_buffer(buffer)


def page_in(view: memoryview) -> bool:
    """Brings the pages of a view of a map into memory, off the GIL. False if the disk cannot read all of them: touching
    one of those is SIGBUS, which ends the process.

    A kernel without the advice (before Linux 5.14) touches them; there an unreadable sector ends the process.
    """
    if not len(view):
        return True
    error = _madvise_errno(view, MADV_POPULATE_READ)
    if error in _UNREADABLE:
        return False
    if error:
        zlib.crc32(view)
    return True


class _Buffer(ctypes.Structure):
    """What Python says of the memory of a view, read-only or not (`Py_buffer`): its address, and ten more words."""

    _fields_ = (("address", ctypes.c_size_t), ("others", ctypes.c_void_p * 10))


_SIMPLE: Final = 0
_get_buffer: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release_buffer: Final = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Buffer))(("PyBuffer_Release", ctypes.pythonapi))


def _load_libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.madvise.restype = ctypes.c_int
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    libc.fallocate.restype = ctypes.c_int
    libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    libc.sync_file_range.restype = ctypes.c_int
    return libc


_libc: Final = _load_libc()


class MappedFile:
    """A file of a fixed size with a map of all of it.

    `map`: the whole file; an empty view once `unmap` began. `fd`: for `pwritev` and `fdatasync`, -1 while closed
    (`open_fd`). Any thread may read; the owner decides who writes.
    """

    __slots__ = ("_mmap", "fd", "map", "path", "size_bytes")

    def __init__(self, path: str, size_bytes: int, *, writable: bool = False) -> None:
        """Raises StoreFormatError if the file has another size, OSError if it cannot be opened."""
        self.path = path
        self.size_bytes = size_bytes
        self.fd = -1
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            found = os.fstat(fd).st_size
            if found != size_bytes:
                raise StoreFormatError(path, f"it has {found} bytes where the configuration says {size_bytes}")
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._mmap: mmap.mmap | None = mmap.mmap(fd, size_bytes, access=access)
        finally:
            os.close(fd)
        self.map = memoryview(self._mmap)

    def open_fd(self) -> int:
        """The descriptor for writing and syncing, opened at first use. Raises OSError."""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self.fd

    def close_fd(self) -> None:
        """Closes the descriptor; the map stays."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def reserve(self) -> None:
        """Allocates every byte on disk; holes still read as zeros. Raises OSError."""
        _fallocate(self.open_fd(), 0, self.size_bytes)

    def modified_ms(self) -> int:
        """When the file was last written, milliseconds since the epoch. Raises OSError."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def populate(self, begin: int, end: int, *, writing: bool = False) -> bool:
        """Brings pages [begin, end) into memory and into the map, off the GIL; False if the kernel cannot."""
        return _madvise(self.map[begin:end], MADV_POPULATE_WRITE if writing else MADV_POPULATE_READ)

    def unmap(self) -> bool:
        """Hides the map from new readers; True once no view pins it and it is unmapped. May be called again."""
        if self._mmap is None:
            return True
        whole, self.map = self.map, EMPTY
        if whole is not EMPTY:
            _madvise(whole, MADV_DONTNEED)  # frees the page tables here, off the GIL, instead of in munmap under it
            del whole
        try:
            self._mmap.close()
        except BufferError:
            return False
        self._mmap = None
        return True

    def close(self) -> bool:
        """Closes descriptor and map; False if a view still pins the map (it is unmapped with the last view)."""
        self.close_fd()
        return self.unmap()


class Segment(MappedFile):
    """One file of a log: bytes [base_offset, end_offset)."""

    __slots__ = ("base_offset", "end_offset", "populated_bytes")

    def __init__(self, directory: str, base_offset: int, size_bytes: int) -> None:
        """Maps the file named by `base_offset`. Raises StoreFormatError, OSError."""
        super().__init__(os.path.join(directory, segment_name(base_offset)), size_bytes)
        self.base_offset = base_offset
        self.end_offset = base_offset + size_bytes
        self.populated_bytes = 0

    def wipe(self, begin: int, end: int) -> None:
        """Writes zeros over positions [begin, end) that are not zero already. Raises OSError."""
        wipe_range(self.open_fd(), begin, end)

    def drop_cached_pages(self, begin: int) -> None:
        """Drops the cached pages from position `begin` on, so that the next read asks the disk. Raises OSError.

        The kernel drops only clean pages, and several at once or none of them: so dirty ones among them, such as a
        tail that was prepared and never used, are written first. Pages that a failed sync left marked clean are not written.
        """
        if sys.platform.startswith("linux"):
            os.fdatasync(self.open_fd())
            _madvise(self.map, MADV_DONTNEED)  # the kernel keeps pages that are mapped
            os.posix_fadvise(self.open_fd(), begin, 0, os.POSIX_FADV_DONTNEED)


def write_fully(fd: int, data: bytes | memoryview, at: int) -> None:
    """`pwrite` until all is written. Raises OSError."""
    rest = memoryview(data)
    while len(rest):
        done = os.pwrite(fd, rest, at)
        at += done
        rest = rest[done:]


def start_writing(fd: int) -> None:
    """Makes the kernel begin to write a file's dirty pages, without waiting; only `fdatasync` proves that they are on disk."""
    if _libc is not None:
        _libc.sync_file_range(fd, 0, 0, _SYNC_FILE_RANGE_WRITE)


def wipe_range(fd: int, begin: int, end: int) -> None:
    """Writes zeros over positions [begin, end) of a file that are not zero already. Raises OSError."""
    zeros = bytes(min(WIPE_STEP_BYTES, end - begin))
    for data_begin, data_end in _data_ranges(fd, begin, end):
        for at in range(data_begin, data_end, WIPE_STEP_BYTES):
            size = min(WIPE_STEP_BYTES, data_end - at)
            blank = zeros if size == len(zeros) else zeros[:size]
            if _read(fd, size, at) != blank:
                write_fully(fd, blank, at)


def _read(fd: int, size: int, at: int) -> bytes | None:
    """The bytes; None if the disk cannot read them; after an overwrite they may be readable again."""
    try:
        return os.pread(fd, size, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return None


def clear_range(fd: int, begin: int, end: int) -> None:
    """Makes positions [begin, end) of a sparse file read as zeros, in one step that a kill cannot interrupt. Raises OSError.

    If the file system cannot free the space, zeros are written, and a kill may leave part of the old bytes.
    """
    mode = _FALLOC_KEEP_SIZE | _FALLOC_PUNCH_HOLE
    if end > begin and (_libc is None or _libc.fallocate(fd, mode, begin, end - begin) != 0):
        wipe_range(fd, begin, end)


def first_hole(fd: int, size_bytes: int) -> int:
    """The end of the data at the front of a sparse file: the rest may be zeros. Raises OSError."""
    return min(os.lseek(fd, 0, os.SEEK_HOLE), size_bytes)


def is_blank(fd: int, begin: int, end: int, *, read_max: int) -> bool:
    """True if positions [begin, end) of a file read as zeros; False also if the check would read more than `read_max` bytes.

    Raises OSError.
    """
    for data_begin, data_end in _data_ranges(fd, begin, end):
        size = data_end - data_begin
        read_max -= size
        if read_max < 0 or os.pread(fd, size, data_begin) != bytes(size):
            return False
    return True


def _data_ranges(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of [begin, end) that were ever written; holes and unwritten extents read as zeros and are left out."""
    while begin < end:
        try:
            data = os.lseek(fd, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but holes up to the end of the file
                return
            raise
        if data >= end:
            return
        begin = min(os.lseek(fd, data, os.SEEK_HOLE), end)
        yield data, begin
