"""TritonError, TritonModelException, and exceptions as the text that clients are shown."""
import os

from .arguments import text_of
from .named_code import NamedCode

# Python's own limit of recursion. A model can raise it, and then its error would be megabytes.
MOST_FRAMES = 1000
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class TritonModelException(Exception):
    """Raised by this package for wrong use. In execute it acts as any other exception."""


class ErrorCode(NamedCode):
    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


class TritonError:
    """The error of one response."""

    UNKNOWN = ErrorCode.UNKNOWN
    INTERNAL = ErrorCode.INTERNAL
    NOT_FOUND = ErrorCode.NOT_FOUND
    INVALID_ARG = ErrorCode.INVALID_ARG
    UNAVAILABLE = ErrorCode.UNAVAILABLE
    UNSUPPORTED = ErrorCode.UNSUPPORTED
    ALREADY_EXISTS = ErrorCode.ALREADY_EXISTS
    CANCELLED = ErrorCode.CANCELLED

    __slots__ = ("_message", "_code")

    def __init__(self, message, code=ErrorCode.INTERNAL):
        text = text_of(message)
        if text is None:
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    1. c_python_backend_utils.TritonError(message: str, code: "
                "c_python_backend_utils.TritonError.__ErrorCode = <__ErrorCode.INTERNAL: 1>)\n\n"
                "Invoked with: %r, %r" % (message, code)
            )
        self._message = text
        self._code = ErrorCode(code)

    def message(self):
        return self._message

    def code(self):
        return self._code

    def __repr__(self):
        return "<TritonError %s %r>" % (self._code.name, self._message)


def exception_text(error):
    """`Type: message`, and where: innermost frame first, without the frames of this package."""
    text = "%s: %s" % (type(error).__name__, _message_of(error))
    lines = {}
    trace = error.__traceback__
    while trace is not None:
        lines[trace.tb_frame] = trace.tb_lineno
        trace = trace.tb_next
    deepest, _ = place_of(error)
    if deepest is None:
        return text
    parts = [text, "\n\nAt:\n"]
    frame = deepest
    while frame is not None:
        if len(parts) > MOST_FRAMES:
            parts.append("  (calls further out are left out)\n")
            break
        if _is_ours(frame):
            # Below the worker's own loop there is only the interpreter.
            break
        code = frame.f_code
        parts.append("  %s(%d): %s\n" % (code.co_filename, lines.get(frame, frame.f_lineno), code.co_name))
        frame = frame.f_back
    return "".join(parts)


def place_of(error):
    """The innermost frame outside of this package, and its line: an error of wrong use belongs to the caller. None without one."""
    place = (None, 0)
    trace = error.__traceback__
    while trace is not None:
        if not _is_ours(trace.tb_frame):
            place = (trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _message_of(error):
    """Triton's words for an exception that says nothing. Text is code of the model, which can fail in its turn."""
    try:
        return str(error) or "<EMPTY MESSAGE>"
    except Exception:
        return "<MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>"


def _is_ours(frame):
    return frame.f_code.co_filename.startswith(_HERE)
