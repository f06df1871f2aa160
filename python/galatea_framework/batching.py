"""Requests → one array per input, and arrays → one response per request. A request that is alone is never copied."""
import numpy as np

import triton_python_backend_utils as pb_utils

from .source import ModelError

BF16_CODE = 14
# numpy has no bfloat16. Its bits travel as this type, which no code can use as a number by mistake.
BF16 = np.dtype([("bfloat16", "<u2")])


def array_of(tensor):
    if tensor.triton_dtype() != BF16_CODE:
        return tensor.as_numpy()
    return np.frombuffer(tensor.raw(), dtype=BF16).reshape(tensor.shape())


def tensor_of(name, array):
    if not isinstance(array, np.ndarray):
        # It lies on a GPU.
        return pb_utils.Tensor.from_dlpack(name, array)
    if array.dtype == BF16 or array.dtype.name == "bfloat16":
        bits = np.ascontiguousarray(array).view(np.uint16)
        return pb_utils.Tensor.from_raw(name, BF16_CODE, bits.shape, bits)
    return pb_utils.Tensor(name, array)


def gather(requests, read, join):
    """Reads each input with `read`, and joins those of one name with `join`; returns them by name, and the number of rows of each request."""
    parts = [{tensor.name(): read(tensor) for tensor in request.inputs()} for request in requests]
    names = list(parts[0])
    if any(list(part) != names for part in parts):
        raise ValueError("the requests have different inputs")
    rows = [part[names[0]].shape[0] if names else 1 for part in parts]
    return {name: join([part[name] for part in parts]) for name in names}, rows


def scatter(outputs, rows, requests):
    total = sum(rows)
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != total:
            raise ModelError(
                "output '%s' has shape %s for a batch of %d rows: its first dimension is not the batch. Set "
                "max_batch_size: 0 for this model" % (name, list(array.shape), total)
            )
    responses = []
    start = 0
    for request, count in zip(requests, rows):
        part = {name: array[start : start + count] for name, array in outputs.items()}
        responses.append(response(part, request))
        start += count
    return responses


def response(outputs, request):
    wanted = request.requested_output_names()
    # A scalar is one element on the wire.
    tensors = [
        tensor_of(name, array if array.ndim else array.reshape(1)) for name, array in outputs.items() if name in wanted
    ]
    return pb_utils.InferenceResponse(tensors)
