"""NVIDIA's tritonclient.http against a running server: `python sync_client.py HOST:PORT`."""

import pathlib
import sys
import unittest

import numpy as np
import tritonclient.http as http
from models import BINARY_ONLY, VALUES, assert_same, identity, input_of, simple_inputs
from tritonclient.utils import InferenceServerException

import report

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = http.InferenceServerClient(sys.argv[1], concurrency=8)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def refused(self, status, message, call):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        self.assertEqual(caught.exception.message(), message)
        self.assertEqual(caught.exception.status(), status)


class Health(Client):
    def test_health(self):
        """the server is live and ready, and so are its models"""
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("simple"))
        self.assertTrue(self.client.is_model_ready("simple", "1"))

    def test_not_ready(self):
        """a model or version that does not exist is not ready"""
        self.assertFalse(self.client.is_model_ready("nope"))
        self.assertFalse(self.client.is_model_ready("simple", "7"))

    def test_server_metadata(self):
        """server metadata has name, version and the extensions in Triton's order"""
        metadata = self.client.get_server_metadata()
        self.assertEqual(list(metadata), ["name", "version", "extensions"])
        self.assertEqual(metadata["name"], "galatea")
        known = ["classification", "binary_tensor_data", "parameters"]
        self.assertEqual([name for name in metadata["extensions"] if name in known], known)

    def test_model_metadata(self):
        """model metadata has versions, platform and shapes with the batch dimension"""
        tensor = lambda name: {"name": name, "datatype": "INT32", "shape": [-1, 16]}
        metadata = self.client.get_model_metadata("simple")
        self.assertIn("onnxruntime", metadata.pop("platform"))
        self.assertEqual(
            metadata,
            {
                "name": "simple",
                "versions": ["1"],
                "inputs": [tensor("INPUT0"), tensor("INPUT1")],
                "outputs": [tensor("OUTPUT0"), tensor("OUTPUT1")],
            },
        )
        self.assertEqual(self.client.get_model_metadata("simple", "1")["versions"], ["1"])

    def test_model_config(self):
        """the model configuration comes complete, with Triton's names"""
        config = self.client.get_model_config("digits")
        self.assertEqual(config["name"], "digits")
        self.assertEqual(config["backend"], "onnxruntime")
        self.assertEqual(config["max_batch_size"], 64)
        self.assertEqual(config["version_policy"], {"latest": {"num_versions": 1}})
        self.assertEqual(config["input"][0]["data_type"], "TYPE_FP32")
        self.assertEqual(config["input"][0]["dims"], [64])
        self.assertEqual(config["output"][0]["label_filename"], "labels.txt")
        self.assertEqual(config["instance_group"][0]["kind"], "KIND_CPU")
        self.assertEqual(config["instance_group"][0]["count"], 1)

    def test_unknown_metadata(self):
        """metadata and configuration of a model that does not exist are refused in Triton's words"""
        message = "Request for unknown model: 'nope' is not found"
        # The client gives metadata errors Triton's status too.
        self.refused("404", message, lambda: self.client.get_model_metadata("nope"))
        self.refused("404", message, lambda: self.client.get_model_config("nope"))


