"""Questions to the server that have one answer: model control, metrics."""
import json
import threading

from . import frames
from .channel import Waiter
from .codec import FrameWriter
from .context import context
from .errors import TritonModelException
from .frames import METRIC_OPERATION, NAMED, simple_frame

_replies = {}


def ask(method, arguments, files=()):
    """Waits for the answer; an error becomes a TritonModelException with the server's message."""
    id = context.next_call_id()
    waiter = Waiter()
    entry = _replies[id] = [waiter, None]
    body = json.dumps(dict(arguments, method=method)).encode()
    writer = FrameWriter(frames.CALL, id, context.outputs, context.inline_limit)
    writer.add(frames.NAME_LENGTH.pack(len(body)))
    for tensor in files:
        writer.add_tensor(tensor, NAMED)
    writer.add_text(body)
    context.channel.send(writer.finish(len(files)))
    context.channel.wait(waiter)
    reply = entry[1]
    if reply.get("error") is not None:
        raise TritonModelException(reply["error"])
    return reply.get("result")


def on_reply(count, id, frame):
    """Handler of REPLY."""
    length = frames.NAME_LENGTH.unpack_from(frame, 16)[0]
    entry = _replies.pop(id, None)
    if entry is not None:
        entry[1] = json.loads(bytes(frame[24 : 24 + length]))
        entry[0].finish()


def tell_metric(metric_id, operation, value):
    """Sends a change of a metric, which has no answer. From the main thread it leaves with the next frame."""
    frame = simple_frame(frames.METRIC, metric_id, METRIC_OPERATION.pack(operation, value))
    if threading.current_thread() is threading.main_thread():
        context.channel.defer(frame)
    else:
        context.channel.send(frame)
