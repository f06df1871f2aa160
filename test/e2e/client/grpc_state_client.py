"""What a gRPC client keeps between calls, sequences and shared memory: `python grpc_state_client.py HOST:PORT`."""

import os
import queue
import sys
import unittest

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.utils.shared_memory as shm
from models import identity

import report


def value_input(value):
    tensor = grpc.InferInput("VALUE", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[value]], dtype=np.int32))
    return [tensor]


class State(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = grpc.InferenceServerClient(sys.argv[1])

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def test_sequences_on_one_stream(self):
        """Two sequences, their requests interleaved: each has its own sum."""
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put((result, error)))
        values = [(11, 1), (22, 100), (11, 2), (22, 200), (11, 3), (22, 300)]
        for place, (sequence, value) in enumerate(values):
            self.client.async_stream_infer(
                "accumulate",
                value_input(value),
                request_id=f"{sequence}-{place}",
                sequence_id=sequence,
                sequence_start=place < 2,
                sequence_end=place >= len(values) - 2,
            )
        sums = {}
        for _ in values:
            result, error = answers.get(timeout=30)
            self.assertIsNone(error)
            sequence = result.get_response().id.split("-")[0]
            sums.setdefault(sequence, []).append(int(result.as_numpy("SUM")[0][0]))
        self.client.stop_stream()
        self.assertEqual(sums, {"11": [1, 3, 6], "22": [100, 300, 600]})

    def test_sequence_by_name(self):
        """A sequence may have a string for its id."""
        for place, expected in enumerate([5, 10, 15]):
            result = self.client.infer(
                "accumulate",
                value_input(5),
                sequence_id="named",
                sequence_start=place == 0,
                sequence_end=place == 2,
            )
            self.assertEqual(int(result.as_numpy("SUM")[0][0]), expected)

    def test_shared_memory(self):
        """Input and output lie in shared memory."""
        array = np.arange(1024, dtype=np.float32).reshape(1, 1024)
        handles = []
        try:
            for name in ("source", "target"):
                key = f"/galatea_e2e_grpc_{os.getpid()}_{name}"
                handles.append(shm.create_shared_memory_region(name, key, array.nbytes))
                self.client.register_system_shared_memory(name, key, array.nbytes)
            shm.set_shared_memory_region(handles[0], [array])
            tensor = grpc.InferInput("INPUT0", list(array.shape), "FP32")
            tensor.set_shared_memory("source", array.nbytes)
            output = grpc.InferRequestedOutput("OUTPUT0")
            output.set_shared_memory("target", array.nbytes)
            self.client.infer(identity("FP32"), [tensor], outputs=[output])
            received = np.array(shm.get_contents_as_numpy(handles[1], np.float32, list(array.shape)))
            np.testing.assert_array_equal(received, array)
            regions = self.client.get_system_shared_memory_status(as_json=True)["regions"]
            self.assertEqual(sorted(regions), ["source", "target"])
        finally:
            self.client.unregister_system_shared_memory()
            for handle in handles:
                shm.destroy_shared_memory_region(handle)


report.run()
