"""NVIDIA's tritonclient.grpc against a running server: `python grpc_client.py HOST:PORT`."""

import queue
import sys
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton
from grpc_models import count, simple_inputs, tensor
from models import VALUES, assert_same, identity
from tritonclient.utils import InferenceServerException

import report


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = triton.InferenceServerClient(sys.argv[1])

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def refused(self, status, message, call):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        self.assertEqual((caught.exception.status(), caught.exception.message()), (status, message))

    def streamed(self, send, expected):
        """Sends on a fresh stream and collects so many answers."""
        answers = queue.Queue()
        client = triton.InferenceServerClient(sys.argv[1])
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        try:
            send(client)
            return [answers.get(timeout=30) for _ in range(expected)]
        finally:
            client.stop_stream()
            client.close()


class Service(Client):
    def test_health(self):
        """gRPC: the server is live and ready, and so are its models"""
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("simple", "1"))
        self.assertFalse(self.client.is_model_ready("nope"))

    def test_metadata(self):
        """gRPC: metadata and configuration come complete"""
        metadata = self.client.get_server_metadata(as_json=True)
        self.assertEqual(metadata["name"], "galatea")
        model = self.client.get_model_metadata("simple")
        self.assertEqual([list(one.shape) for one in model.inputs], [[-1, 16], [-1, 16]])
        config = self.client.get_model_config("digits").config
        self.assertEqual((config.backend, config.max_batch_size), ("onnxruntime", 64))
        self.assertEqual(config.version_policy.latest.num_versions, 1)

    def test_statistics(self):
        """gRPC: statistics count what was inferred"""
        before = self.client.get_inference_statistics("simple").model_stats[0]
        self.client.infer("simple", simple_inputs(triton, 2)[0])
        after = self.client.get_inference_statistics("simple").model_stats[0]
        self.assertEqual(after.inference_count - before.inference_count, 2)
        self.assertEqual(after.inference_stats.success.count - before.inference_stats.success.count, 1)

    def test_settings(self):
        """gRPC: log and trace settings can be read"""
        self.assertTrue(self.client.get_log_settings().settings["log_error"].bool_param)
        self.assertEqual(list(self.client.get_trace_settings().settings["trace_level"].value), ["OFF"])

    def test_index(self):
        """gRPC: the repository index lists the models"""
        ready = {model.name: model.state for model in self.client.get_model_repository_index().models}
        self.assertEqual(ready["simple"], "READY")

    def test_load_refused(self):
        """gRPC: loading needs explicit model control"""
        text = (
            "this server does not load or unload models by request: start it with --model-control-mode=explicit "
            "(and --load-model=NAME for each model to load at start)"
        )
        self.refused("StatusCode.INVALID_ARGUMENT", text, lambda: self.client.load_model("simple"))

    def test_shared_memory_refused(self):
        """gRPC: shared memory is off until the operator allows it"""
        self.assertEqual(len(self.client.get_system_shared_memory_status().regions), 0)
        text = "Client shared memory is disabled. Start the server with '--allow-client-shared-memory=true' to enable."
        register = lambda: self.client.register_system_shared_memory("r", "/galatea_absent", 64)
        self.refused("StatusCode.UNIMPLEMENTED", text, register)


