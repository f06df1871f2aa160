"""pb_utils.Logger: lines in the server's log, with the file and line of the caller."""
import os
import sys

from . import frames
from .arguments import text_of
from .context import context
from .errors import MOST_FRAMES, place_of
from .forked import LostChannel
from .frames import LOG_HEAD, simple_frame
from .named_code import NamedCode


class LogLevel(NamedCode):
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


# The end of a traceback says most, so of a longer one the start is left out.
LONGEST_TRACEBACK = 64 * 1024


def log_traceback(error):
    """One record of level ERROR, from the line that raised the exception."""
    import traceback

    # More calls than that do not fit.
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-MOST_FRAMES)).rstrip()
    if len(text) > LONGEST_TRACEBACK:
        text = "(the start is left out)\n" + text[-LONGEST_TRACEBACK:]
    frame, line = place_of(error)
    _send(text, Logger.ERROR, "" if frame is None else frame.f_code.co_filename, line or 0)


def _write(message, level):
    text = text_of(message)
    if text is None:
        raise TypeError("log(): incompatible function arguments: expected a str, found %r" % type(message))
    if not isinstance(level, LogLevel):
        raise TypeError("log(): incompatible function arguments: expected a level as Logger.INFO, found %r" % (level,))
    caller = sys._getframe(2)
    _send(text, level, caller.f_code.co_filename, caller.f_lineno)


def _send(message, level, file, line):
    if isinstance(context.channel, LostChannel):
        # In one piece: other processes of the model write there, too.
        sys.stderr.write("%s:%d: %s\n" % (os.path.basename(file), line, message))
        return
    file = os.path.basename(file).encode("utf-8", "replace")
    body = LOG_HEAD.pack(int(level), len(file), line) + file + message.encode("utf-8", "replace")
    # The exact length, because a frame is padded.
    context.channel.send(simple_frame(frames.LOG, len(body), body))
