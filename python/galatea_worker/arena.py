"""Regions of memory shared with the server, without names: descriptors inherited at start."""
import bisect
import mmap
import os
import threading
import weakref

import numpy as np

PAGE = 4096
BLOCK = 64  # blocks start at multiples of a cache line


class SharedMemoryFull(Exception):
    pass


class Region:
    """A mapping that follows the growth of its file. Views of an older, smaller mapping stay valid: they keep it."""

    def __init__(self, fd):
        self.fd = fd
        self.size = 0
        self.map = None

    def cover(self, end):
        if end > self.size:
            size = os.fstat(self.fd).st_size
            if end > size:
                raise ValueError("offset %d lies outside of the shared memory (%d bytes)" % (end, size))
            self.map = mmap.mmap(self.fd, size)
            self.size = size


class InputRegion(Region):
    """Tensors written by the server. Each block is given back once no array looks at it any more."""

    def __init__(self, fd, give_back):
        super().__init__(fd)
        self._give_back = give_back
        self._watched = {}
        # Called before the server gives pages of an idle region back, for code that registered them with a device.
        self.on_trim = None

    def view(self, offset, size):
        self.cover(offset + size)
        # All arrays made from this array have it as their base, also views of views. So the array lives as long as the
        # last of them.
        root = np.ndarray((size,), np.uint8, self.map, offset)
        key = (offset, id(root))
        self._watched[key] = weakref.ref(root, lambda _: self._forget(key))
        return root

    def _forget(self, key):
        self._watched.pop(key, None)
        self._give_back(key[0])


class OutputRegion(Region):
    """Tensors written here and read by the server: first fit, neighbours merged when they come back."""

    def __init__(self, fd, initial, limit):
        super().__init__(fd)
        self._limit = limit
        self._lock = threading.Lock()
        self._starts = [0]
        self._sizes = [initial]
        self._used = {}
        self._initial = initial
        self._capacity = initial

    def store(self, data):
        """Copies bytes into a block of its own and returns its offset."""
        size = data.nbytes
        with self._lock:
            offset = self._take(-(-size // BLOCK) * BLOCK)
            self.cover(offset + size)
            target = self.map
        target[offset : offset + size] = data
        return offset

    def _take(self, size):
        for i, free in enumerate(self._sizes):
            if free >= size:
                start = self._starts[i]
                if free == size:
                    del self._starts[i], self._sizes[i]
                else:
                    self._starts[i] = start + size
                    self._sizes[i] = free - size
                self._used[start] = size
                return start
        self._grow(size)
        return self._take(size)

    def _grow(self, needed):
        old = self._capacity
        tail = self._sizes[-1] if self._starts and self._starts[-1] + self._sizes[-1] == old else 0
        exact = -(-(old - tail + needed) // PAGE) * PAGE
        size = max(exact, min(old * 2, self._limit))
        if exact > self._limit:
            raise SharedMemoryFull(
                "outputs of this model need more than %d bytes of shared memory at once; the limit is "
                "--backend-config=python,shm-max-byte-size" % self._limit
            )
        os.ftruncate(self.fd, size)
        self._capacity = size
        self._insert(old, size - old)

    def free(self, offset):
        with self._lock:
            size = self._used.pop(offset)
            self._insert(offset, size)

    def _insert(self, start, size):
        i = bisect.bisect_left(self._starts, start)
        if i < len(self._starts) and start + size == self._starts[i]:
            size += self._sizes[i]
            del self._starts[i], self._sizes[i]
        if i > 0 and self._starts[i - 1] + self._sizes[i - 1] == start:
            self._sizes[i - 1] += size
        else:
            self._starts.insert(i, start)
            self._sizes.insert(i, size)

    def trim(self):
        """Gives the pages beyond the initial size back when nothing is in use; they read as zeros afterwards."""
        with self._lock:
            if not self._used and self.size > self._initial and hasattr(mmap, "MADV_REMOVE"):
                self.map.madvise(mmap.MADV_REMOVE, self._initial, self.size - self._initial)

    @property
    def used_bytes(self):
        return sum(self._used.values())

    @property
    def is_empty(self):
        return not self._used
