"""tritonclient.utils.shared_memory with tritonclient.http against a running server: `python shared_memory_client.py HOST:PORT`."""

import os
import sys
import unittest

import numpy as np
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm
from models import VALUES, assert_same, identity
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

import report

PREFIX = f"galatea_e2e_{os.getpid()}"


class SharedMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = http.InferenceServerClient(sys.argv[1])

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def setUp(self):
        self.handles = []

    def tearDown(self):
        self.client.unregister_system_shared_memory()
        for handle in self.handles:
            shm.destroy_shared_memory_region(handle)

    def region(self, name, byte_size):
        handle = shm.create_shared_memory_region(name, f"/{PREFIX}_{name}", byte_size)
        self.handles.append(handle)
        self.client.register_system_shared_memory(name, f"/{PREFIX}_{name}", byte_size)
        return handle

    def refused(self, status, message, call):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        self.assertEqual(caught.exception.message(), message)
        self.assertEqual(caught.exception.status(), status)

    def round_trip(self, data_type, array):
        """What comes back from identity when both tensors lie in shared memory."""
        content = serialize_byte_tensor(array) if data_type == "BYTES" else array
        byte_size = len(content.item()) if data_type == "BYTES" else array.nbytes
        source = self.region("source", byte_size)
        target = self.region("target", byte_size)
        shm.set_shared_memory_region(source, [content])
        tensor = http.InferInput("INPUT0", list(array.shape), data_type)
        tensor.set_shared_memory("source", byte_size)
        output = http.InferRequestedOutput("OUTPUT0")
        output.set_shared_memory("target", byte_size)
        result = self.client.infer(identity(data_type), [tensor], outputs=[output])
        described = result.get_output("OUTPUT0")
        self.assertEqual(described["shape"], list(array.shape))
        self.assertNotIn("data", described)
        # A copy: the library's array is a view on memory that is about to go.
        received = np.array(shm.get_contents_as_numpy(target, array.dtype, list(array.shape)))
        self.client.unregister_system_shared_memory("source")
        self.client.unregister_system_shared_memory("target")
        while self.handles:
            shm.destroy_shared_memory_region(self.handles.pop())
        return received

    def test_every_type(self):
        """tensors of every type go through shared memory unchanged"""
        for data_type, array in VALUES.items():
            with self.subTest(data_type):
                assert_same(array, self.round_trip(data_type, array))

    def test_large(self):
        """eight megabytes go through shared memory unchanged"""
        array = np.random.default_rng(7).random((1, 2_000_000), np.float32)
        assert_same(array, self.round_trip("FP32", array))

    def test_mixed(self):
        """an input in shared memory may be answered with binary data, at an offset"""
        handle = self.region("mixed", 4096)
        array = np.array([[1, 2, 3]], np.int32)
        shm.set_shared_memory_region(handle, [array], offset=100)
        tensor = http.InferInput("INPUT0", [1, 3], "INT32")
        tensor.set_shared_memory("mixed", 12, offset=100)
        assert_same(array, self.client.infer("identity_int32", [tensor]).as_numpy("OUTPUT0"))

    def test_status(self):
        """status tells what is registered, and unregistering takes it away"""
        self.region("first", 64)
        self.region("second", 8192)
        expected = [
            {"name": name, "key": f"/{PREFIX}_{name}", "offset": 0, "byte_size": size}
            for name, size in (("first", 64), ("second", 8192))
        ]
        self.assertEqual(self.client.get_system_shared_memory_status(), expected)
        self.assertEqual(self.client.get_system_shared_memory_status("second"), expected[1:])
        self.client.unregister_system_shared_memory("first")
        self.assertEqual(self.client.get_system_shared_memory_status(), expected[1:])
        self.client.unregister_system_shared_memory()
        self.assertEqual(self.client.get_system_shared_memory_status(), [])

    def test_truncated(self):
        """a region that is cut off while it is registered gives an error, and the server lives"""
        self.region("cut", 4096)
        os.truncate(f"/dev/shm/{PREFIX}_cut", 0)
        tensor = http.InferInput("INPUT0", [1, 3], "INT32")
        tensor.set_shared_memory("cut", 12)
        message = f"shared memory region 'cut' has been truncated: bytes 0 to 12 are no longer all in its object '/{PREFIX}_cut'"
        self.refused("400", message, lambda: self.client.infer("identity_int32", [tensor]))
        self.assertTrue(self.client.is_server_live())

    def test_refusals(self):
        """what cannot be registered or found is refused in Triton's words"""
        self.region("taken", 64)
        register = self.client.register_system_shared_memory
        self.refused("400", "shared memory region 'taken' already in manager", lambda: register("taken", "/x", 64))
        absent = "Unable to open shared memory region: '/galatea_absent'"
        self.refused("400", absent, lambda: register("absent", "/galatea_absent", 64))
        status = self.client.get_system_shared_memory_status
        self.refused("404", "Unable to find system shared memory region: 'absent'", lambda: status("absent"))
        tensor = http.InferInput("INPUT0", [1, 3], "INT32")
        tensor.set_shared_memory("absent", 12)
        unknown = "Unable to find shared memory region: 'absent'"
        self.refused("404", unknown, lambda: self.client.infer("identity_int32", [tensor]))

    def test_cuda(self):
        """CUDA shared memory answers, and says that there is no GPU"""
        self.assertEqual(self.client.get_cuda_shared_memory_status(), [])
        self.client.unregister_cuda_shared_memory()
        handle = "A" * 86 + "=="
        register = lambda: self.client.register_cuda_shared_memory("gpu", handle.encode(), 0, 64)
        text = "failed to register CUDA shared memory region 'gpu': this server has no GPU that CUDA can use. "
        text += "Use system shared memory, or start the server where nvidia-smi shows a GPU"
        self.refused("501", text, register)


if __name__ == "__main__":
    report.run()
