"""The socket to the server: any thread may write, whoever waits reads.

There is no reader thread, because handing each batch from one thread to another costs more than a small model. A thread
that waits for something reads frames itself, if nobody else does, and hands what is not its own to the others; when it
has what it wanted it wakes one of those that still wait, who reads on.
"""
import os
import select
import threading
from collections import deque

from .frames import FREE_INPUTS, HEADER, OFFSET, simple_frame

# More than nearly every frame has. Of each read a buffer of this size is made and cut: 16 KiB cost less than 64, and more
# than 128 the allocator would map and unmap for each read (16 µs instead of 1.5 µs).
_READ_BYTES = 16 * 1024


class ConnectionClosed(Exception):
    """The server is gone."""


class Waiter:
    """A thread that waits until `done` is true, or until it is its turn to read."""

    __slots__ = ("_lock", "done")

    def __init__(self):
        self._lock = threading.Lock()
        self._lock.acquire()
        self.done = False

    def finish(self):
        self.done = True
        self.wake()

    def wake(self):
        # The thread is awake already, and looks again by itself.
        if not self._lock.locked():
            return
        try:
            self._lock.release()
        except RuntimeError:
            pass

    def sleep(self):
        self._lock.acquire()


class Channel:
    def __init__(self, fd):
        self._fd = fd
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._waiters = []
        self._pending = b""
        self._deferred = deque()
        # Offsets freed by the garbage collector, which may run anywhere: they are only noted there, and sent later.
        self._freed = deque()
        self._is_closed = False
        self._poll = None
        if hasattr(select, "poll"):
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            self._poll = poller.poll
        self.handlers = {}

    # Writing

    def send(self, frame):
        with self._write_lock:
            if self._deferred or self._freed:
                frame = self._collect(frame)
            self._write(frame)

    def defer(self, frame):
        """Sends with the next frame, or when the main thread is idle."""
        self._deferred.append(frame)

    def send_if_free(self, frame):
        """For finalisers, which may run inside of any call: never waits for the lock."""
        self._deferred.append(frame)
        if self._write_lock.acquire(False):
            try:
                self._write(self._collect(b""))
            except ConnectionClosed:
                pass
            finally:
                self._write_lock.release()

    def flush(self):
        if self._deferred or self._freed:
            with self._write_lock:
                frame = self._collect(b"")
                if frame:
                    self._write(frame)

    def note_freed(self, offset):
        self._freed.append(offset)

    def _collect(self, frame):
        deferred = []
        while self._deferred:
            deferred.append(self._deferred.popleft())
        if self._freed:
            offsets = []
            while self._freed:
                offsets.append(OFFSET.pack(self._freed.popleft()))
            for start in range(0, len(offsets), 1024):
                some = offsets[start : start + 1024]
                deferred.append(simple_frame(FREE_INPUTS, 0, b"".join(some), len(some)))
        deferred.append(frame)
        return b"".join(deferred)

    def _write(self, data):
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                rest = memoryview(data)
                while written < len(data):
                    written += os.write(self._fd, rest[written:])
        except OSError as error:
            raise ConnectionClosed(str(error)) from None

    # Reading

    def wait(self, waiter):
        """Returns when `waiter.done`, reading frames for everybody meanwhile."""
        if waiter.done:
            return
        self._waiters.append(waiter)
        try:
            while not waiter.done:
                if self._read_lock.acquire(False):
                    try:
                        while not waiter.done:
                            self._read_frames()
                    finally:
                        self._read_lock.release()
                        self._pass_on(waiter)
                else:
                    waiter.sleep()
                    if self._is_closed and not waiter.done:
                        raise ConnectionClosed("the server closed the connection")
        finally:
            self._waiters.remove(waiter)

    def poll(self):
        """Reads frames that have arrived, without waiting. Does nothing while another thread reads."""
        if self._read_lock.acquire(False):
            try:
                while self._has_arrived():
                    self._read_frames()
            finally:
                self._read_lock.release()
                self._pass_on(None)

    def _has_arrived(self):
        if self._poll is not None:
            return self._poll(0)
        return select.select([self._fd], [], [], 0)[0]

    def _pass_on(self, leaving):
        waiters = self._waiters
        if not waiters or (len(waiters) == 1 and waiters[0] is leaving):
            return
        # A listed thread tries to read before it sleeps. So a thread that is missed here reads already.
        for waiter in list(waiters):
            if waiter is not leaving and not waiter.done:
                waiter.wake()
                return

    def _read_frames(self):
        try:
            # Linux wakes a thread that sleeps in `read` also when the other end takes an answer out of the same socket, for
            # nothing. It does not do that with a thread that sleeps in `poll`.
            if self._poll is not None:
                self._poll()
            chunk = os.read(self._fd, _READ_BYTES)
        except OSError as error:
            chunk = b""
            if isinstance(error, InterruptedError):
                return
        if not chunk:
            self._close()
        if self._pending:
            chunk = self._pending + chunk
            self._pending = b""
        offset, end = 0, len(chunk)
        # HOT: one frame per read, while the server waits for each answer.
        if end >= 16:
            size, kind, count, id = HEADER.unpack_from(chunk, 0)
            if size == end:
                self.handlers[kind](count, id, bytearray(chunk))
                return
        while end - offset >= 16:
            size, kind, count, id = HEADER.unpack_from(chunk, offset)
            if end - offset < size:
                if size > _READ_BYTES:
                    self._dispatch(kind, count, id, self._read_large(chunk, offset, size))
                    return
                break
            # Arrays are made on this copy, so it is writable and lives as long as they do.
            self._dispatch(kind, count, id, bytearray(chunk if size == end else chunk[offset : offset + size]))
            offset += size
        if offset < end:
            self._pending = chunk[offset:]

    def _read_large(self, chunk, offset, size):
        frame = bytearray(size)
        filled = len(chunk) - offset
        frame[:filled] = chunk[offset:]
        view = memoryview(frame)
        while filled < size:
            got = os.readv(self._fd, [view[filled:]])
            if got == 0:
                self._close()
            filled += got
        return frame

    def _dispatch(self, kind, count, id, frame):
        self.handlers[kind](count, id, frame)

    def _close(self):
        self._is_closed = True
        for waiter in list(self._waiters):
            waiter.wake()
        raise ConnectionClosed("the server closed the connection")
