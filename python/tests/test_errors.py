"""What a client reads of an exception of a model."""
import sys
import unittest

from galatea_worker.errors import MOST_FRAMES, exception_text


def deep(count):
    if count == 0:
        raise ValueError("at the bottom")
    deep(count - 1)


def text_of(count):
    try:
        deep(count)
    except ValueError as error:
        return exception_text(error)
    raise AssertionError("it did not fail")


class TextTest(unittest.TestCase):
    def test_the_calls_are_listed_from_the_innermost(self):
        lines = text_of(2).splitlines()
        self.assertEqual(lines[:3], ["ValueError: at the bottom", "", "At:"])
        self.assertTrue(all(line.endswith(": deep") for line in lines[3:6]), lines[3:6])

    def test_of_an_endless_recursion_the_innermost_calls_are_listed(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20_000)
        try:
            lines = text_of(10_000).splitlines()
        finally:
            sys.setrecursionlimit(limit)
        self.assertLessEqual(len(lines), MOST_FRAMES + 4)
        self.assertEqual(lines[-1], "  (calls further out are left out)")
