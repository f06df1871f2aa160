"""Requests out of frames, responses into frames."""
import json

from . import frames
from .errors import ErrorCode
from .frames import DEVICE, DEVICE_REFERENCE, EXECUTED_HEAD, HEADER, INLINE, NAMED, NAME_LENGTH, OUTPUT_PLACE, PADDING, RESPONSE_HEAD, SHARED
from .frames import TENSOR_BY_RANK, pad8
from .tensor import BYTES, Tensor

_new_tensor = Tensor.__new__


def read_tensor(frame, offset, names, inputs):
    """One tensor record: the Tensor and where the next record starts. `inputs` is the region for shared ones."""
    rank = frame[offset + 3]
    record = TENSOR_BY_RANK[rank]
    fields = record.unpack_from(frame, offset)
    offset += record.size
    tensor = _new_tensor(Tensor)
    index = fields[0]
    if index == NAMED:
        length = NAME_LENGTH.unpack_from(frame, offset)[0]
        offset += 8
        tensor._name = frame[offset : offset + length].decode()
        offset += length + (-length & 7)
    else:
        tensor._name = names[index]
    tensor._array = None
    tensor._code = fields[1]
    tensor._shape = fields[6:]
    tensor._size = fields[5]
    if fields[3] == INLINE:
        tensor._data = frame
        tensor._offset = fields[4]
    elif fields[3] == DEVICE:
        from .device_tensor import DeviceTensor

        tensor = DeviceTensor.of_handle(tensor, *DEVICE_REFERENCE.unpack_from(frame, fields[4]))
    else:
        tensor._data = inputs.view(fields[4], fields[5])
        tensor._offset = 0
    return tensor, offset


def read_places(frame, offset, names):
    """Where the client of a request wants outputs on a GPU, by their names; and where the next request starts."""
    count = NAME_LENGTH.unpack_from(frame, offset)[0]
    offset += 8
    places = {}
    for _ in range(count):
        index, *place = OUTPUT_PLACE.unpack_from(frame, offset)
        places[names[index]] = tuple(place)
        offset += OUTPUT_PLACE.size
    return places, offset


class FrameWriter:
    """Collects the parts of one frame; inline tensor bytes come last, each at a multiple of 16."""

    __slots__ = ("_kind", "_id", "_outputs", "_inline_limit", "_parts", "_inline", "_stored", "_size", "stored_bytes")

    def __init__(self, kind, id, outputs, inline_limit):
        self._kind = kind
        self._id = id
        self._outputs = outputs
        self._inline_limit = inline_limit
        self._parts = [b""]
        self._inline = []
        self._stored = []
        self._size = 16
        self.stored_bytes = 0

    def add(self, part):
        self._parts.append(part)
        self._size += len(part)

    def add_text(self, text):
        self.add(text)
        self.add(pad8(len(text)))

    def add_tensor(self, tensor, index, place=None):
        """`place`: a tensor on a GPU is copied there, and the frame does not hold it."""
        array = tensor._array
        code = tensor._code
        shape = tensor._shape
        rank = len(shape)
        parts = self._parts
        placed = None if place is None or tensor.is_cpu() else tensor.put(*place)
        if placed is None and (array is None or code == BYTES):
            array = tensor.raw()
        size = array.nbytes if placed is None else placed
        if placed is not None:
            parts.append(TENSOR_BY_RANK[rank].pack(index, code, rank, DEVICE, 0, size, *shape))
        elif size > self._inline_limit and self._outputs is not None:
            offset = self._outputs.store(tensor.raw() if array is tensor._array else array)
            self._stored.append(offset)
            self.stored_bytes += size
            parts.append(TENSOR_BY_RANK[rank].pack(index, code, rank, SHARED, offset, size, *shape))
        else:
            # Where the bytes will lie is known once all records are written.
            self._inline.append((len(parts), rank, index, code, shape, array, size))
            parts.append(b"")
        self._size += 24 + 8 * rank
        if index == NAMED:
            name = tensor._name.encode()
            self.add(NAME_LENGTH.pack(len(name)))
            self.add_text(name)

    def discard(self):
        """Gives back what was stored for a frame that will not be sent."""
        for offset in self._stored:
            self._outputs.free(offset)

    def finish(self, count):
        parts = self._parts
        size = self._size
        for place, rank, index, code, shape, data, length in self._inline:
            gap = -size & 15
            if gap:
                parts.append(PADDING[gap])
                size += gap
            parts[place] = TENSOR_BY_RANK[rank].pack(index, code, rank, INLINE, size, length, *shape)
            parts.append(data)
            size += length
        gap = -size & 15
        if gap:
            parts.append(PADDING[gap])
            size += gap
        parts[0] = HEADER.pack(size, self._kind, count, self._id)
        return b"".join(parts)


