"""The module that a model.py imports as pb_utils: Triton's names, implemented by galatea_worker."""
import struct as _struct

import numpy as np

from c_python_backend_utils import (
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    InferenceTrace,
    Logger,
    Metric,
    MetricFamily,
    PreferredMemory,
    ResponseIterator,
    Tensor,
    TritonError,
    TritonModelException,
    is_model_ready,
    load_model,
    unload_model,
)
from galatea_worker.context import context as _context
from galatea_worker.model_config import ModelConfig
from galatea_worker.tensor import BF16, DTYPES, decode_bytes, encode_bytes

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

# By Triton's codes, without BF16, which numpy does not know.
_TYPES = [dtype.type for dtype in DTYPES[1:BF16]]


def serialize_byte_tensor(input_tensor):
    """Elements of an object or bytes array, each behind four bytes of length; () without elements, None for anything else."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype == np.object_ or input_tensor.dtype.type == np.bytes_:
        return encode_bytes(input_tensor)
    return None


def deserialize_bytes_tensor(encoded_tensor):
    """A one-dimensional object array of the elements of a framed string tensor."""
    try:
        elements = decode_bytes(encoded_tensor)
    except TritonModelException as error:
        raise _struct.error(str(error)) from None
    array = np.empty(len(elements), dtype=np.object_)
    for i, element in enumerate(elements):
        array[i] = element
    return array


def get_input_tensor_by_name(inference_request, name):
    for tensor in inference_request._inputs:
        if tensor._name == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response, name):
    for tensor in inference_response._output_tensors:
        if tensor._name == name:
            return tensor
    return None


def get_input_config_by_name(model_config, name):
    return _named(model_config.get("input", ()), name)


def get_output_config_by_name(model_config, name):
    return _named(model_config.get("output", ()), name)


def _named(entries, name):
    for entry in entries:
        if entry["name"] == name:
            return entry
    return None


def using_decoupled_model_transaction_policy(model_config):
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_to_numpy_type(data_type):
    return _TYPES[data_type - 1] if 1 <= data_type <= len(_TYPES) else None


def numpy_to_triton_type(data_type):
    if data_type == np.bytes_:
        return 13
    for code, known in enumerate(_TYPES, 1):
        if data_type == known:
            return code
    return None


def triton_string_to_numpy(triton_type_string):
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def get_model_dir():
    """The directory of the model's version: where its own files are, also when a shared model.py serves it."""
    return _context.model_dir