class Infer(Client):
    def test_forms(self):
        """inputs and outputs travel as binary data or JSON, in every combination"""
        for binary_in in (True, False):
            for binary_out in (True, False, None):
                with self.subTest(binary_in=binary_in, binary_out=binary_out):
                    inputs, total, difference = simple_inputs(http, binary_in, rows=2)
                    outputs = None
                    if binary_out is not None:
                        names = ("OUTPUT0", "OUTPUT1")
                        outputs = [http.InferRequestedOutput(name, binary_data=binary_out) for name in names]
                    result = self.client.infer("simple", inputs, outputs=outputs)
                    assert_same(total, result.as_numpy("OUTPUT0"))
                    assert_same(difference, result.as_numpy("OUTPUT1"))

    def test_encoded_name(self):
        """The client encodes the name of a model in the path."""
        sent = http.InferInput("INPUT0", [1, 2], "FP32")
        sent.set_data_from_numpy(np.array([[1, 2]], dtype=np.float32))
        answer = self.client.infer("größe in cm", [sent])
        self.assertEqual(answer.get_response()["model_name"], "größe in cm")
        self.assertEqual(answer.as_numpy("OUTPUT0").tolist(), [[1, 2]])
        self.assertTrue(self.client.is_model_ready("größe in cm"))

    def test_mixed(self):
        """one request may mix binary and JSON inputs and outputs"""
        numbers = np.array([[1.5, -2.5]], np.float32)
        words = np.array([["a", "bc", ""]], np.object_)
        inputs = [
            input_of(http, "INPUT0", "FP32", numbers, binary=False),
            input_of(http, "INPUT1", "BYTES", words, binary=True),
        ]
        outputs = [
            http.InferRequestedOutput("OUTPUT0", binary_data=True),
            http.InferRequestedOutput("OUTPUT1", binary_data=False),
        ]
        result = self.client.infer("identity_pair", inputs, outputs=outputs)
        assert_same(numbers, result.as_numpy("OUTPUT0"))
        assert_same(words, result.as_numpy("OUTPUT1"))

    def test_subset(self):
        """only the outputs that were asked for come back"""
        inputs, _, difference = simple_inputs(http)
        result = self.client.infer("simple", inputs, outputs=[http.InferRequestedOutput("OUTPUT1")])
        self.assertIsNone(result.as_numpy("OUTPUT0"))
        assert_same(difference, result.as_numpy("OUTPUT1"))

    def test_envelope(self):
        """the answer carries the id, the model's name and the version that answered"""
        inputs, _, _ = simple_inputs(http)
        response = self.client.infer("simple", inputs, model_version="1", request_id="seven").get_response()
        self.assertEqual((response["id"], response["model_name"], response["model_version"]), ("seven", "simple", "1"))
        self.assertNotIn("id", self.client.infer("simple", inputs).get_response())

    def test_data_types_binary(self):
        """every data type goes there and back as binary data, bit for bit"""
        for data_type, array in VALUES.items():
            with self.subTest(data_type=data_type):
                result = self.client.infer(identity(data_type), [input_of(http, "INPUT0", data_type, array)])
                assert_same(array, result.as_numpy("OUTPUT0"))
                self.assertEqual(result.get_output("OUTPUT0")["datatype"], data_type)

    def test_data_types_json(self):
        """every data type that JSON can carry goes there and back as JSON, bit for bit"""
        for data_type, array in VALUES.items():
            if data_type in BINARY_ONLY:
                continue
            with self.subTest(data_type=data_type):
                tensor = input_of(http, "INPUT0", data_type, array, binary=False)
                output = http.InferRequestedOutput("OUTPUT0", binary_data=False)
                result = self.client.infer(identity(data_type), [tensor], outputs=[output])
                self.assertIn("data", result.get_output("OUTPUT0"))
                assert_same(array, result.as_numpy("OUTPUT0"))

    def test_half_json(self):
        """FP16 and BF16 as JSON are refused in Triton's words"""
        half = VALUES["FP16"]
        message = "receiving FP16 data via JSON is not supported. Please use the binary data format for input INPUT0"
        tensor = input_of(http, "INPUT0", "FP16", half, binary=False)
        self.refused("400", message, lambda: self.client.infer("identity_fp16", [tensor]))
        for data_type in BINARY_ONLY:
            message = f"sending {data_type} data via JSON is not supported. Please use the binary data format for output"
            tensor = input_of(http, "INPUT0", data_type, VALUES[data_type])
            output = http.InferRequestedOutput("OUTPUT0", binary_data=False)
            call = lambda: self.client.infer(identity(data_type), [tensor], outputs=[output])
            self.refused("400", message, call)

    def test_not_finite(self):
        """NaN and the infinities survive JSON"""
        array = np.array([[np.nan, np.inf, -np.inf]], np.float32)
        tensor = input_of(http, "INPUT0", "FP32", array, binary=False)
        output = http.InferRequestedOutput("OUTPUT0", binary_data=False)
        result = self.client.infer("identity_fp32", [tensor], outputs=[output]).as_numpy("OUTPUT0")
        np.testing.assert_array_equal(array, result)

    def test_any_bytes(self):
        """BYTES that are no text travel as binary data"""
        array = np.array([[bytes(range(256)), b"\xff\xfe", b"\0"]], np.object_)
        result = self.client.infer("identity_bytes", [input_of(http, "INPUT0", "BYTES", array)])
        assert_same(array, result.as_numpy("OUTPUT0"))

    def test_empty(self):
        """a tensor without elements goes there and back"""
        for data_type in ("FP32", "BYTES"):
            for binary in (True, False):
                with self.subTest(data_type=data_type, binary=binary):
                    array = np.empty((1, 0), VALUES[data_type].dtype)
                    tensor = input_of(http, "INPUT0", data_type, array, binary)
                    output = http.InferRequestedOutput("OUTPUT0", binary_data=binary)
                    result = self.client.infer(identity(data_type), [tensor], outputs=[output])
                    self.assertEqual(result.as_numpy("OUTPUT0").shape, (1, 0))

    def test_large(self):
        """16 MiB of FP32 come back bit for bit, as binary data"""
        array = np.random.default_rng(7).random((4, 1 << 20), np.float32)
        result = self.client.infer("identity_fp32", [input_of(http, "INPUT0", "FP32", array)])
        assert_same(array, result.as_numpy("OUTPUT0"))

    def test_large_json(self):
        """100,000 numbers come back bit for bit, as JSON"""
        array = np.random.default_rng(7).standard_normal((1, 100_000)).astype(np.float32)
        tensor = input_of(http, "INPUT0", "FP32", array, binary=False)
        output = http.InferRequestedOutput("OUTPUT0", binary_data=False)
        assert_same(array, self.client.infer("identity_fp32", [tensor], outputs=[output]).as_numpy("OUTPUT0"))

    def test_compression(self):
        """gzip and deflate work for requests and answers, together and alone"""
        inputs, total, _ = simple_inputs(http)
        for request in (None, "gzip", "deflate"):
            for response in (None, "gzip", "deflate"):
                with self.subTest(request=request, response=response):
                    result = self.client.infer(
                        "simple",
                        inputs,
                        request_compression_algorithm=request,
                        response_compression_algorithm=response,
                    )
                    assert_same(total, result.as_numpy("OUTPUT0"))

    def test_parameters(self):
        """custom parameters, headers, query parameters, priority and timeout are taken without complaint"""
        inputs, total, _ = simple_inputs(http)
        result = self.client.infer(
            "simple",
            inputs,
            parameters={"text": "a", "whole": 2**40, "half": 0.5, "flag": True},
            headers={"X-Team": "vision"},
            query_params={"a": [1, 2]},
            priority=1,
            timeout=60_000_000,
        )
        assert_same(total, result.as_numpy("OUTPUT0"))

    def test_concurrent(self):
        """of many requests in flight each gets its own answer"""
        calls = []
        for number in range(200):
            array = np.full((1, 8), number, np.float32)
            calls.append(self.client.async_infer("identity_fp32", [input_of(http, "INPUT0", "FP32", array)]))
        for number, call in enumerate(calls):
            assert_same(np.full((1, 8), number, np.float32), call.get_result().as_numpy("OUTPUT0"))

    def test_bodies(self):
        """request bodies made apart from the client are understood, and answers parsed apart from it"""
        inputs, total, _ = simple_inputs(http)
        body, header_length = http.InferenceServerClient.generate_request_body(inputs)
        headers = {"Inference-Header-Content-Length": header_length}
        response = self.client._post("v2/models/simple/infer", body, headers, None)
        self.assertEqual(response.status_code, 200)
        length = int(response.get("Inference-Header-Content-Length"))
        result = http.InferenceServerClient.parse_response_body(bytes(response.read()), header_length=length)
        assert_same(total, result.as_numpy("OUTPUT0"))


