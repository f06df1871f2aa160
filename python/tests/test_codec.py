"""The short way of writing an answer gives the same bytes as the general one."""
import unittest

import numpy as np

from galatea_worker import frames
from galatea_worker.codec import FrameWriter, executed_frame, write_response
from galatea_worker.errors import TritonError
from galatea_worker.response import InferenceResponse
from galatea_worker.tensor import Tensor

INDEX = {"A": 0, "B": 1}


def general(response, requested):
    writer = FrameWriter(frames.EXECUTED, 7, None, 1 << 62)
    writer.add(frames.OFFSET.pack(12345))
    write_response(writer, 9, response, requested, INDEX, True)
    return writer.finish(1)


def short(response, requested, limit=1000):
    return executed_frame(7, 12345, 9, response, requested, INDEX, limit)


class ExecutedFrameTest(unittest.TestCase):
    def test_string_tensors_that_are_written_already(self):
        for elements in ([], [b""], [b"one", b"", "zwölf".encode()]):
            shape = (len(elements), 1)
            own = Tensor.from_elements("A", shape, elements)
            array = np.array(elements, dtype=np.object_).reshape(shape)
            self.assertEqual([bytes(element) for element in own.elements()], elements)
            for other in (Tensor("B", np.arange(3)), Tensor.from_elements("B", shape, elements)):
                response = InferenceResponse([own, other])
                self.assertEqual(short(response, ["A", "B"]), general(response, ["A", "B"]))
                same = InferenceResponse([Tensor("A", array), other])
                self.assertEqual(short(response, ["A", "B"]), general(same, ["A", "B"]))
        self.assertIsNone(short(InferenceResponse([Tensor.from_elements("A", (1,), [b"x" * 100])]), ["A"], 50))

    def test_small_tensors_of_any_type_and_rank(self):
        arrays = [
            np.arange(4, dtype=np.float32),
            np.zeros((), np.int64),
            np.zeros((3, 0), np.uint8),
            np.ones((1, 2, 3), np.bool_),
            np.arange(7, dtype=np.int16),
        ]
        for a in arrays:
            for b in arrays:
                response = InferenceResponse([Tensor("A", a), Tensor("B", b)])
                for requested in (["A", "B"], ["B"], []):
                    self.assertEqual(short(response, requested), general(response, requested))

    def test_an_answer_without_tensors(self):
        self.assertEqual(short(InferenceResponse([]), ["A"]), general(InferenceResponse([]), ["A"]))

    def test_whatever_else_there_is_goes_the_general_way(self):
        small = np.zeros(1, np.float32)
        for response in (
            InferenceResponse(error=TritonError("no")),
            InferenceResponse([Tensor("A", small)], parameters={"a": 1}),
            InferenceResponse([Tensor("A", np.array([b"x"], dtype=np.object_))]),
            InferenceResponse([Tensor("unknown", small)]),
            InferenceResponse([Tensor("A", np.zeros(1001, np.uint8))]),
        ):
            self.assertIsNone(short(response, ["A", "B"]))


if __name__ == "__main__":
    unittest.main()
