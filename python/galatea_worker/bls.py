"""Calls of other models from inside a model (business logic scripting)."""
import json
import threading
from collections import deque

from . import frames
from .channel import ConnectionClosed, Waiter
from .codec import FrameWriter, read_tensor
from .context import context
from .errors import TritonError, TritonModelException
from .frames import NAMED, RESPONSE_HEAD
from .response import InferenceResponse



class Call:
    """One call under way. Its responses arrive in the thread that reads the channel."""

    def __init__(self):
        self.id = context.next_call_id()
        self.responses = deque()
        self.is_complete = False
        self._waiter = None
        # Taken by whoever calls it, so that it is called once, from whichever thread.
        self._listeners = deque(maxlen=1)
        self._wants_first = False
        context.calls[self.id] = self

    def arrived(self, response, is_final):
        if response is not None:
            self.responses.append(response)
        if is_final:
            self.is_complete = True
            context.calls.pop(self.id, None)
        waiter = self._waiter
        if waiter is not None:
            waiter.finish()
        if is_final or self._wants_first:
            self._tell()

    def next(self):
        """The next response; None after the last."""
        while not self.responses:
            if self.is_complete:
                return None
            waiter = self._waiter = Waiter()
            if self.responses or self.is_complete:
                continue
            context.channel.wait(waiter)
        return self.responses.popleft()

    def when_complete(self, listener):
        self._listeners.append(listener)
        if self.is_complete:
            self._tell()

    def when_begun(self, listener):
        """At the first response, or at the end of a call without any."""
        self._wants_first = True
        self._listeners.append(listener)
        if self.responses or self.is_complete:
            self._tell()

    def _tell(self):
        try:
            listener = self._listeners.pop()
        except IndexError:
            return
        listener()


class ResponseIterator:
    """Responses of a decoupled call. A loop goes on where the last one was left; after the end it starts over."""

    def __init__(self, call):
        self._call = call
        self._seen = []
        self._index = 0
        self._has_ended = False

    def __iter__(self):
        if self._has_ended:
            self._index = 0
            self._has_ended = False
        return self

    def __next__(self):
        if self._index == len(self._seen):
            response = self._call.next()
            if response is None:
                self._has_ended = True
                raise StopIteration
            self._seen.append(response)
        self._index += 1
        return self._seen[self._index - 1]

    def cancel(self):
        if not self._call.is_complete:
            context.channel.send(frames.simple_frame(frames.BLS_CANCEL, self._call.id))


def start(request, is_decoupled):
    if not context.is_serving:
        raise TritonModelException("BLS is only supported during the 'execute' function.")
    call = Call()
    head = json.dumps(
        {
            "model": request._model_name,
            "version": request._model_version,
            "id": request._request_id,
            # JavaScript would lose digits of a large number.
            "correlationId": request._correlation_id if isinstance(request._correlation_id, str) else None,
            "correlationNumber": "0" if isinstance(request._correlation_id, str) else str(request._correlation_id),
            "flags": request._flags,
            "timeoutUs": str(request._timeout),
            "priority": str(request._priority),
            "outputs": list(request._requested),
            "parameters": None if request._parameters == "{}" else request._parameters,
            # The trace of the request that this call serves, when the model names it.
            "traceOf": request._trace._handle if request._trace is not None else 0,
        }
    ).encode()
    writer = FrameWriter(frames.BLS_REQUEST, call.id, context.outputs, context.inline_limit)
    try:
        writer.add(frames.BLS_HEAD.pack(len(head), frames.BLS_DECOUPLED if is_decoupled else 0))
        for tensor in request._inputs:
            writer.add_tensor(tensor, NAMED)
        writer.add_text(head)
    except BaseException:
        writer.discard()
        context.calls.pop(call.id, None)
        raise
    context.channel.send(writer.finish(len(request._inputs)))
    return call


def exec_sync(request, decoupled):
    call = start(request, decoupled)
    if decoupled:
        return ResponseIterator(call)
    return _only(call)


def _only(call):
    response = call.next()
    return InferenceResponse([]) if response is None else response


def exec_async(request, decoupled):
    """An awaitable. The event loop cannot read the channel itself, so a helper thread does while calls are open."""
    import asyncio

    loop = asyncio.get_running_loop()
    call = start(request, decoupled)
    future = loop.create_future()
    pump.add()

    def settle():
        pump.remove()
        loop.call_soon_threadsafe(_resolve, future, call, decoupled)

    # As in Triton: whoever awaits a decoupled call goes on with its first response, and others run until then. The loop over
    # the responses waits for the later ones.
    if decoupled:
        call.when_begun(settle)
    else:
        call.when_complete(settle)
    return future


def _resolve(future, call, decoupled):
    if not future.done():
        future.set_result(ResponseIterator(call) if decoupled else _only(call))


class Pump:
    """A thread that reads the channel for coroutines that wait, because a coroutine cannot read it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._count = 0
        self._thread = None
        self._waiter = None

    def add(self):
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._waiter = Waiter()
                self._wanted.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="galatea-pump", daemon=True)
                self._thread.start()

    def remove(self):
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._wanted.clear()
                self._waiter.finish()

    def _run(self):
        while True:
            self._wanted.wait()
            waiter = self._waiter
            try:
                context.channel.wait(waiter)
            except ConnectionClosed:
                return


pump = Pump()


def on_response(count, id, frame):
    """Handler of BLS_RESPONSE."""
    _, outputs, flags, code, length = RESPONSE_HEAD.unpack_from(frame, 16)
    offset = 16 + RESPONSE_HEAD.size
    tensors = []
    for _ in range(outputs):
        tensor, offset = read_tensor(frame, offset, (), context.inputs)
        tensors.append(tensor)
    text = frame[offset : offset + length]
    call = context.calls.get(id)
    if call is None:
        return
    response = InferenceResponse.__new__(InferenceResponse)
    response._output_tensors = tensors
    response._error = None
    response._parameters = None
    if flags & frames.RESPONSE_ERROR:
        response._error = TritonError(text.decode("utf-8", "replace"), code)
    elif flags & frames.RESPONSE_PARAMETERS:
        response._parameters = json.loads(text)
    # The bare flag becomes an empty response, as a model that iterates expects it from Triton.
    call.arrived(response, bool(flags & frames.RESPONSE_FINAL))
