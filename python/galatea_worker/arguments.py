"""What a model may write where Triton's own module takes a text or a list."""
from collections.abc import Sequence

import numpy as np

_TEXTS = (str, bytes, bytearray)


def text_of(value):
    """A text may come as the bytes of its UTF-8, such as an element of a string tensor. None for anything else."""
    if isinstance(value, str):
        return str(value)
    return bytes(value).decode() if isinstance(value, (bytes, bytearray)) else None


def is_listing(value):
    """True for whatever has an order and a length, and is no text."""
    return type(value) is list or (isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, _TEXTS))


def texts_of(values):
    """The texts of a list or a set; None when one is no text."""
    if not is_listing(values) and not isinstance(values, (set, frozenset)):
        return None
    texts = [text_of(value) for value in values]
    return None if None in texts else texts


def text_argument(function, name, value):
    """The text, or Triton's refusal of `value`."""
    text = text_of(value)
    if text is None:
        raise TypeError(
            "%s(): incompatible function arguments: '%s' must be a str, found %r" % (function, name, type(value))
        )
    return text
