"""NVIDIA's tritonclient.grpc.aio against a running server: `python grpc_aio_client.py HOST:PORT`."""

import asyncio
import sys
import unittest

import numpy as np
import tritonclient.grpc.aio as triton
from grpc_models import count, simple_inputs, tensor
from models import VALUES, assert_same, identity
from tritonclient.utils import InferenceServerException

import report


class Client(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = triton.InferenceServerClient(sys.argv[1])

    async def asyncTearDown(self):
        await self.client.close()

    async def test_service(self):
        """gRPC aio: health, metadata and configuration"""
        self.assertTrue(await self.client.is_server_ready())
        self.assertEqual((await self.client.get_server_metadata()).name, "galatea")
        self.assertEqual((await self.client.get_model_config("simple")).config.max_batch_size, 8)

    async def test_every_type(self):
        """gRPC aio: every data type comes back as it was sent"""
        for data_type, array in VALUES.items():
            with self.subTest(data_type):
                result = await self.client.infer(identity(data_type), [tensor(triton, "INPUT0", data_type, array)])
                assert_same(array, result.as_numpy("OUTPUT0"))

    async def test_at_once(self):
        """gRPC aio: a hundred requests at once"""

        async def ask(rows):
            inputs, total, _ = simple_inputs(triton, rows)
            result = await self.client.infer("simple", inputs)
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), total)

        await asyncio.gather(*(ask(1 + number % 8) for number in range(100)))

    async def test_stream(self):
        """gRPC aio: a stream of requests to a decoupled model"""

        async def requests():
            for number in (2, 0, 1):
                yield {"model_name": "repeat", "inputs": count(triton, number), "request_id": str(number)}

        ids = []
        async for result, error in self.client.stream_infer(requests()):
            self.assertIsNone(error)
            ids.append(result.get_response().id)
        self.assertEqual(sorted(ids), ["1", "2", "2"])

    async def test_compression(self):
        """gRPC aio: compressed requests are understood"""
        inputs, total, _ = simple_inputs(triton)
        for algorithm in ("gzip", "deflate"):
            with self.subTest(algorithm):
                result = await self.client.infer("simple", inputs, compression_algorithm=algorithm)
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), total)

    async def test_errors(self):
        """gRPC aio: errors carry Triton's words and status, and a deadline ends a call"""
        inputs, _, _ = simple_inputs(triton)
        with self.assertRaises(InferenceServerException) as caught:
            await self.client.infer("nope", inputs)
        self.assertEqual(caught.exception.status(), "StatusCode.NOT_FOUND")
        self.assertEqual(caught.exception.message(), "Request for unknown model: 'nope' is not found")
        slow = [tensor(triton, "INPUT0", "FP32", np.zeros((1, 1), np.float32))]
        with self.assertRaises(InferenceServerException) as caught:
            await self.client.infer("identity_slow", slow, client_timeout=0.001)
        self.assertEqual(caught.exception.status(), "StatusCode.DEADLINE_EXCEEDED")

    async def test_stream_cancel(self):
        """gRPC aio: cancelling a stream ends it"""

        async def requests():
            yield {"model_name": "endless", "inputs": count(triton, 1)}

        stream = self.client.stream_infer(requests())
        received = 0
        with self.assertRaises((asyncio.CancelledError, InferenceServerException)):
            async for _, error in stream:
                if error is not None:
                    raise error
                received += 1
                if received == 3:
                    self.assertTrue(stream.cancel())
        self.assertGreaterEqual(received, 3)

    async def test_cancel(self):
        """gRPC aio: a call that is cancelled is gone"""
        inputs = [tensor(triton, "INPUT0", "FP32", np.zeros((1, 1), np.float32))]
        call = asyncio.create_task(self.client.infer("identity_slow", inputs))
        await asyncio.sleep(0)
        call.cancel()
        with self.assertRaises((asyncio.CancelledError, InferenceServerException)):
            await call
        self.assertTrue(await self.client.is_server_live())


report.run()