class Infer(Client):
    def test_every_type(self):
        """gRPC: every data type comes back as it was sent"""
        for data_type, array in VALUES.items():
            with self.subTest(data_type):
                inputs = [tensor(triton, "INPUT0", data_type, array)]
                result = self.client.infer(identity(data_type), inputs, request_id="t")
                assert_same(array, result.as_numpy("OUTPUT0"))
                self.assertEqual(result.get_response().id, "t")

    def test_batch_and_outputs(self):
        """gRPC: batches are computed and single outputs can be asked for"""
        inputs, total, difference = simple_inputs(triton, 3)
        result = self.client.infer("simple", inputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), total)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), difference)
        result = self.client.infer("simple", inputs, outputs=[triton.InferRequestedOutput("OUTPUT1")])
        self.assertIsNone(result.as_numpy("OUTPUT0"))

    def test_large(self):
        """gRPC: a tensor of 16 MiB goes there and back"""
        array = np.arange(4 * 1024 * 1024, dtype=np.float32).reshape(1, -1)
        result = self.client.infer("identity_fp32", [tensor(triton, "INPUT0", "FP32", array)])
        assert_same(array, result.as_numpy("OUTPUT0"))

    def test_too_large(self):
        """gRPC: a message over the limit is refused, and the refusal names the flag"""
        array = np.zeros((1, 17 * 1024 * 1024), np.float32)
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("identity_fp32", [tensor(triton, "INPUT0", "FP32", array)])
        self.assertEqual(caught.exception.status(), "StatusCode.RESOURCE_EXHAUSTED")
        self.assertIn("--grpc-max-message-size", caught.exception.message())

    def test_classification(self):
        """gRPC: classes come with their labels"""
        array = np.array([[0.5, 2.0, 1.0]], np.float32)
        outputs = [triton.InferRequestedOutput("OUTPUT0", class_count=2)]
        result = self.client.infer("identity_labels", [tensor(triton, "INPUT0", "FP32", array)], outputs=outputs)
        self.assertEqual(result.as_numpy("OUTPUT0").tolist(), [[b"2.000000:1:dog", b"1.000000:2:bird"]])

    def test_compression(self):
        """gRPC: requests may be compressed with gzip and deflate"""
        array = np.zeros((1, 100_000), np.float32)
        for algorithm in ("gzip", "deflate"):
            with self.subTest(algorithm):
                inputs = [tensor(triton, "INPUT0", "FP32", array)]
                result = self.client.infer("identity_fp32", inputs, compression_algorithm=algorithm)
                assert_same(array, result.as_numpy("OUTPUT0"))

    def test_bomb(self):
        """gRPC: what inflates over the limit is refused"""
        array = np.zeros((1, 17 * 1024 * 1024), np.float32)
        with self.assertRaises(InferenceServerException) as caught:
            inputs = [tensor(triton, "INPUT0", "FP32", array)]
            self.client.infer("identity_fp32", inputs, compression_algorithm="gzip")
        self.assertEqual(caught.exception.status(), "StatusCode.RESOURCE_EXHAUSTED")

    def test_errors(self):
        """gRPC: errors have a code, and say what was expected"""
        inputs = simple_inputs(triton)[0]
        text = "Request for unknown model: 'nope' is not found"
        self.refused("StatusCode.NOT_FOUND", text, lambda: self.client.infer("nope", inputs))
        text = (
            "expected 2 inputs but got 1 inputs for model 'simple': got 'INPUT0'; missing 'INPUT1'. Model 'simple' expects the "
            "inputs 'INPUT0' INT32 [-1,16], 'INPUT1' INT32 [-1,16]. The first dimension is the batch size, 1 to 8."
        )
        self.refused("StatusCode.INVALID_ARGUMENT", text, lambda: self.client.infer("simple", inputs[:1]))
        text = "model 'repeat' sends any number of responses (decoupled), and ModelInfer has one: use ModelStreamInfer."
        self.refused("StatusCode.INVALID_ARGUMENT", text, lambda: self.client.infer("repeat", count(triton, 1)))

    def test_async(self):
        """gRPC: many requests at once, each with its own answer"""
        answers = queue.Queue()
        for number in range(200):
            array = np.full((1, 8), number, np.int32)
            callback = lambda result, error, number=number: answers.put((number, result, error))
            self.client.async_infer("identity_int32", [tensor(triton, "INPUT0", "INT32", array)], callback)
        for _ in range(200):
            number, result, error = answers.get(timeout=30)
            self.assertIsNone(error)
            self.assertEqual(result.as_numpy("OUTPUT0")[0].tolist(), [number] * 8)

    def test_cancel(self):
        """gRPC: a request can be cancelled"""
        answers = queue.Queue()
        inputs = [tensor(triton, "INPUT0", "FP32", np.zeros((1, 1), np.float32))]
        context = self.client.async_infer("identity_slow", inputs, lambda result, error: answers.put(error))
        context.cancel()
        self.assertEqual(answers.get(timeout=30).status(), "StatusCode.CANCELLED")

    def test_deadline(self):
        """gRPC: a client's deadline ends its request"""
        inputs = [tensor(triton, "INPUT0", "FP32", np.zeros((1, 1), np.float32))]
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("identity_slow", inputs, client_timeout=0.02)
        self.assertEqual(caught.exception.status(), "StatusCode.DEADLINE_EXCEEDED")


