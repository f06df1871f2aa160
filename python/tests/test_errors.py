"""What a client reads of an exception of a model."""
import sys
import unittest

import numpy as np

from galatea_worker.errors import MOST_FRAMES, TritonError, TritonModelException, exception_text, place_of
from galatea_worker.tensor import Tensor


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


class CodeTest(unittest.TestCase):
    def test_the_text_of_a_code_is_its_name_and_its_value_a_number(self):
        code = TritonError("gone", TritonError.NOT_FOUND).code()
        self.assertEqual((str(code), f"{code}", "%s" % code), ("ErrorCode.NOT_FOUND",) * 3)
        self.assertEqual((int(code), "%d" % code, code == TritonError.NOT_FOUND), (2, "2", True))


class TextTest(unittest.TestCase):
    def test_the_calls_are_listed_from_the_innermost(self):
        lines = text_of(2).splitlines()
        self.assertEqual(lines[:3], ["ValueError: at the bottom", "", "At:"])
        self.assertTrue(all(line.endswith(": deep") for line in lines[3:6]), lines[3:6])

    def test_an_exception_without_a_text_is_told_in_the_words_of_triton(self):
        self.assertEqual(exception_text(ValueError()), "ValueError: <EMPTY MESSAGE>")

    def test_an_exception_whose_text_fails_is_told_all_the_same(self):
        class Silent(Exception):
            def __str__(self):
                raise ValueError("no")

        self.assertEqual(exception_text(Silent()), "Silent: <MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>")

    def test_wrong_use_of_this_package_has_its_place_in_the_model(self):
        try:
            Tensor("", np.zeros(1))
        except TritonModelException as error:
            frame, line = place_of(error)
        self.assertEqual((frame.f_code.co_filename, line > 0), (__file__, True))

    def test_of_an_endless_recursion_the_innermost_calls_are_listed(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20_000)
        try:
            lines = text_of(10_000).splitlines()
        finally:
            sys.setrecursionlimit(limit)
        self.assertLessEqual(len(lines), MOST_FRAMES + 4)
        self.assertEqual(lines[-1], "  (calls further out are left out)")
