"""tritonclient.grpc and a native backend: `python native_client.py HOST:PORT`."""

import queue
import sys
import unittest

import numpy as np
import tritonclient.grpc as grpc

import report

ADDRESS = sys.argv[1]


def text(value):
    tensor = grpc.InferInput("X", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([value.encode()], dtype=np.object_))
    return [tensor]


class Native(unittest.TestCase):
    def setUp(self):
        self.client = grpc.InferenceServerClient(ADDRESS)

    def tearDown(self):
        self.client.close()

    def stream(self, command):
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put(error or result))
        self.client.async_stream_infer("streams", text(command), enable_empty_final_response=True)
        found = []
        while True:
            answer = answers.get(timeout=60)
            if isinstance(answer, Exception):
                raise answer
            output = answer.as_numpy("OUT")
            if output is not None:
                found.append(output[0].decode())
            if answer.get_response().parameters["triton_final_response"].bool_param:
                break
        self.client.stop_stream()
        return found

    def test_stream(self):
        """native: a decoupled model answers many times, in order, and then ends"""
        self.assertEqual(self.stream("stream:1000"), [str(i) for i in range(1000)])
        self.assertEqual(self.stream("stream:0"), [])

    def test_state(self):
        """native: the implicit state of a sequence comes back with its next request, and is no output"""
        for sequence in (7, 8):
            for step in range(1, 4):
                result = self.client.infer(
                    "sums", text("add"), sequence_id=sequence, sequence_start=step == 1, sequence_end=step == 3
                )
                self.assertEqual(result.as_numpy("OUT")[0].decode(), "%d of 1 outputs" % step)
                self.assertEqual([output.name for output in result.get_response().outputs], ["OUT"])

    def test_error(self):
        """native: an error of the backend keeps its code and its text"""
        with self.assertRaises(grpc.InferenceServerException) as caught:
            self.client.infer("other", text("error"))
        self.assertEqual(caught.exception.message(), "wayward says no")
        self.assertEqual(caught.exception.status(), "StatusCode.INVALID_ARGUMENT")


report.run()
