"""The wire format between the server and this worker. The other half is src/backends/worker-process/frames.ts.

test/e2e/python-frames.test.ts compares both.

A frame is a 16-byte header (size, kind, count, id) and a body, padded to a multiple of 16 bytes, all little-endian.
Tensor bytes that travel inside a frame start at a multiple of 16, so arrays made on them are aligned.
"""
import struct

HEADER = struct.Struct("<IHHQ")  # frame bytes with header and padding, kind, count, id

# Server -> worker
EXECUTE = 1  # id: batch; count: requests
CANCEL = 2  # id: request
FREE_OUTPUTS = 3  # count offsets of the output region that the server is done with
BLS_RESPONSE = 4  # id: call
REPLY = 5  # id: call; JSON
COMPLETE_CONFIG = 6  # JSON
INITIALIZE = 7  # JSON
FINALIZE = 8
TRIM = 9  # idle for a while: give surplus memory back
PING = 11  # to be answered with PONG
TAKEN = 10  # id: request; count: responses of a decoupled model that its reader has taken

# Worker -> server
HELLO = 32  # JSON
CONFIG_COMPLETED = 33  # JSON
INITIALIZED = 34
START_FAILED = 35  # JSON
EXECUTED = 36  # id: batch; count: responses, behind the time that the execution took in ns (8 bytes)
EXECUTE_FAILED = 37  # id: batch; text
RESPONSE = 38  # one response outside of EXECUTED
FREE_INPUTS = 39  # count offsets of the input region that nobody here looks at any more
BLS_REQUEST = 40  # id: call; count: inputs
BLS_CANCEL = 41  # id: call
CALL = 42  # id: call; JSON, perhaps with tensors (files of load_model)
METRIC = 43  # id: metric; no reply
LOG = 44
READINESS = 45  # id: 1 when is_ready() says so
SKIPPED = 46  # id: batch; not executed, because every request of it was cancelled before
PONG = 48
RESCHEDULE = 47  # id: request; the model wants it again, in a later batch
TIMED = 49  # the times of one request; sent by hosts of native backends only, as the next one
ACTIVITY = 50  # id: request; a time and a name for its trace

# A request in EXECUTE: handle, correlation id, timeout in µs, flags, bytes of id, bytes of a textual correlation id,
# inputs, requested outputs, bytes of the parameters' JSON. Its tensors follow, then the texts, then padding to 8, then OUTPUT_PLACEs.
REQUEST = struct.Struct("<QQQIHHHHI")
REQUEST_SEQUENCE_START = 1
REQUEST_SEQUENCE_END = 2
REQUEST_TEXT_CORRELATION = 4
REQUEST_ALL_OUTPUTS = 8
REQUEST_IS_CANCELLED = 16
REQUEST_TRACED = 32
REQUEST_PLACED = 64

# A response: handle, outputs, flags, error code, bytes of text (error message, or parameters as JSON).
RESPONSE_HEAD = struct.Struct("<QHBBI")
# The header, the execution time and the head of a response in one.
EXECUTED_HEAD = struct.Struct("<IHHQQQHBBI")
RESPONSE_FINAL = 1
RESPONSE_ERROR = 2
RESPONSE_PARAMETERS = 4
RESPONSE_FLAG_ONLY = 8

# A tensor: name (index into the model's table, or NAMED and a text), type, rank, place, offset, bytes; then the dims.
TENSOR_HEAD = "<HBBIQQ"
NAMED = 0xFFFF
INLINE = 0
SHARED = 1
DEVICE = 2  # the frame holds where: the handle of the memory, the offset from what the handle opens, the GPU; an output: in its place
DEVICE_REFERENCE = struct.Struct("<64sQQ")
# Where a client wants an output on a GPU: index of the output, bytes there, and a reference. Their count (8 bytes) comes first.
OUTPUT_PLACE = struct.Struct("<QQ64sQQ")

TENSOR_BY_RANK = [struct.Struct("%s%dq" % (TENSOR_HEAD, rank)) for rank in range(33)]
NAME_LENGTH = struct.Struct("<Q")
LOG_HEAD = struct.Struct("<BxHI")  # level, bytes of the file name, line
# A model's own call: bytes of JSON, flags. Its tensors follow, then the JSON.
BLS_HEAD = struct.Struct("<II")
BLS_DECOUPLED = 1

METRIC_OPERATION = struct.Struct("<Id")  # operation, value
OFFSET = struct.Struct("<Q")

PADDING = [bytes(n) for n in range(16)]


def pad8(size):
    return PADDING[-size & 7]


def simple_frame(kind, id=0, body=b"", count=0):
    """A frame whose body is one run of bytes."""
    size = 16 + len(body)
    padding = -size & 15
    return b"".join((HEADER.pack(size + padding, kind, count, id), body, PADDING[padding]))
