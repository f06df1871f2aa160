"""What the checks of both clients share: values of every data type, and requests of the models they ask."""

import ml_dtypes
import numpy as np

# For each data type the values that go wrong first: ends of the range, signs, what no other type can hold.
VALUES = {
    "BOOL": np.array([[True, False, True]], np.bool_),
    "UINT8": np.array([[0, 1, 255]], np.uint8),
    "UINT16": np.array([[0, 1, 65535]], np.uint16),
    "UINT32": np.array([[0, 1, 2**32 - 1]], np.uint32),
    "UINT64": np.array([[0, 2**53 + 1, 2**64 - 1]], np.uint64),
    "INT8": np.array([[-128, -1, 127]], np.int8),
    "INT16": np.array([[-32768, -1, 32767]], np.int16),
    "INT32": np.array([[-(2**31), -1, 2**31 - 1]], np.int32),
    "INT64": np.array([[-(2**63), -(2**53) - 1, 2**63 - 1]], np.int64),
    "FP16": np.array([[-0.0, 65504.0, 6e-8]], np.float16),
    "FP32": np.array([[-0.0, 0.1, 3.4028235e38, 1e-45]], np.float32),
    "FP64": np.array([[-0.0, 0.1, 1.7976931348623157e308, 5e-324]], np.float64),
    "BF16": np.array([[-0.0, 0.1, 3.3e38]], ml_dtypes.bfloat16),
    "BYTES": np.array([["", "plain", "größer, 数字 \"\\\n"]], np.object_),
}

# Types that JSON cannot carry.
BINARY_ONLY = ("FP16", "BF16")


def identity(data_type):
    return f"identity_{data_type.lower()}"


def as_bytes(array):
    """BYTES come back as bytes from binary data and as text from JSON: the same characters either way."""
    flat = [item if isinstance(item, bytes) else str(item).encode() for item in array.flatten()]
    return np.array(flat, np.object_).reshape(array.shape)


def assert_same(sent, received):
    """Equal in shape, type and every bit; text as its bytes."""
    assert received is not None, "the output is missing"
    if sent.dtype == np.object_:
        sent, received = as_bytes(sent), as_bytes(received)
        assert sent.tolist() == received.tolist() and sent.shape == received.shape, f"{received!r} is not {sent!r}"
        return
    assert sent.dtype == received.dtype, f"{received.dtype} is not {sent.dtype}"
    assert sent.shape == received.shape, f"{received.shape} is not {sent.shape}"
    assert sent.tobytes() == received.tobytes(), f"{received!r} is not {sent!r}"


def simple_inputs(client, binary=True, rows=1):
    first = np.arange(16 * rows, dtype=np.int32).reshape(rows, 16)
    second = np.full((rows, 16), 3, np.int32)
    inputs = []
    for name, array in (("INPUT0", first), ("INPUT1", second)):
        tensor = client.InferInput(name, list(array.shape), "INT32")
        inputs.append(tensor.set_data_from_numpy(array, binary_data=binary))
    return inputs, first + second, first - second


def input_of(client, name, data_type, array, binary=True):
    return client.InferInput(name, list(array.shape), data_type).set_data_from_numpy(array, binary_data=binary)
