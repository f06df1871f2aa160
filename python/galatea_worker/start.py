"""Sets up the process, sends HELLO to the server, and runs."""
import atexit
import json
import os
import signal
import sys

from . import frames
from .channel import Channel, ConnectionClosed
from .frames import simple_frame


def main(fd):
    sys.argv = [""]
    # Lines appear in the server's log when they are printed, not when a buffer is full.
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)
    # A signal for the whole group (Ctrl-C, systemd) must not end workers before the server has drained. A handler, not
    # SIG_IGN, because processes that the model starts would inherit the latter.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    os.set_inheritable(fd, False)
    channel = Channel(fd)
    try:
        numpy_version = _numpy_version()
    except ImportError as error:
        _say(channel, frames.START_FAILED, {"message": str(error), "missing": "numpy", "executable": sys.executable})
        os._exit(3)
    _die_with_parent()
    _say(
        channel,
        frames.HELLO,
        {
            "pid": os.getpid(),
            "executable": sys.executable,
            "python": "%d.%d.%d" % sys.version_info[:3],
            "numpy": numpy_version,
        },
    )
    # Import our module first: a machine with Triton may have another of the same name on the path.
    import triton_python_backend_utils  # noqa: F401

    # The modules that a forked process needs are imported before: an import lock may be held while it is forked.
    from . import forked, heap  # noqa: F401
    from .context import context
    from .runner import Runner

    heap.keep_freed_memory()
    context.channel = channel
    forked.prepare(fd)
    try:
        Runner(channel).run()
    except ConnectionClosed:
        os._exit(0)
    # Not sys.exit: threads that the model left running would keep the process alive.
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _numpy_version():
    import numpy

    return numpy.__version__


def _say(channel, kind, value):
    data = json.dumps(value).encode()
    channel.send(simple_frame(kind, 0, frames.NAME_LENGTH.pack(len(data)) + data))


def _die_with_parent():
    """On Linux the kernel ends this process when the server is gone, even in the middle of an endless loop."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
