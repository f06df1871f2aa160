"""NVIDIA's tritonclient.http.aio against a running server: `python aio_client.py HOST:PORT`."""

import asyncio
import sys
import unittest

import numpy as np
import tritonclient.http.aio as http
from models import BINARY_ONLY, VALUES, assert_same, identity, input_of, simple_inputs
from tritonclient.utils import InferenceServerException

import report


class Client(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = http.InferenceServerClient(sys.argv[1])

    async def asyncTearDown(self):
        await self.client.close()

    async def test_health(self):
        """aio: health, metadata and configuration"""
        self.assertTrue(await self.client.is_server_live())
        self.assertTrue(await self.client.is_server_ready())
        self.assertTrue(await self.client.is_model_ready("simple", "1"))
        self.assertFalse(await self.client.is_model_ready("nope"))
        self.assertEqual((await self.client.get_server_metadata())["name"], "galatea")
        self.assertEqual((await self.client.get_model_metadata("simple"))["versions"], ["1"])
        self.assertEqual((await self.client.get_model_config("simple"))["max_batch_size"], 8)

    async def test_forms(self):
        """aio: inputs and outputs travel as binary data or JSON, in every combination"""
        for binary_in in (True, False):
            for binary_out in (True, False):
                with self.subTest(binary_in=binary_in, binary_out=binary_out):
                    inputs, total, difference = simple_inputs(http, binary_in, rows=3)
                    names = ("OUTPUT0", "OUTPUT1")
                    outputs = [http.InferRequestedOutput(name, binary_data=binary_out) for name in names]
                    result = await self.client.infer("simple", inputs, outputs=outputs, request_id="a")
                    assert_same(total, result.as_numpy("OUTPUT0"))
                    assert_same(difference, result.as_numpy("OUTPUT1"))
                    self.assertEqual(result.get_response()["id"], "a")

    async def test_data_types(self):
        """aio: every data type goes there and back, bit for bit"""
        for data_type, array in VALUES.items():
            for binary in (True,) if data_type in BINARY_ONLY else (True, False):
                with self.subTest(data_type=data_type, binary=binary):
                    tensor = input_of(http, "INPUT0", data_type, array, binary)
                    output = http.InferRequestedOutput("OUTPUT0", binary_data=binary)
                    result = await self.client.infer(identity(data_type), [tensor], outputs=[output])
                    assert_same(array, result.as_numpy("OUTPUT0"))

    async def test_concurrent(self):
        """aio: of many requests in flight each gets its own answer"""

        async def ask(number):
            array = np.full((1, 8), number, np.float32)
            result = await self.client.infer("identity_fp32", [input_of(http, "INPUT0", "FP32", array)])
            assert_same(array, result.as_numpy("OUTPUT0"))

        await asyncio.gather(*(ask(number) for number in range(300)))

    async def test_compression(self):
        """aio: gzip and deflate work for requests and answers"""
        inputs, total, _ = simple_inputs(http)
        for algorithm in ("gzip", "deflate"):
            with self.subTest(algorithm=algorithm):
                result = await self.client.infer(
                    "simple",
                    inputs,
                    request_compression_algorithm=algorithm,
                    response_compression_algorithm=algorithm,
                )
                assert_same(total, result.as_numpy("OUTPUT0"))

    async def test_classification(self):
        """aio: classification gives value:index:label"""
        tensor = input_of(http, "INPUT0", "FP32", np.array([[0.1, 0.7, 0.2]], np.float32))
        output = http.InferRequestedOutput("OUTPUT0", class_count=1)
        result = await self.client.infer("identity_labels", [tensor], outputs=[output])
        self.assertEqual(result.as_numpy("OUTPUT0").tolist(), [[b"0.700000:1:dog"]])

    async def test_errors(self):
        """aio: errors carry Triton's words and status"""
        inputs, _, _ = simple_inputs(http)
        with self.assertRaises(InferenceServerException) as caught:
            await self.client.infer("nope", inputs)
        self.assertEqual(caught.exception.message(), "Request for unknown model: 'nope' is not found")
        with self.assertRaises(InferenceServerException) as caught:
            await self.client.infer("simple", inputs[:1])
        self.assertIn("expected 2 inputs but got 1 inputs for model 'simple'", caught.exception.message())

    async def test_abandoned(self):
        """aio: a client that gives up in the middle harms nobody"""
        slow = input_of(http, "INPUT0", "FP32", np.zeros((1, 4), np.float32))
        calls = [asyncio.create_task(self.client.infer("identity_slow", [slow])) for _ in range(8)]
        await asyncio.sleep(0)
        inputs, total, _ = simple_inputs(http)
        await self.client.infer("simple", inputs)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        result = await self.client.infer("simple", inputs)
        assert_same(total, result.as_numpy("OUTPUT0"))
        result = await self.client.infer("identity_slow", [slow])
        self.assertEqual(result.as_numpy("OUTPUT0").shape, (1, 4))


if __name__ == "__main__":
    report.run()
