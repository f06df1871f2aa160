"""What is left of the server in a process that the model has forked."""
import os
import signal
import threading

from .context import context
from .errors import TritonModelException


class LostChannel:
    """The connection belongs to the worker alone: two processes that read and write it would mix their frames."""

    def send(self, frame):
        raise TritonModelException(
            "the server cannot be reached from a process that the model has forked: call other models, send responses and "
            "change metrics in the process that runs `execute`"
        )

    defer = send
    wait = send

    def send_if_free(self, frame):
        """Finalisers have nothing to say here."""

    def poll(self):
        """Nothing arrives."""


def prepare(fd):
    """Once, in the worker. `fd` is the connection to the server."""
    masks = threading.local()

    def hold_signals():
        # A pool may end a process as soon as it is there. Until the handler of the worker is gone the signal waits.
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def release_signals():
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def begin():
        _forget_server(fd)
        # The worker passes over this signal. `multiprocessing` ends its processes with it, and waits for their end.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release_signals()

    os.register_at_fork(before=hold_signals, after_in_parent=release_signals, after_in_child=begin)


def _forget_server(fd):
    """The connection belongs to the worker alone."""
    context.channel = LostChannel()
    # A block taken here would be one that the worker takes, too, and its answers would change.
    context.outputs = None
    try:
        os.close(fd)
    except OSError:
        pass