class Streams(Client):
    def test_order(self):
        """stream: answers of models that answer once come in the order of their requests"""

        def send(client):
            for number in range(20):
                # Every other request goes to a model that takes a while.
                model = "identity_slow" if number % 10 == 0 else "identity_fp32"
                array = np.full((1, 1), number, np.float32)
                client.async_stream_infer(model, [tensor(triton, "INPUT0", "FP32", array)], request_id=str(number))

        answers = self.streamed(send, 20)
        self.assertTrue(all(error is None for _, error in answers))
        self.assertEqual([result.get_response().id for result, _ in answers], [str(number) for number in range(20)])
        for result, _ in answers:
            self.assertTrue(result.get_response().parameters["triton_final_response"].bool_param)

    def test_decoupled(self):
        """stream: a decoupled model answers as often as it likes, and says when it is done to who asked"""
        send = lambda client: client.async_stream_infer(
            "repeat", count(triton, 3), request_id="r", enable_empty_final_response=True
        )
        answers = self.streamed(send, 4)
        indices = [result.as_numpy("INDEX") for result, _ in answers]
        self.assertEqual([None if index is None else index.tolist() for index in indices], [[0], [1], [2], None])
        finals = [result.get_response().parameters["triton_final_response"].bool_param for result, _ in answers]
        self.assertEqual(finals, [False, False, False, True])

    def test_error(self):
        """stream: an error is an answer, and the stream goes on"""

        def send(client):
            client.async_stream_infer("nope", count(triton, 1), request_id="bad")
            client.async_stream_infer("repeat", count(triton, 1), request_id="good")

        (_, error), (result, _) = self.streamed(send, 2)
        self.assertEqual(error.message(), "Request for unknown model: 'nope' is not found")
        self.assertEqual(result.get_response().id, "good")

    def test_cancel(self):
        """stream: cancelling it ends it"""
        answers = queue.Queue()
        client = triton.InferenceServerClient(sys.argv[1])
        client.start_stream(callback=lambda result, error: answers.put(error))
        client.async_stream_infer("endless", count(triton, 1))
        self.assertIsNone(answers.get(timeout=30))
        client.stop_stream(cancel_requests=True)
        while (error := answers.get(timeout=30)) is None:
            pass
        self.assertEqual(error.status(), "StatusCode.CANCELLED")
        client.close()


class Reflection(Client):
    def test_health_service(self):
        """gRPC's own health service answers Check and Watch"""
        with grpc.insecure_channel(sys.argv[1]) as channel:
            raw = lambda data: data
            check = channel.unary_unary("/grpc.health.v1.Health/Check", raw, raw)
            self.assertEqual(check(b"", timeout=10), b"\x08\x01")
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch", raw, raw)(b"", timeout=10)
            self.assertEqual(next(watch), b"\x08\x01")
            watch.cancel()

    def test_reflection(self):
        """server reflection names the services, as grpcurl wants it"""
        with grpc.insecure_channel(sys.argv[1]) as channel:
            raw = lambda data: data
            for version in (b"v1", b"v1alpha"):
                path = f"/grpc.reflection.{version.decode()}.ServerReflection/ServerReflectionInfo"
                call = channel.stream_stream(path, raw, raw)
                (answer,) = call(iter([b"\x3a\x01*"]), timeout=10)
                self.assertIn(b"inference.GRPCInferenceService", answer)
                (answer,) = call(iter([b"\x22\x1einference.GRPCInferenceService"]), timeout=10)
                self.assertIn(b"grpc_service.proto", answer)


report.run()
