"""Texts in the arguments of Triton's classes."""


def text_of(value):
    """As in Triton, bytes are a text too: elements of a BYTES tensor are given on as names. None: the value is no text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None
