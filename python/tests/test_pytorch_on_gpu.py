"""What the PyTorch backend does with tensors that clients have, or want, in memory of a GPU. The driver and torch's tensors are those of
this test, and lie in memory of the host."""
import contextlib
import ctypes
import importlib.util
import os
import sys
import types
import unittest

import numpy as np
import triton_python_backend_utils as pb_utils
from galatea_worker import dlpack, frames
from galatea_worker.codec import FrameWriter, read_tensor, write_response

from .test_device_tensor import WithFakeDriver, frame_of

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "backends", "pytorch")


class GpuTensor:
    """As much of torch.Tensor as the backend asks for, over memory of the test's driver."""

    is_cuda = True

    def __init__(self, array, owner=None):
        self.array = array
        self.owner = owner

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)
    ndim = property(lambda self: self.array.ndim)

    def __getitem__(self, rows):
        return GpuTensor(self.array[rows], self.owner)

    def copy_(self, other, non_blocking):
        self.array[:] = other.array if isinstance(other, GpuTensor) else other

    def to(self, device, non_blocking=False):
        return self

    def detach(self):
        return self

    contiguous = resolve_conj = resolve_neg = detach

    def cpu(self):
        return HostTensor(self.array.copy())

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, stream=None):
        return dlpack.export_address(self.array.ctypes.data, 0, 11, self.array.shape, self)


class HostTensor(GpuTensor):
    is_cuda = False

    def numpy(self):
        return self.array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def from_dlpack(capsule):
    told = dlpack._tensor_of(capsule)
    count = int(np.prod(told.shape[: told.ndim]))
    elements = (ctypes.c_float * count).from_address(told.data + told.byte_offset)
    return GpuTensor(np.frombuffer(elements, np.float32).reshape(told.shape[: told.ndim]), capsule)


FAKE_TORCH = types.SimpleNamespace(
    Tensor=GpuTensor,
    bfloat16="bfloat16",
    OutOfMemoryError=MemoryError,
    from_dlpack=from_dlpack,
    from_numpy=HostTensor,
    empty=lambda shape, dtype, device: GpuTensor(np.empty(shape, dtype)),
)


def load_backend():
    """Another backend has a file of the same name, so the module gets a name of its own."""
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    spec = importlib.util.spec_from_file_location("pytorch_backend", os.path.join(FOLDER, "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TritonPythonModel


class PyTorchOnGpuTest(WithFakeDriver):
    def setUp(self):
        super().setUp()
        self.seen = []
        model = self.model = load_backend()()
        model._torch = FAKE_TORCH
        model._device = types.SimpleNamespace(type="cuda")
        model._pinned = None
        model._cleans_cache = False
        model._guard = contextlib.nullcontext
        model._arguments = lambda inputs: ([inputs["X"]], {})
        model._outputs = lambda answer: {"Y": answer, "Z": answer}
        model._function = self.double
        model.source = types.SimpleNamespace(is_batching=True, name="m")
        model.logger = types.SimpleNamespace(log_warn=self.fail)
        model.scalar_inputs = ()

    def tearDown(self):
        # A capsule that lives as long as the interpreter has no destructor to call at its end.
        self.model = None
        self.seen.clear()
        super().tearDown()

    def double(self, x):
        self.seen.append(x)
        return GpuTensor(2 * x.array)

    def request(self, tensor, places=None):
        request = pb_utils.InferenceRequest(model_name="m", requested_output_names=["Y", "Z"], inputs=[tensor])
        request._places = places
        return request

    def on_gpu(self, array):
        handle, address = self.region(array)
        return read_tensor(frame_of(handle, 0, 0, array.shape), 16, ["X"], None)[0], address

    def outputs_of(self, response, request):
        """What the server gets: (storage, array) by name; the array of what the client already has is None."""
        self.assertIsNone(response._error, response._error and response._error.message())
        writer = FrameWriter(frames.EXECUTED, 0, None, 1 << 30)
        write_response(writer, 0, response, request._requested, {"Y": 0, "Z": 1}, True, places=request._places)
        frame, at, found = bytearray(writer.finish(1)), 16 + frames.RESPONSE_HEAD.size, {}
        for name in ("Y", "Z"):
            fields = frames.TENSOR_BY_RANK[2].unpack_from(frame, at)
            if fields[3] == frames.DEVICE:
                found[name] = None
                at += frames.TENSOR_BY_RANK[2].size
            else:
                tensor, at = read_tensor(frame, at, ["Y", "Z"], None)
                found[name] = tensor.as_numpy()
        return found

    def test_a_request_alone_is_computed_where_its_client_left_it_and_answered_where_the_client_wants_it(self):
        array = np.arange(8, dtype=np.float32).reshape(2, 4)
        tensor, address = self.on_gpu(array)
        target, place = self.region(np.zeros(8, np.float32))
        request = self.request(tensor, {"Y": (32, target, 0, 0)})
        found = self.outputs_of(self.model.execute([request])[0], request)
        self.assertEqual(self.seen[0].array.ctypes.data, address, "the input was copied")
        self.assertIsNone(found["Y"], "the output came through the host")
        np.testing.assert_array_equal(found["Z"], 2 * array)
        np.testing.assert_array_equal((ctypes.c_float * 8).from_address(place), 2 * array.ravel())

    def test_requests_of_a_batch_come_from_either_memory_and_go_to_either(self):
        arrays = [np.arange(4 * n, dtype=np.float32).reshape(n, 4) + n for n in (1, 2, 3)]
        target, place = self.region(np.zeros(16, np.float32))
        requests = [
            self.request(pb_utils.Tensor("X", arrays[0])),
            self.request(self.on_gpu(arrays[1])[0], {"Y": (32, target, 16, 0)}),
            self.request(self.on_gpu(arrays[2])[0]),
        ]
        responses = self.model.execute(requests)
        self.assertEqual(len(self.seen), 1, "the requests ran one by one")
        for array, response, request in zip(arrays, responses, requests):
            found = self.outputs_of(response, request)
            self.assertEqual(found["Y"] is None, request._places is not None)
            for name in ("Y", "Z"):
                if found[name] is not None:
                    np.testing.assert_array_equal(found[name], 2 * array)
        expected = [0] * 4 + list(2 * arrays[1].ravel()) + [0] * 4
        self.assertEqual(list((ctypes.c_float * 16).from_address(place)), expected)


if __name__ == "__main__":
    unittest.main()
