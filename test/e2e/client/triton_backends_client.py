"""tritonclient.grpc and Triton's own backends: `python triton_backends_client.py HOST:PORT`. Models that are absent are left out."""

import queue
import sys
import unittest

import numpy as np
import tritonclient.grpc as grpc

import report

ADDRESS = sys.argv[1]
WORDS = np.array([[b"ab", b"", b"xyz"]], dtype=np.object_)


def tensor(name, array, datatype):
    made = grpc.InferInput(name, array.shape, datatype)
    made.set_data_from_numpy(array)
    return made


def int32(name, values):
    return tensor(name, np.array(values, dtype=np.int32), "INT32")


class Backends(unittest.TestCase):
    def setUp(self):
        self.client = grpc.InferenceServerClient(ADDRESS)

    def tearDown(self):
        self.client.close()

    def require(self, model):
        return self.client.is_model_ready(model)

    def identity(self, values, *more):
        return self.client.infer("identity", [int32("INPUT0", values), tensor("INPUT1", WORDS, "BYTES"), *more])

    def test_identity(self):
        """identity: numbers, strings, an empty tensor, and an optional input that is there or not"""
        result = self.identity([[1, 2, 3]])
        self.assertEqual(result.as_numpy("OUTPUT0").tolist(), [[1, 2, 3]])
        self.assertEqual(result.as_numpy("OUTPUT1").tolist(), WORDS.tolist())
        self.assertEqual(result.as_numpy("OUTPUT2").tolist(), [[0, 0, 0]])
        result = self.identity([[1]], int32("INPUT2", [[7, 8, 9]]))
        self.assertEqual(result.as_numpy("OUTPUT2").tolist(), [[7, 8, 9]])
        self.assertEqual(self.identity(np.zeros((1, 0))).as_numpy("OUTPUT0").shape, (1, 0))

    def test_large(self):
        """identity: 16 MB there and back"""
        values = np.arange(4 << 20).reshape(1, -1)
        self.assertTrue((self.identity(values).as_numpy("OUTPUT0") == values).all())

    def test_parameters(self):
        """identity: parameters of the response keep their types"""
        parameters = self.identity([[1]]).get_response().parameters
        self.assertEqual(parameters["param0"].string_param, "an example string parameter")
        self.assertEqual(parameters["param1"].int64_param, 42)
        self.assertEqual(parameters["param2"].bool_param, False)

    def test_batches(self):
        """identity: requests of one batch get their own answers, and the times add up"""
        answers = queue.Queue()
        for i in range(64):
            inputs = [int32("INPUT0", [[i]]), tensor("INPUT1", WORDS, "BYTES")]
            self.client.async_infer("identity", inputs, lambda result, error: answers.put(error or result), request_id=str(i))
        for _ in range(64):
            answer = answers.get(timeout=60)
            self.assertEqual(answer.as_numpy("OUTPUT0").tolist(), [[int(answer.get_response().id)]])
        (stats,) = self.client.get_inference_statistics("identity").model_stats
        times = stats.inference_stats
        parts = (times.queue, times.compute_input, times.compute_infer, times.compute_output)
        self.assertEqual({part.count for part in parts}, {times.success.count})
        self.assertLessEqual(sum(part.ns for part in parts), times.success.ns)

    def stream(self, model, inputs, output):
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put(error or result))
        self.client.async_stream_infer(model, inputs, enable_empty_final_response=True)
        values = []
        while True:
            answer = answers.get(timeout=60)
            if isinstance(answer, Exception):
                raise answer
            array = answer.as_numpy(output)
            if array is not None:
                values.extend(array.tolist())
            if answer.get_response().parameters["triton_final_response"].bool_param:
                break
        self.client.stop_stream()
        return values

    def test_repeat(self):
        """repeat: a decoupled model answers once for each element"""
        if not self.require("repeat"):
            return
        delay = tensor("DELAY", np.array([1, 2, 3, 4], dtype=np.uint32), "UINT32")
        wait = tensor("WAIT", np.array([5], dtype=np.uint32), "UINT32")
        self.assertEqual(self.stream("repeat", [int32("IN", [4, 2, 0, 1]), delay, wait], "OUT"), [4, 2, 0, 1])

    def test_square(self):
        """square: n answers to n, none to 0"""
        if not self.require("square"):
            return
        self.assertEqual(self.stream("square", [int32("IN", [5])], "OUT"), [5] * 5)
        self.assertEqual(self.stream("square", [int32("IN", [0])], "OUT"), [])

    def test_onnxruntime(self):
        """onnxruntime: completes its configuration from the file, and adds"""
        if not self.require("onnxruntime"):
            return
        values = np.arange(16).reshape(1, 16)
        result = self.client.infer("onnxruntime", [int32("INPUT0", values), int32("INPUT1", values)])
        self.assertEqual(result.as_numpy("OUTPUT0").tolist(), (values + values).tolist())
        config = self.client.get_model_config("onnxruntime").config
        self.assertEqual((config.max_batch_size, len(config.input), len(config.output)), (4, 2, 2))


report.run()
