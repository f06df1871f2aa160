"""Tensors in memory of a GPU, on the driver of the tests, whose memory is that of the host."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy as np
import triton_python_backend_utils as pb_utils
from galatea_worker import device_tensor, dlpack, frames
from galatea_worker.codec import FrameWriter, read_tensor
from galatea_worker.device_memory import AlreadyMapped, DeviceMemory
from galatea_worker.device_tensor import DeviceTensor
from galatea_worker.tensor import Tensor

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "test", "fakes", "fake-cuda.c")


def read_back(tensor):
    writer = FrameWriter(1, 0, None, 1 << 30)
    writer.add_tensor(tensor, frames.NAMED)
    return read_tensor(bytearray(writer.finish(1)), 16, (), None)[0]


def frame_of(handle, offset, device_id, shape):
    """What the server writes for an input of 32-bit floats in CUDA shared memory."""
    size = 4 * int(np.prod(shape))
    record = frames.TENSOR_BY_RANK[len(shape)]
    head = record.pack(0, 11, len(shape), frames.DEVICE, 16 + record.size, size, *shape)
    return bytearray(bytes(16) + head + frames.DEVICE_REFERENCE.pack(handle, offset, device_id))


@unittest.skipIf(shutil.which("cc") is None, "there is no C compiler (cc) on this machine")
class WithFakeDriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "libfakecuda.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", cls.file, SOURCE], check=True)
        cls.driver = ctypes.CDLL(cls.file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.seconds = 0.0
        self.memory = DeviceMemory(self.file, linger_seconds=2, now=lambda: self.seconds)
        # Nothing is closed but by the test.
        self.memory._closer = object()
        patched = mock.patch.object(device_tensor, "device_memory", lambda: self.memory)
        patched.start()
        self.addCleanup(patched.stop)

    def region(self, array):
        address = ctypes.c_uint64()
        self.assertEqual(self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(array.nbytes)), 0)
        ctypes.memmove(address.value, array.ctypes.data, array.nbytes)
        handle = ctypes.create_string_buffer(64)
        self.driver.cuIpcGetMemHandle(handle, address)
        return handle.raw, address.value


class DeviceTensorTest(WithFakeDriver):
    def test_an_input_stays_where_the_client_left_it(self):
        array = np.arange(12, dtype=np.float32)
        handle, address = self.region(array)
        tensor, _ = read_tensor(frame_of(handle, 16, 0, (2, 4)), 16, ["X"], None)
        self.assertEqual((tensor.name(), tensor.shape(), tensor.is_cpu()), ("X", [2, 4], False))
        self.assertEqual(tensor.__dlpack_device__(), (2, 0))
        with self.assertRaisesRegex(pb_utils.TritonModelException, "stored in GPU and cannot be converted to NumPy"):
            tensor.as_numpy()
        capsule = tensor.to_dlpack()
        told = dlpack._tensor_of(capsule)
        self.assertEqual((told.data, told.device_type, told.code, told.bits), (address + 16, 2, 2, 32))
        self.assertEqual((told.shape[:2], told.strides[:2]), ([2, 4], [4, 1]))
        # As an input of a call to another model.
        np.testing.assert_array_equal(read_back(tensor).as_numpy(), array[4:].reshape(2, 4))

    def test_memory_is_closed_some_time_after_its_last_user(self):
        handle, _ = self.region(np.zeros(4, np.float32))
        opened = self.driver.fakeOpenHandles()
        first, _ = read_tensor(frame_of(handle, 0, 0, (4,)), 16, ["X"], None)
        second, _ = read_tensor(frame_of(handle, 8, 0, (1,)), 16, ["X"], None)
        capsule = first.to_dlpack()
        self.assertEqual(self.driver.fakeOpenHandles(), opened + 1)
        del first, second
        self.seconds = 10
        self.assertTrue(self.memory.close_unused(), "a capsule keeps the memory")
        del capsule
        self.seconds = 11
        self.assertTrue(self.memory.close_unused(), "the next request of the client needs no opening")
        self.seconds = 12
        self.assertFalse(self.memory.close_unused())
        self.assertEqual(self.driver.fakeOpenHandles(), opened)

    def test_memory_that_cannot_be_closed_keeps_no_other_open(self):
        handles = [self.region(np.zeros(4, np.float32))[0] for _ in range(2)]
        leases = [self.memory.lease(handle, 0, 0) for handle in handles]
        opened = self.driver.fakeOpenHandles()
        close = mock.Mock(side_effect=[pb_utils.TritonModelException("lost"), None])
        del leases
        self.seconds = 10
        with mock.patch.object(self.memory.driver, "close", close):
            self.assertFalse(self.memory.close_unused())
        self.assertEqual(close.call_count, 2)
        self.assertEqual(self.driver.fakeOpenHandles(), opened)
        self.assertIsNone(self.memory._closer)

    def test_a_new_region_at_the_address_of_an_old_one_closes_the_old_one_first(self):
        handles = [self.region(np.zeros(4, np.float32))[0] for _ in range(2)]
        opened = self.driver.fakeOpenHandles()
        open_handle = self.memory.driver.open

        def open_alone(device_id, handle):
            if self.driver.fakeOpenHandles() > opened:
                raise AlreadyMapped("cuIpcOpenMemHandle_v2 failed: resource already mapped (208)")
            return open_handle(device_id, handle)

        self.memory.driver.open = open_alone
        for handle in handles:
            # The tensor of the last round is gone, and its memory lingers.
            read_tensor(frame_of(handle, 0, 0, (4,)), 16, ["X"], None)
            self.assertEqual(self.driver.fakeOpenHandles(), opened + 1)
        kept, _ = read_tensor(frame_of(handles[1], 0, 0, (4,)), 16, ["X"], None)
        with self.assertRaisesRegex(pb_utils.TritonModelException, "already mapped"):
            read_tensor(frame_of(handles[0], 0, 0, (4,)), 16, ["X"], None)
        del kept

    def test_an_output_is_put_where_the_client_wants_it(self):
        array = np.arange(8, dtype=np.float32)
        source, address = self.region(array)
        target, place = self.region(np.zeros(16, np.float32))
        of_client, _ = read_tensor(frame_of(source, 0, 0, (2, 4)), 16, ["Y"], None)
        streams = []

        class OfModel:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, stream=None):
                streams.append(stream)
                return dlpack.export_address(address, 0, 11, (2, 4), None)

        contents = (ctypes.c_float * 16).from_address(place)
        for tensor in (of_client, Tensor.from_dlpack("Y", OfModel())):
            writer = FrameWriter(1, 0, None, 1 << 30)
            writer.add_tensor(tensor, 0, (32, target, 16, 0))
            fields = frames.TENSOR_BY_RANK[2].unpack_from(writer.finish(1), 16)
            self.assertEqual(fields, (0, 11, 2, frames.DEVICE, 0, 32, 2, 4))
            self.assertEqual(list(contents), [0] * 4 + list(range(8)) + [0] * 4)
            ctypes.memset(place, 0, 64)
        self.assertEqual(streams[-1], 1, "the copy waits for what the model computes")

    def test_an_output_that_cannot_be_put_there_goes_through_the_host(self):
        array = np.arange(4, dtype=np.float32)
        tensor, _ = read_tensor(frame_of(self.region(array)[0], 0, 0, (4,)), 16, ["Y"], None)
        target, _ = self.region(array)
        for why, place in (("too small", (15, target, 0, 0)), ("another GPU", (16, target, 0, 1)), ("not to be opened", (16, bytes(64), 0, 0))):
            with self.subTest(why):
                writer = FrameWriter(1, 0, None, 1 << 30)
                writer.add_tensor(tensor, frames.NAMED, place)
                back, _ = read_tensor(bytearray(writer.finish(1)), 16, (), None)
                np.testing.assert_array_equal(back.as_numpy(), array)
        host = FrameWriter(1, 0, None, 1 << 30)
        host.add_tensor(Tensor("Y", array), frames.NAMED, (16, target, 0, 0))
        np.testing.assert_array_equal(read_tensor(bytearray(host.finish(1)), 16, (), None)[0].as_numpy(), array)

    def test_what_a_consumer_took_is_given_back_by_its_deleter(self):
        tensor, _ = read_tensor(frame_of(self.region(np.zeros(4, np.float32))[0], 0, 0, (4,)), 16, ["X"], None)
        capsule = tensor.to_dlpack()
        count = len(dlpack._exported)
        managed = dlpack._DLManagedTensor.from_address(dlpack._pointer(capsule, b"dltensor"))
        ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        used = b"used_dltensor"
        ctypes.pythonapi.PyCapsule_SetName(capsule, used)
        deleter, place = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter), ctypes.addressof(managed)
        del capsule
        self.assertEqual(len(dlpack._exported), count)
        deleter(place)
        self.assertEqual(len(dlpack._exported), count - 1)

    def test_a_handle_that_does_not_open_says_so(self):
        with self.assertRaisesRegex(pb_utils.TritonModelException, "cuIpcOpenMemHandle_v2 failed"):
            read_tensor(frame_of(b"x" * 64, 0, 0, (1,)), 16, ["X"], None)
        with self.assertRaisesRegex(pb_utils.TritonModelException, "the CUDA driver cannot be loaded"):
            DeviceMemory("no-such-library.so")


class SourceTest(unittest.TestCase):
    def test_what_a_model_made_on_a_gpu_comes_to_the_host_when_it_is_sent(self):
        array = np.arange(4, dtype=np.float32)
        fetched = []

        class OfGpu:
            def cpu(self):
                fetched.append(self)
                return array

            def __dlpack_device__(self):
                return (2, 1)

            def __dlpack__(self, **_):
                return capsule()

        def capsule():
            made = Tensor("a", array.copy()).to_dlpack()
            dlpack._tensor_of(made).device_type = 2
            return made

        torch = types.SimpleNamespace()
        torch.utils = types.SimpleNamespace(dlpack=types.SimpleNamespace(from_dlpack=lambda _: OfGpu()))
        with mock.patch.dict(sys.modules, {"torch": torch}):
            tensors = [Tensor.from_dlpack("b", OfGpu()), Tensor.from_dlpack("b", capsule())]
        for tensor in tensors:
            self.assertIsInstance(tensor, DeviceTensor)
            pb_utils.InferenceResponse([tensor])
            pb_utils.InferenceRequest(model_name="m", requested_output_names=[], inputs=[tensor])
            self.assertEqual((tensor.is_cpu(), tensor.shape(), tensor.triton_dtype()), (False, [4], 11))
            self.assertEqual(tensor.__dlpack_device__(), (2, 1))
            capsule_again = tensor.to_dlpack()
            self.assertEqual(dlpack._tensor_of(capsule_again).device_type, 2)
            self.assertEqual(fetched, [])
            np.testing.assert_array_equal(read_back(tensor).as_numpy(), array)
            self.assertEqual(len(fetched), 1)
            fetched.clear()
        with mock.patch.dict(sys.modules, {"torch": None, "cupy": None}):
            with self.assertRaisesRegex(pb_utils.TritonModelException, "DLPack tensor is on a device of type 2"):
                Tensor.from_dlpack("b", capsule())


if __name__ == "__main__":
    unittest.main()