class Refusals(Client):
    def infer_simple(self, **arguments):
        inputs, _, _ = simple_inputs(http)
        return self.client.infer(**{"model_name": "simple", "inputs": inputs, **arguments})

    def test_unknown_model(self):
        """an unknown model or version is refused in Triton's words, with the versions that there are"""
        message = "Request for unknown model: 'nope' is not found"
        self.refused("404", message, lambda: self.infer_simple(model_name="nope"))
        message = "Request for unknown model: 'simple' version 7 is not found; it has version 1"
        self.refused("404", message, lambda: self.infer_simple(model_version="7"))

    def test_data_type(self):
        """a wrong data type is refused in Triton's words, with the request's id"""
        inputs, _, _ = simple_inputs(http)
        inputs[0] = input_of(http, "INPUT0", "FP32", np.zeros((1, 16), np.float32))
        message = "[request id: 7] inference input 'INPUT0' data-type is 'FP32', but model 'simple' expects 'INT32'"
        self.refused("400", message, lambda: self.infer_simple(inputs=inputs, request_id="7"))

    def test_shape(self):
        """a wrong shape is refused"""
        inputs, _, _ = simple_inputs(http)
        inputs[0] = input_of(http, "INPUT0", "INT32", np.zeros((1, 15), np.int32))
        with self.assertRaises(InferenceServerException) as caught:
            self.infer_simple(inputs=inputs)
        expected = "unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got [1,15]. "
        self.assertIn(expected, caught.exception.message())
        self.assertEqual(caught.exception.status(), "400")

    def test_missing_input(self):
        """a missing input is refused, and the refusal lists the inputs"""
        inputs, _, _ = simple_inputs(http)
        message = (
            "expected 2 inputs but got 1 inputs for model 'simple': got 'INPUT0'; missing 'INPUT1'. Model 'simple' expects the "
            "inputs 'INPUT0' INT32 [-1,16], 'INPUT1' INT32 [-1,16]. The first dimension is the batch size, 1 to 8."
        )
        self.refused("400", message, lambda: self.infer_simple(inputs=inputs[:1]))

    def test_unknown_tensors(self):
        """unknown inputs and outputs are refused, and the refusal lists those of the model"""
        inputs, _, _ = simple_inputs(http)
        inputs[1] = input_of(http, "OTHER", "INT32", np.zeros((1, 16), np.int32))
        message = "unexpected inference input 'OTHER' for model 'simple'"
        with self.assertRaises(InferenceServerException) as caught:
            self.infer_simple(inputs=inputs)
        self.assertIn(message, caught.exception.message())
        message = (
            "unexpected inference output 'OTHER' for model 'simple'. Model 'simple' has 'OUTPUT0' INT32 [-1,16], "
            "'OUTPUT1' INT32 [-1,16]."
        )
        self.refused("400", message, lambda: self.infer_simple(outputs=[http.InferRequestedOutput("OTHER")]))

    def test_batch_size(self):
        """a batch over max_batch_size is refused"""
        inputs, _, _ = simple_inputs(http, rows=9)
        message = (
            "inference request batch-size must be <= 8 for 'simple', got 9: send fewer rows, or raise max_batch_size in the "
            "configuration of the model"
        )
        self.refused("400", message, lambda: self.infer_simple(inputs=inputs))

    def test_survives(self):
        """after a refusal the same connection goes on"""
        client = http.InferenceServerClient(sys.argv[1], concurrency=1)
        inputs, total, _ = simple_inputs(http)
        for _ in range(3):
            with self.assertRaises(InferenceServerException):
                client.infer("nope", inputs)
            assert_same(total, client.infer("simple", inputs).as_numpy("OUTPUT0"))
        client.close()


