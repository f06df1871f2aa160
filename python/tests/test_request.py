"""What a request to another model takes, and what it says about anything else."""
import unittest

import numpy as np
from galatea_worker.errors import TritonError, TritonModelException
from galatea_worker.request import InferenceRequest
from galatea_worker.tensor import Tensor


def request(**changes):
    return InferenceRequest(**{"model_name": "m", "inputs": [], "requested_output_names": [], **changes})


class NumbersTest(unittest.TestCase):
    def test_numbers_that_the_wire_cannot_carry_are_refused_where_they_are_written(self):
        for changes in (
            {"timeout": -5},
            {"timeout": 1.5},
            {"timeout": 2**64},
            {"timeout": None},
            {"correlation_id": None},
            {"flags": -1},
            {"flags": "1"},
            {"model_version": "1"},
            {"model_version": 1.0},
            {"model_version": 2**63},
        ):
            with self.subTest(**changes), self.assertRaisesRegex(TypeError, "incompatible constructor arguments"):
                request(**changes)
        with self.assertRaises(TypeError):
            request().set_flags("1")

    def test_bytes_are_texts(self):
        # The elements of a BYTES tensor, which models give on as names of models and outputs.
        asked = request(model_name=b"m", request_id=np.bytes_(b"one"), requested_output_names=[b"OUT", "OTHER"])
        self.assertEqual((asked.request_id(), asked.requested_output_names()), ("one", {"OUT", "OTHER"}))
        self.assertEqual(Tensor(b"IN", np.ones(1)).name(), "IN")
        self.assertEqual(TritonError(b"boom").message(), "boom")
        for changes in ({"model_name": b"\xff"}, {"request_id": bytearray(b"x")}, {"requested_output_names": [1]}):
            with self.subTest(**changes), self.assertRaisesRegex(TypeError, "incompatible constructor arguments"):
                request(**changes)

    def test_a_correlation_id_is_an_integer_or_a_text(self):
        for correlation_id in (-1, 1.5, 2**64, b"x"):
            with self.subTest(correlation_id=correlation_id), self.assertRaises(TritonModelException) as caught:
                request(correlation_id=correlation_id)
            self.assertEqual(str(caught.exception), "Correlation ID must be integer or string")
        self.assertEqual(request(correlation_id="").correlation_id(), "")
        self.assertEqual(request(correlation_id=2**64 - 1).correlation_id(), 2**64 - 1)

    def test_integers_of_numpy_are_integers(self):
        made = request(timeout=np.int64(7), flags=np.uint32(1), correlation_id=np.int32(9), model_version=np.int8(2))
        self.assertEqual((made.timeout(), made.flags(), made.correlation_id()), (7, 1, 9))
