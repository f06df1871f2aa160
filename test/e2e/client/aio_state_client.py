"""Sequences and shared memory with the clients that grpc_state_client.py leaves out: `python aio_state_client.py HTTP,GRPC`."""

import asyncio
import os
import sys
import unittest

import numpy as np
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http
import tritonclient.http.aio as http_aio
import tritonclient.utils.shared_memory as shm
from models import identity

import report

HTTP, GRPC = sys.argv[1].split(",")


async def settled(value):
    """What an asynchronous client answers, or what another one answered at once."""
    return await value if asyncio.iscoroutine(value) else value


def value_input(client, value):
    tensor = client.InferInput("VALUE", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[value]], dtype=np.int32))
    return [tensor]


class State(unittest.IsolatedAsyncioTestCase):
    clients = ((http, HTTP), (http_aio, HTTP), (grpc_aio, GRPC))

    async def test_sequences(self):
        """Each client: two sequences at once, one with a number and one with a text for its id."""
        for module, address in self.clients:
            with self.subTest(module.__name__):
                client = module.InferenceServerClient(address)
                sums = []
                for place in range(3):
                    for sequence, value in ((77, 1), ("text of " + module.__name__, 10)):
                        result = await settled(
                            client.infer(
                                "accumulate",
                                value_input(module, value),
                                sequence_id=sequence,
                                sequence_start=place == 0,
                                sequence_end=place == 2,
                            )
                        )
                        sums.append(int(result.as_numpy("SUM")[0][0]))
                await settled(client.close())
                self.assertEqual(sums, [1, 10, 2, 20, 3, 30])

    async def test_sequence_stream(self):
        """gRPC aio: a sequence on one stream, answered in its order."""
        client = grpc_aio.InferenceServerClient(GRPC)

        async def requests():
            for place in range(5):
                yield {
                    "model_name": "accumulate",
                    "inputs": value_input(grpc_aio, place + 1),
                    "request_id": str(place),
                    "sequence_id": 99,
                    "sequence_start": place == 0,
                    "sequence_end": place == 4,
                }

        answers = []
        async for result, error in client.stream_infer(requests()):
            self.assertIsNone(error)
            answers.append((result.get_response().id, int(result.as_numpy("SUM")[0][0])))
        await client.close()
        self.assertEqual(answers, [("0", 1), ("1", 3), ("2", 6), ("3", 10), ("4", 15)])

    async def test_shared_memory(self):
        """Each asynchronous client: input and output lie in shared memory."""
        array = np.arange(1024, dtype=np.float32).reshape(1, 1024)
        for module, address in self.clients[1:]:
            with self.subTest(module.__name__):
                client = module.InferenceServerClient(address)
                handles = []
                try:
                    for name in ("source", "target"):
                        key = f"/galatea_e2e_aio_{os.getpid()}_{name}"
                        handles.append(shm.create_shared_memory_region(name, key, array.nbytes))
                        await client.register_system_shared_memory(name, key, array.nbytes)
                    shm.set_shared_memory_region(handles[0], [array])
                    tensor = module.InferInput("INPUT0", list(array.shape), "FP32")
                    tensor.set_shared_memory("source", array.nbytes)
                    output = module.InferRequestedOutput("OUTPUT0")
                    output.set_shared_memory("target", array.nbytes)
                    await client.infer(identity("FP32"), [tensor], outputs=[output])
                    received = np.array(shm.get_contents_as_numpy(handles[1], np.float32, list(array.shape)))
                    np.testing.assert_array_equal(received, array)
                finally:
                    await client.unregister_system_shared_memory()
                    await client.close()
                    for handle in handles:
                        shm.destroy_shared_memory_region(handle)


report.run()