class Classification(Client):
    def test_labels(self):
        """classification gives value:index:label, the best first, one row per batch item"""
        array = np.array([[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]], np.float32)
        for binary in (True, False):
            with self.subTest(binary=binary):
                output = http.InferRequestedOutput("OUTPUT0", binary_data=binary, class_count=2)
                tensor = input_of(http, "INPUT0", "FP32", array)
                rows = self.client.infer("identity_labels", [tensor], outputs=[output]).as_numpy("OUTPUT0")
                text = [[item if isinstance(item, str) else item.decode() for item in row] for row in rows.tolist()]
                expected = [["0.700000:1:dog", "0.200000:2:bird"], ["0.500000:0:cat", "0.250000:1:dog"]]
                self.assertEqual(text, expected)

    def test_all_classes(self):
        """asking for more classes than there are gives them all; without labels there is none"""
        output = http.InferRequestedOutput("OUTPUT0", class_count=10)
        tensor = input_of(http, "INPUT0", "INT32", np.array([[3, -1]], np.int32))
        rows = self.client.infer("identity_int32", [tensor], outputs=[output]).as_numpy("OUTPUT0")
        self.assertEqual(rows.tolist(), [[b"3:0", b"-1:1"]])


class Examples(Client):
    def test_picture(self):
        """a PNG goes through digit_image and digits, and its digit comes out by name"""
        for name in ("zero", "three", "seven", "nine"):
            with self.subTest(name=name):
                file = (EXAMPLES / "images" / f"{name}.png").read_bytes()
                image = input_of(http, "image", "BYTES", np.array([[file]], np.object_))
                pixels = self.client.infer("digit_image", [image]).as_numpy("pixels")
                self.assertEqual((pixels.dtype, pixels.shape), (np.float32, (1, 64)))
                output = http.InferRequestedOutput("scores", class_count=1)
                scores = self.client.infer("digits", [input_of(http, "pixels", "FP32", pixels)], outputs=[output])
                self.assertTrue(scores.as_numpy("scores").item().decode().endswith(f":{name}"))

    def test_bad_picture(self):
        """a file that is no PNG is refused with a reason"""
        image = input_of(http, "image", "BYTES", np.array([[b"GIF89a"]], np.object_))
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("digit_image", [image])
        self.assertIn("not a PNG file", caught.exception.message())
        self.assertEqual(caught.exception.status(), "400")


if __name__ == "__main__":
    report.run()
