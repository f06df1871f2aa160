"""DLPack through numpy's own support; only bfloat16, which numpy does not know, is relabelled on the way."""
import ctypes
import sys

import numpy as np

from .errors import TritonModelException
from .tensor import BF16, DTYPES

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_CPU, _CUDA, _CUDA_HOST = 1, 2, 3
_NAME = b"dltensor"


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def _tensor_of(capsule):
    return _DLTensor.from_address(_pointer(capsule, _NAME))


class _Exporter:
    """An object around a bare capsule, because numpy takes only objects."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (_CPU, 0)


class _Lent(np.ndarray):
    """An array that keeps its tensor. numpy's capsule keeps the array until the consumer is done with the memory."""

    owner = None


def export(array, is_bf16, owner):
    # numpy does not export a read-only array.
    lent = (array if array.flags.writeable else array.copy()).view(_Lent)
    lent.owner = owner
    capsule = lent.__dlpack__()
    if is_bf16:
        _tensor_of(capsule).code = _BFLOAT
    return capsule


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# The destructor of a capsule gets an object that must not be counted as used any more, so as an address.
_is_unused = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_exported = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address):
    _exported.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule):
    if _is_unused(capsule, _NAME):
        _exported.pop(_address_in(capsule, _NAME), None)


def _kind_of(code):
    """Of Triton's types; bits, and the number by which DLPack knows the kind."""
    if code == BF16:
        return _BFLOAT, 16
    dtype = DTYPES[code]
    return {"b": _BOOL, "i": _INT, "u": _UINT, "f": _FLOAT}[dtype.kind], 8 * dtype.itemsize


_CODES = {_kind_of(code): code for code in (*range(1, 13), BF16)}


def export_address(address, device_id, code, shape, owner):
    """A capsule for memory of a GPU. `owner` is kept until the consumer is done with the memory."""
    rank = len(shape)
    numbers = (ctypes.c_int64 * (2 * rank))(*shape, *([1] * rank))
    for i in range(rank - 2, -1, -1):
        numbers[rank + i] = numbers[rank + i + 1] * shape[i + 1]
    managed = _DLManagedTensor()
    tensor = managed.tensor
    tensor.data = address
    tensor.device_type, tensor.device_id, tensor.ndim = _CUDA, device_id, rank
    tensor.code, tensor.bits = _kind_of(code)
    tensor.lanes = 1
    tensor.shape = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(ctypes.byref(numbers, 8 * rank), ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
    place = ctypes.addressof(managed)
    _exported[place] = (managed, numbers, owner)
    return _new_capsule(place, _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


def on_device(source):
    """An object of the memory of a GPU that can be asked for DLPack again and again; None for anything else."""
    if _is_valid(source, _NAME):
        if _tensor_of(source).device_type != _CUDA:
            return None
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if torch is not None:
            return torch.utils.dlpack.from_dlpack(source)
        return None if cupy is None else cupy.from_dlpack(source)
    if not hasattr(source, "__dlpack_device__") or source.__dlpack_device__()[0] != _CUDA:
        return None
    return source


def describe(source):
    """Triton's type and the shape of what lies on a GPU."""
    # The capsule owns what is read here.
    capsule = source.__dlpack__()
    tensor = _tensor_of(capsule)
    _check_contiguous(tensor)
    code = _CODES.get((tensor.code, tensor.bits))
    if code is None or tensor.lanes != 1:
        raise TritonModelException("DLPack dtype is not supported: code %d, %d bits, %d lanes" % (tensor.code, tensor.bits, tensor.lanes))
    return code, tuple(tensor.shape[: tensor.ndim])


def address_of(source):
    """Where the elements lie, and the capsule that keeps them there. The legacy stream comes behind the stream that computes them."""
    capsule = source.__dlpack__(stream=1)
    tensor = _tensor_of(capsule)
    return tensor.data + tensor.byte_offset, capsule


def consume(source):
    """The array behind a capsule or an object with __dlpack__, and whether it is bfloat16 (raw 16 bits then)."""
    if not _is_valid(source, _NAME):
        if not hasattr(source, "__dlpack__"):
            raise TritonModelException(
                "Provided tensor is not supported. Tensor must be a DLPack capsule         or have `__dlpack__` and "
                "`__dlpack_device__` attributes"
            )
        # The server takes tensors from main memory; what lies on a device is fetched by its own library.
        if source.__dlpack_device__()[0] not in (_CPU, _CUDA_HOST):
            source = _to_host(source)
        source = source.__dlpack__()
    tensor = _tensor_of(source)
    if tensor.device_type not in (_CPU, _CUDA_HOST):
        fetched = _fetch(source)
        if fetched is not None:
            source = fetched.__dlpack__()
            tensor = _tensor_of(source)
    if tensor.device_type not in (_CPU, _CUDA_HOST):
        raise TritonModelException(
            "DLPack tensor is on a device of type %d; copy it to main memory first (for example with .cpu())."
            % tensor.device_type
        )
    _check_contiguous(tensor)
    is_bf16 = tensor.code == _BFLOAT and tensor.bits == 16
    if is_bf16:
        tensor.code = _UINT
    tensor.device_type = _CPU
    return np.from_dlpack(_Exporter(source)), is_bf16


def _to_host(array):
    for name in ("cpu", "get"):
        if hasattr(array, name):
            return getattr(array, name)()
    return array


def _fetch(capsule):
    """What a bare capsule holds of a device, in main memory: by a library that the model uses, or None."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.utils.dlpack.from_dlpack(capsule).cpu()
    cupy = sys.modules.get("cupy")
    return None if cupy is None else cupy.fromDlpack(capsule).get()


def _check_contiguous(tensor):
    # Memory without elements has no order, and libraries give it any strides.
    if not tensor.strides or 0 in tensor.shape[: tensor.ndim]:
        return
    expected = 1
    for i in range(tensor.ndim - 1, -1, -1):
        if tensor.shape[i] != 1 and tensor.strides[i] != expected:
            raise TritonModelException(
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                "supported."
            )
        expected *= tensor.shape[i]
