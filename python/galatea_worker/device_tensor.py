"""Tensors in the memory of a GPU: inputs that a client has left there, and what a model has made with DLPack."""
import math

from .device_memory import device_memory
from .dlpack import address_of, consume, describe, export_address
from .errors import TritonModelException
from .tensor import BF16, DTYPES, Tensor

_TO_NUMPY = "Tensor is stored in GPU and cannot be converted to NumPy."


class DeviceTensor(Tensor):
    """The bytes come to the host only when the server asks for them, and no client wants them on the GPU."""

    __slots__ = ("_lease", "_source")

    @staticmethod
    def of_handle(tensor, handle, offset, device_id):
        """`tensor` has name, type, shape and size."""
        made = _bare(tensor._name, tensor._code, tensor._shape)
        made._size = tensor._size
        made._lease = device_memory().lease(handle, device_id, offset)
        return made

    @staticmethod
    def of_source(name, source):
        code, shape = describe(source)
        made = _bare(name, code, shape)
        made._source = source
        return made

    def is_cpu(self):
        return False

    def as_numpy(self):
        raise TritonModelException(_TO_NUMPY)

    def raw(self):
        if self._source is not None:
            array, is_bf16 = consume(self._source)
            return Tensor.from_raw(self._name, BF16 if is_bf16 else self._code, self._shape, array).raw()
        return memoryview(self._lease.fetch(self._size))

    def put(self, room, handle, offset, device_id):
        """Copies the bytes to where a client wants them, and says how many there are. None: they must go through the host, because
        they are too many, lie on another GPU, or the memory of the client does not open here."""
        size = math.prod(self._shape) * DTYPES[self._code].itemsize
        if size == 0 or size > room or self.__dlpack_device__()[1] != device_id:
            return None
        try:
            target = device_memory().lease(handle, device_id, offset)
        except TritonModelException:
            return None
        if self._source is None:
            target.put(self._lease.address, size)
        else:
            source, capsule = address_of(self._source)
            target.put(source, size)
            del capsule
        return size

    def to_dlpack(self):
        if self._source is not None:
            return self._source.__dlpack__()
        lease = self._lease
        return export_address(lease.address, lease.device_id, self._code, self._shape, self)

    def __dlpack_device__(self):
        if self._source is not None:
            return self._source.__dlpack_device__()
        return (2, self._lease.device_id)


def _bare(name, code, shape):
    tensor = DeviceTensor.__new__(DeviceTensor)
    tensor._name = name
    tensor._code = code
    tensor._shape = shape
    tensor._array = None
    tensor._data = None
    tensor._lease = None
    tensor._source = None
    return tensor