def executed_frame(batch_id, execution_ns, handle, response, requested, output_index, inline_limit):
    """HOT: the EXECUTED frame of one request, answered with small tensors and nothing else; None for any other."""
    if response._error is not None or response._parameters:
        return None
    records = []
    size = 40
    for tensor in response._output_tensors:
        array = tensor._array
        code = tensor._code
        index = output_index.get(tensor._name)
        if code == BYTES and array is None:
            array = tensor.raw()
        elif array is None or code == BYTES:
            return None
        if index is None or array.nbytes > inline_limit:
            return None
        if tensor._name in requested:
            shape = tensor._shape
            records.append((array, index, code, shape))
            size += 24 + 8 * len(shape)
    parts = [None]
    data = []
    for array, index, code, shape in records:
        gap = -size & 15
        if gap:
            data.append(PADDING[gap])
            size += gap
        rank = len(shape)
        length = array.nbytes
        parts.append(TENSOR_BY_RANK[rank].pack(index, code, rank, INLINE, size, length, *shape))
        data.append(array)
        size += length
    gap = -size & 15
    if gap:
        data.append(PADDING[gap])
        size += gap
    parts[0] = EXECUTED_HEAD.pack(
        size, frames.EXECUTED, 1, batch_id, execution_ns, handle, len(records), frames.RESPONSE_FINAL, 0, 0
    )
    parts += data
    return b"".join(parts)


def _unknown_output(tensors, output_index):
    for tensor in tensors:
        if tensor._name not in output_index:
            names = ", ".join("'%s'" % name for name in output_index)
            return "output '%s' of the model is not in its configuration, which has %s" % (tensor._name, names or "none")
    return None


def write_response(writer, handle, response, requested, output_index, is_final, refuses_unknown=False, places=None):
    """Adds one response record; tensors nobody asked for are left out. Those that no configuration names are an error."""
    flags = frames.RESPONSE_FINAL if is_final else 0
    if response is None:
        writer.add(RESPONSE_HEAD.pack(handle, 0, flags | frames.RESPONSE_FLAG_ONLY, 0, 0))
        return
    error = response._error
    if error is not None:
        text = error._message.encode("utf-8", "replace")
        writer.add(RESPONSE_HEAD.pack(handle, 0, flags | frames.RESPONSE_ERROR, error._code, len(text)))
        writer.add_text(text)
        return
    tensors = response._output_tensors
    if requested is not None:
        wanted = [tensor for tensor in tensors if tensor._name in requested]
        if refuses_unknown and len(wanted) != len(tensors):
            unknown = _unknown_output(tensors, output_index)
            if unknown is not None:
                text = unknown.encode("utf-8", "replace")
                writer.add(RESPONSE_HEAD.pack(handle, 0, flags | frames.RESPONSE_ERROR, ErrorCode.INTERNAL, len(text)))
                writer.add_text(text)
                return
        tensors = wanted
    text = b""
    if response._parameters:
        text = json.dumps(response._parameters).encode()
        flags |= frames.RESPONSE_PARAMETERS
    writer.add(RESPONSE_HEAD.pack(handle, len(tensors), flags, 0, len(text)))
    for tensor in tensors:
        writer.add_tensor(tensor, output_index.get(tensor._name, NAMED), places and places.get(tensor._name))
    if text:
        writer.add_text(text)


