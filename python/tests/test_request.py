"""What a request to another model takes, and what it says about anything else."""
import unittest
from collections import deque

import numpy as np
from galatea_worker.errors import TritonError, TritonModelException
from galatea_worker.logger import Logger
from galatea_worker.metrics import MetricFamily
from galatea_worker.model_control import is_model_ready, load_model, unload_model
from galatea_worker.request import InferenceRequest
from galatea_worker.response import InferenceResponse
from galatea_worker.tensor import Tensor


def request(**changes):
    return InferenceRequest(**{"model_name": "m", "inputs": [], "requested_output_names": [], **changes})


class TextsTest(unittest.TestCase):
    def test_a_text_may_be_the_bytes_of_an_element_of_a_string_tensor(self):
        element = np.array([b"m"], dtype=np.object_)[0]
        for text in (element, np.bytes_(b"m"), bytearray(b"m"), np.str_("m")):
            with self.subTest(text=text):
                made = request(model_name=text, request_id=text, requested_output_names=[text])
                self.assertEqual((made._model_name, made.request_id(), made.requested_output_names()), ("m", "m", {"m"}))
                self.assertEqual({type(made._model_name), type(made.request_id())}, {str})
                self.assertEqual(Tensor(text, np.zeros(1)).name(), "m")
                self.assertEqual(Tensor.from_dlpack(text, np.zeros(1)).name(), "m")
                self.assertEqual(TritonError(text).message(), "m")
        with self.assertRaises(UnicodeDecodeError):
            request(model_name=b"\xff")

    def test_names_and_tensors_may_come_in_anything_that_has_an_order(self):
        tensor = Tensor("a", np.zeros(1))
        tensors = np.empty(1, dtype=np.object_)
        tensors[0] = tensor
        for inputs in ([tensor], (tensor,), deque([tensor]), tensors):
            self.assertEqual(request(inputs=inputs).inputs(), [tensor])
            self.assertEqual(InferenceResponse(inputs).output_tensors(), [tensor])
        for names in (["a"], ("a",), {"a"}, deque(["a"]), np.array(["a"]), np.array([b"a"], dtype=np.object_)):
            self.assertEqual(request(requested_output_names=names).requested_output_names(), {"a"})

    def test_what_is_no_text_and_no_list_is_refused(self):
        for changes in (
            {"model_name": None},
            {"model_name": 5},
            {"request_id": None},
            {"requested_output_names": "a"},
            {"requested_output_names": b"a"},
            {"requested_output_names": [5]},
            {"requested_output_names": {"a": 1}},
            {"inputs": None},
            {"inputs": "a"},
            {"inputs": iter([])},
        ):
            with self.subTest(**changes), self.assertRaisesRegex(TypeError, "incompatible constructor arguments"):
                request(**changes)
        for wrong in (5, None):
            for action in (
                lambda: Tensor(wrong, np.zeros(1)),
                lambda: Tensor.from_dlpack(wrong, np.zeros(1)),
                lambda: TritonError(wrong),
                lambda: Logger.log_info(wrong),
                lambda: MetricFamily(wrong, "d", MetricFamily.COUNTER),
                lambda: MetricFamily("n", wrong, MetricFamily.COUNTER),
                lambda: is_model_ready(wrong),
                lambda: load_model(wrong),
                lambda: unload_model(wrong),
            ):
                with self.assertRaisesRegex(TypeError, "incompatible"):
                    action()


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
