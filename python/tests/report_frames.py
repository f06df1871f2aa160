"""For the test that compares both halves of the wire format: what the worker knows of it, as JSON on stdout.

Reads an EXECUTE frame (hexadecimal) from stdin and says what is in it. Writes an EXECUTED frame of its own.
"""
import json
import struct
import sys

import numpy as np

from galatea_worker import device_tensor, frames, metrics
from galatea_worker.codec import FrameWriter, write_response
from galatea_worker.context import context
from galatea_worker.errors import ErrorCode, TritonError
from galatea_worker.logger import LogLevel
from galatea_worker.response import InferenceResponse
from galatea_worker.runner import Runner
from galatea_worker.tensor import NAMES, Tensor


class NoChannel:
    handlers = None


class Placed(Tensor):
    """Copied to where the client wants it."""

    def is_cpu(self):
        return False

    def put(self, room, handle, offset, device_id):
        return self._array.nbytes


class NoDriver:
    def lease(self, handle, device_id, offset):
        return [handle.hex(), offset, device_id]


device_tensor.device_memory = NoDriver


def described(tensor):
    elements = tensor.as_numpy().tolist() if tensor.is_cpu() else tensor._lease
    if NAMES[tensor._code] == "BYTES":
        elements = [element.decode() for element in elements]
    return [tensor.name(), NAMES[tensor._code], list(tensor.shape()), elements]


def requests_of(frame):
    size, kind, count, id = frames.HEADER.unpack_from(frame, 0)
    assert size == len(frame)
    context.input_names = ["A", "B"]
    context.output_names = ["X", "Y"]
    return {
        "kind": kind,
        "id": id,
        "requests": [
            {
                "handle": request._handle,
                "correlationId": request._correlation_id,
                "timeout": request._timeout,
                "flags": request._flags,
                "id": request._request_id,
                "parameters": request._parameters,
                "requested": request._requested,
                "places": request._places and {name: [room, handle.hex(), *where] for name, (room, handle, *where) in request._places.items()},
                "trace": request._trace and request._trace.get_context(),
                "isCancelled": request._handle in context.cancelled,
                "inputs": [described(tensor) for tensor in request._inputs],
            }
            for request in Runner(NoChannel())._read_requests(count, frame)
        ],
    }


def executed():
    writer = FrameWriter(frames.EXECUTED, 7, None, 1 << 62)
    writer.add(frames.OFFSET.pack(12345))
    tensors = [Tensor("X", np.array([[1, 2, 3]], np.int16)), Tensor("named", np.array([1.5], np.float64))]
    write_response(writer, 9, InferenceResponse(tensors, parameters={"a": 1}), ["X", "named"], {"X": 0}, False)
    error = InferenceResponse(error=TritonError("no", TritonError.NOT_FOUND))
    write_response(writer, 10, error, ["X"], {"X": 0}, True)
    write_response(writer, 11, None, ["X"], {"X": 0}, True)
    placed = InferenceResponse([Placed("X", np.zeros(3, np.float32))])
    write_response(writer, 12, placed, ["X"], {"X": 0}, True, False, {"X": (64, bytes(64), 0, 0)})
    return writer.finish(4).hex()


def structs():
    found = {name: value for name, value in vars(frames).items() if isinstance(value, struct.Struct)}
    return {name: value.format for name, value in {**found, "TENSOR": frames.TENSOR_BY_RANK[0]}.items()}


json.dump(
    {
        "numbers": {name: value for name, value in vars(frames).items() if type(value) is int},
        "structs": structs(),
        "types": NAMES,
        "errors": [code.name for code in ErrorCode],
        "logLevels": [level.name.lower() for level in LogLevel],
        "metricOperations": {
            name[1:].lower(): getattr(metrics, name) for name in ("_INCREMENT", "_SET", "_OBSERVE", "_REMOVE")
        },
        "execute": requests_of(bytes.fromhex(sys.stdin.read())),
        "executed": executed(),
    },
    sys.stdout,
)
