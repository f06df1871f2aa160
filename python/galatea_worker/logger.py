"""pb_utils.Logger: lines in the server's log, with the file and line of the caller."""
import enum
import os
import sys

from . import frames
from .context import context
from .frames import LOG_HEAD, simple_frame


class LogLevel(enum.IntEnum):
    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


class Logger:
    LogLevel = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message, level=LogLevel.INFO):
        _write(message, level)

    @staticmethod
    def log_info(message):
        _write(message, Logger.INFO)

    @staticmethod
    def log_warn(message):
        _write(message, Logger.WARNING)

    @staticmethod
    def log_error(message):
        _write(message, Logger.ERROR)

    @staticmethod
    def log_verbose(message):
        _write(message, Logger.VERBOSE)


def _write(message, level):
    if not isinstance(message, str):
        raise TypeError("log(): incompatible function arguments: expected a str, found %r" % type(message))
    caller = sys._getframe(2)
    file = os.path.basename(caller.f_code.co_filename).encode("utf-8", "replace")
    body = LOG_HEAD.pack(int(level), len(file), caller.f_lineno) + file + message.encode("utf-8", "replace")
    # The exact length, because a frame is padded.
    context.channel.send(simple_frame(frames.LOG, len(body), body))
