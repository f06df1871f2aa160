"""Tensor, its types, and the bytes of string tensors."""
import struct

import numpy as np

from .arguments import text_argument, text_of
from .errors import TritonModelException

# Codes are Triton's TRITONSERVER_datatype_enum; BF16 has no numpy type and is kept as its raw 16 bits.
BYTES = 13
BF16 = 14
_NUMPY = [
    None,
    np.bool_,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
    np.object_,
    np.uint16,
]
DTYPES = [None if kind is None else np.dtype(kind) for kind in _NUMPY]
_CODES = {dtype: code for code, dtype in enumerate(DTYPES[:BF16]) if dtype is not None}
NAMES = "INVALID BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BYTES BF16".split()

_length = struct.Struct("<I")
_pack_length = _length.pack
_unpack_length = _length.unpack_from


def code_of(dtype):
    code = _CODES.get(dtype)
    if code is not None:
        return code
    if dtype.kind == "S":
        return BYTES
    return _CODES.get(dtype.newbyteorder("=")) if dtype.kind in "uif" else None


def decode_bytes(data, count=None):
    """Elements of a framed string tensor, as a list of bytes."""
    return _split(bytes(data), count)


def _split(data, count):
    elements = []
    append = elements.append
    offset, end = 0, len(data)
    while offset < end:
        if offset + 4 > end:
            raise TritonModelException("string tensor is cut off inside an element's length")
        start = offset + 4
        offset = start + _unpack_length(data, offset)[0]
        if offset > end:
            raise TritonModelException("string tensor is cut off inside an element")
        append(data[start:offset])
    if count is not None and len(elements) != count:
        raise TritonModelException("string tensor has %d elements, its shape says %d" % (len(elements), count))
    return elements


def encode_bytes(array):
    """Elements of an object or bytes array, each behind four bytes of length."""
    parts = []
    append = parts.append
    for item in array.ravel(order="C").tolist():
        if type(item) is not bytes:
            item = str(item).encode("utf-8")
        append(_pack_length(len(item)))
        append(item)
    return b"".join(parts)


class Tensor:
    """A named array. Inputs are views on the memory that the server wrote; nothing is copied until asked for."""

    __slots__ = ("_name", "_array", "_code", "_shape", "_data", "_offset", "_size", "__weakref__")

    def __init__(self, name, array):
        given = name
        if type(name) is not str:
            name = text_of(name)
        if name is None or not isinstance(array, np.ndarray):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    1. c_python_backend_utils.Tensor(arg0: str, arg1: numpy.ndarray)\n\n"
                "Invoked with: %r, %r" % (given, array)
            )
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        dtype = array.dtype
        code = _CODES.get(dtype)
        if code is None:
            code = code_of(dtype)
            if code is None:
                raise TritonModelException("NumPy dtype is not supported.")
            if code != BYTES:
                array = array.astype(DTYPES[code])
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        self._name = name
        self._array = array
        self._code = code
        self._shape = array.shape
        self._data = None

    def name(self):
        return self._name

    def shape(self):
        return list(self._shape)

    def triton_dtype(self):
        return self._code

    def is_cpu(self):
        return True

    def as_numpy(self):
        array = self._array
        if array is not None and self._code != BF16:
            return array
        code = self._code
        if code == BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        return self._decode(code)

    def _decode(self, code):
        if code == BYTES:
            array = np.empty(self._shape, dtype=np.object_)
            elements = decode_bytes(self._bytes(), array.size)
            # Assigning a list would look into its elements; a flat iterator takes them as they are.
            flat = array.reshape(-1)
            for i, element in enumerate(elements):
                flat[i] = element
        else:
            array = np.ndarray(self._shape, DTYPES[code], self._data, self._offset)
        self._array = array
        self._data = None
        return array

    def elements(self):
        """The elements of a string tensor of a request, as views on what the server wrote."""
        return _split(self._bytes(), None)

    def _bytes(self):
        return memoryview(self._data)[self._offset : self._offset + self._size]

    def raw(self):
        """The elements as they travel: a flat buffer of bytes."""
        if self._data is not None:
            return self._bytes()
        array = self._array
        if self._code == BYTES:
            return memoryview(encode_bytes(array))
        # A view as bytes, because the buffer protocol knows no float16 for some consumers and no 0-d slices.
        return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")

    @staticmethod
    def from_raw(name, code, shape, array):
        tensor = Tensor.__new__(Tensor)
        tensor._name = name
        tensor._code = code
        tensor._shape = shape
        tensor._array = array
        tensor._data = None
        return tensor

    @staticmethod
    def from_elements(name, shape, elements):
        """A string tensor without an array. Only the server reads it."""
        data = b"".join([part for element in elements for part in (_pack_length(len(element)), element)])
        tensor = Tensor.from_raw(name, BYTES, shape, None)
        tensor._data = data
        tensor._offset = 0
        tensor._size = len(data)
        return tensor

    def _dlpack_array(self):
        if self._code == BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        if self._array is not None:
            return self._array
        return self._decode(self._code)

    def to_dlpack(self):
        from .dlpack import export

        return export(self._dlpack_array(), self._code == BF16, self)

    def __dlpack__(self, *, stream=None, **_):
        return self.to_dlpack()

    def __dlpack_device__(self):
        return (1, 0)

    @staticmethod
    def from_dlpack(name, tensor):
        from .dlpack import consume, on_device

        name = text_argument("from_dlpack", "name", name)
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        source = on_device(tensor)
        if source is not None:
            from .device_tensor import DeviceTensor

            return DeviceTensor.of_source(name, source)
        array, is_bf16 = consume(tensor)
        if is_bf16:
            return Tensor.from_raw(name, BF16, array.shape, array)
        return LentTensor(name, array)

    def __repr__(self):
        return "<Tensor %r %s %s>" % (self._name, NAMES[self._code], list(self._shape))


class LentTensor(Tensor):
    """A tensor in the memory of another library, which may not be written to."""

    __slots__ = ("_copy",)

    def __init__(self, name, array):
        super().__init__(name, array)
        self._copy = None

    def as_numpy(self):
        """A copy, as in Triton: the model may write to it, and the tensor stays as it is."""
        if self._copy is None:
            self._copy = self._array.copy()
        return self._copy
