"""How far a request's answers may be ahead of whoever reads them.

The server confirms what it has passed on, and confirms nothing while the client does not read. So a pause needs no
message of its own and works however late it comes: `send` waits when the window is full.
"""
import sys
import threading
from collections import deque

from .channel import Waiter
from .context import context

WINDOW_RESPONSES = 32
WINDOW_BYTES = 512 * 1024

_thread = threading.local()


class Flow:
    """The flow of one request of a decoupled model, from its arrival to its last answer."""

    __slots__ = ("_sizes", "_waiters", "is_over")

    def __init__(self):
        # Appended to by those who send and emptied by whoever reads the channel: each is one step for the interpreter.
        self._sizes = deque()
        self._waiters = []
        self.is_over = False

    def sent(self, size):
        self._sizes.append(size)
        _note_served(self)

    def taken(self, count):
        sizes = self._sizes
        for _ in range(min(count, len(sizes))):
            sizes.popleft()
        if self._waiters and not self._is_full():
            self.wake()

    def end(self):
        """The request has no reader any more, or its last answer was sent: a thread that waits goes on."""
        self.is_over = True
        self.wake()

    def wait(self):
        """Returns when another answer may be sent. The thread that waits reads the channel for everybody."""
        _note_served(self)
        while self._is_full() and not self.is_over:
            waiter = Waiter()
            self._waiters.append(waiter)
            try:
                # What happened before the waiter was listed is seen here, what happens later wakes it.
                if not self._is_full() or self.is_over or _is_needed_elsewhere():
                    return
                context.channel.wait(waiter)
            finally:
                self._waiters.remove(waiter)

    def _is_full(self):
        sizes = self._sizes
        return len(sizes) >= WINDOW_RESPONSES or sum(sizes) >= WINDOW_BYTES

    def wake(self):
        for waiter in list(self._waiters):
            waiter.finish()


def _note_served(flow):
    """Marks the thread as shared when it answers a request before the last one that it answered is over."""
    last = getattr(_thread, "flow", None)
    if last is flow:
        return
    if last is None:
        _thread.is_shared = False
    elif not last.is_over:
        _thread.is_shared = True
    _thread.flow = flow


def _is_needed_elsewhere():
    """A thread that answers several requests must not stand still for one slow reader while there are others."""
    open_requests = len(context.flows) + context.announced - context.begun
    return open_requests > 1 and (_thread.is_shared or _runs_event_loop())


def _runs_event_loop():
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def on_taken(count, id, frame):
    """Handler of TAKEN."""
    flow = context.flows.get(id)
    if flow is not None:
        flow.taken(count)


def on_cancel(count, id, frame):
    """Handler of CANCEL."""
    context.cancelled.add(id)
    flow = context.flows.get(id)
    if flow is not None:
        flow.end()


def end_all():
    for flow in list(context.flows.values()):
        flow.end()


def announce(count):
    """Requests have come. A thread that would serve them too looks whether it should still wait for another's reader.

    Said by whoever reads the channel: that may be the very thread that waits, and it must not go on reading.
    """
    context.announced += count
    for flow in list(context.flows.values()):
        flow.wake()


def begin(requests):
    for request in requests:
        flow = context.flows[request._handle] = Flow()
        if request._handle in context.cancelled:
            flow.is_over = True
