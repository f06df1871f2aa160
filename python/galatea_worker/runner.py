"""Loads a model.py and executes batches until the server says goodbye."""
import importlib
import json
import sys
import threading
import time
import types
from collections import deque
from time import perf_counter_ns

from . import bls, calls, flow, frames, heap
from .arena import InputRegion, OutputRegion, SharedMemoryFull
from .channel import Waiter
from .codec import FrameWriter, executed_frame, read_places, read_tensor, write_response
from .context import context
from .errors import exception_text
from .frames import OFFSET, REQUEST, simple_frame
from .logger import Logger, log_traceback
from .model_config import ModelConfig
from .request import RELEASE_ALL, RELEASE_RESCHEDULE, InferenceRequest, InferenceTrace
from .response import InferenceResponse


class ExecuteError(Exception):
    """The return value of execute breaks a rule. The client gets this message."""


class Runner:
    def __init__(self, channel):
        self._channel = channel
        self._tasks = deque()
        self._waiter = Waiter()
        self._module = None
        self._model = None
        self._loop = None
        self._is_leaving = False
        channel.handlers = {
            frames.EXECUTE: self._enqueue_batch,
            frames.COMPLETE_CONFIG: lambda *frame: self._enqueue(self._complete_config, frame),
            frames.INITIALIZE: lambda *frame: self._enqueue(self._initialize, frame),
            frames.FINALIZE: self._enqueue_finalize,
            frames.CANCEL: flow.on_cancel,
            frames.TAKEN: flow.on_taken,
            frames.FREE_OUTPUTS: self._free_outputs,
            frames.TRIM: self._trim,
            frames.BLS_RESPONSE: bls.on_response,
            frames.REPLY: calls.on_reply,
            frames.PING: lambda *frame: channel.send(simple_frame(frames.PONG, 0)),
        }

    def run(self):
        """The loop of the main thread. Ends with FINALIZE, or with ConnectionClosed when the server is gone."""
        tasks = self._tasks
        channel = self._channel
        waiter = self._waiter
        while not self._is_leaving:
            if tasks:
                # The batch was parked while the last one ran. A client may have cancelled meanwhile: read that first.
                channel.poll()
            else:
                channel.flush()
                waiter.done = False
                # A frame may have come in between, through a thread that reads.
                if not tasks:
                    channel.wait(waiter)
                if not tasks:
                    continue
            task, count, id, frame = tasks.popleft()
            task(count, id, frame)

    def _enqueue_batch(self, count, id, frame):
        if context.is_decoupled:
            flow.announce(count)
        self._tasks.append((self._run_batch, count, id, frame))
        self._waiter.finish()

    def _enqueue_finalize(self, *frame):
        # The server takes no more answers, so a model that waits in send must go on.
        flow.end_all()
        self._enqueue(self._finalize, frame)

    def _enqueue(self, task, frame):
        self._tasks.append((task, *frame))
        self._waiter.finish()

    # Starting

    def _complete_config(self, count, id, frame):
        settings = _json(frame)
        try:
            model_class = self._import(settings)
            config = self._completed_config(model_class, settings)
        except BaseException as error:
            self._start_failed(error)
            return
        self._channel.send(simple_frame(frames.CONFIG_COMPLETED, 0, _json_body(config)))

    def _completed_config(self, model_class, settings):
        complete = getattr(model_class, "auto_complete_config", None)
        if complete is None:
            return None
        result = complete(ModelConfig(settings["config"]))
        if not isinstance(result, ModelConfig):
            raise _Plain(
                "auto_complete_config function in model '%s' must return a valid pb.ModelConfig object."
                % settings["modelName"]
            )
        return result.as_dict()

    def _initialize(self, count, id, frame):
        settings = _json(frame)
        try:
            self._configure(settings)
            model_class = self._import(settings)
            self._model = model_class()
            if hasattr(self._model, "initialize"):
                self._model.initialize(settings["args"])
        except BaseException as error:
            self._start_failed(error)
            return
        context.is_serving = True
        self._channel.send(simple_frame(frames.INITIALIZED))
        if hasattr(self._model, "is_ready"):
            threading.Thread(target=self._watch_readiness, name="galatea-readiness", daemon=True).start()

    def _configure(self, settings):
        context.instance_name = settings["args"]["model_instance_name"]
        context.is_decoupled = settings["decoupled"]
        context.input_names = settings["inputs"]
        context.output_names = settings["outputs"]
        context.follows_triton = settings["followsTriton"]
        context.output_index = {name: index for index, name in enumerate(settings["outputs"])}
        if settings["maxMemoryBytes"]:
            _limit_memory(settings["maxMemoryBytes"])
        memory = settings["sharedMemory"]
        if memory is not None:
            context.inputs = InputRegion(memory["inputsFd"], self._channel.note_freed)
            context.outputs = OutputRegion(memory["outputsFd"], memory["initialBytes"], memory["maxBytes"])
            context.inline_limit = memory["inlineBytes"]

    def _import(self, settings):
        if self._module is None:
            context.model_dir = settings["modelDir"]
            for path in settings["paths"]:
                if path not in sys.path:
                    sys.path.append(path)
            importlib.invalidate_caches()
            # The builtin, not importlib.import_module: a failing model's traceback then has Triton's frames.
            self._module = __import__(settings["module"], fromlist=["TritonPythonModel"])
        return self._module.TritonPythonModel

    def _start_failed(self, error):
        is_plain = getattr(error, "is_plain", False)
        if not is_plain:
            log_traceback(error)
        text = str(error) if is_plain else exception_text(error)
        self._channel.send(simple_frame(frames.START_FAILED, 0, _json_body({"message": text})))

    # Executing

    def _run_batch(self, count, batch_id, frame):
        started = perf_counter_ns()
        try:
            requests = self._read_requests(count, frame)
        except BaseException as error:
            self._fail(batch_id, (), error)
            return
        finally:
            if context.is_decoupled:
                context.begun += count
        if context.cancelled and self._skip_cancelled(batch_id, requests):
            return
        try:
            execute = getattr(self._model, "execute", None)
            if execute is None:
                path = getattr(self._module, "__file__", "")
                raise ExecuteError("Python model %s does not implement `execute` method." % path)
            result = execute(requests)
            if isinstance(result, types.CoroutineType):
                result = self._run_coroutine(result)
            writer = self._answer(batch_id, requests, result, perf_counter_ns() - started)
        except BaseException as error:
            self._fail(batch_id, requests, error)
            return
        self._channel.send(writer)

    def _skip_cancelled(self, batch_id, requests):
        """True when every request of the batch was cancelled: then the model never sees the batch."""
        handles = [request._handle for request in requests]
        if not context.cancelled.issuperset(handles):
            return False
        context.cancelled.difference_update(handles)
        for handle in handles:
            context.flows.pop(handle, None)
        self._channel.send(simple_frame(frames.SKIPPED, batch_id))
        return True

    def _read_requests(self, count, frame):
        requests = []
        offset = 16
        names = context.input_names
        region = context.inputs
        for _ in range(count):
            handle, correlation, timeout, flags, id_bytes, text_bytes, inputs, outputs, parameter_bytes = (
                REQUEST.unpack_from(frame, offset)
            )
            offset += REQUEST.size
            request = InferenceRequest.__new__(InferenceRequest)
            tensors = []
            for _ in range(inputs):
                tensor, offset = read_tensor(frame, offset, names, region)
                tensors.append(tensor)
            request._handle = handle
            request._inputs = tensors
            request._flags = flags & 3
            request._timeout = timeout
            request._sender = None
            request._trace = None
            request._preferred_memory = None
            request._release_flags = RELEASE_ALL
            if flags & frames.REQUEST_ALL_OUTPUTS:
                request._requested = context.output_names
            else:
                end = offset + 2 * outputs
                request._requested = [
                    context.output_names[frame[i] | frame[i + 1] << 8] for i in range(offset, end, 2)
                ]
                offset = end
            end = offset + id_bytes
            request._request_id = frame[offset:end].decode() if id_bytes else ""
            offset = end
            if flags & frames.REQUEST_TEXT_CORRELATION:
                end = offset + text_bytes
                correlation = frame[offset:end].decode()
                offset = end
            request._correlation_id = correlation
            end = offset + parameter_bytes
            request._parameters = frame[offset:end].decode() if parameter_bytes else "{}"
            if flags & frames.REQUEST_TRACED:
                start = end + 2
                end = start + (frame[start - 2] | frame[start - 1] << 8)
                request._trace = InferenceTrace(handle, frame[start:end].decode())
            offset = end + (-end & 7)
            request._places = None
            if flags & frames.REQUEST_PLACED:
                request._places, offset = read_places(frame, offset, context.output_names)
            if flags & frames.REQUEST_IS_CANCELLED:
                context.cancelled.add(handle)
            # For a request that is passed on to exec() as it came.
            request._priority = 0
            request._model_name = ""
            request._model_version = -1
            request._bls_parameters = None
            requests.append(request)
        if context.is_decoupled:
            flow.begin(requests)
        return requests

    def _answer(self, batch_id, requests, result, execution_ns):
        """The frame that ends the batch. It carries the responses of a model that is not decoupled."""
        if context.is_decoupled:
            if result is not None:
                raise ExecuteError(
                    "Python model '%s' is using the decoupled mode and the execute function must return None."
                    % context.instance_name
                )
            self._leave_open(requests)
            return simple_frame(frames.EXECUTED, batch_id, OFFSET.pack(execution_ns))
        if result is None:
            result = [None] * len(requests)
        self._check(requests, result)
        if len(requests) == 1 and not context.cancelled and result[0] is not None and requests[0]._sender is None:
            request = requests[0]
            frame = executed_frame(
                batch_id,
                execution_ns,
                request._handle,
                result[0],
                request._requested,
                context.output_index,
                context.inline_limit,
            )
            if frame is not None:
                return frame
        writer = FrameWriter(frames.EXECUTED, batch_id, context.outputs, context.inline_limit)
        writer.add(OFFSET.pack(execution_ns))
        count = 0
        open_requests = []
        try:
            for request, response in zip(requests, result):
                if response is None:
                    open_requests.append(request)
                    continue
                sender = request._sender
                if sender is not None:
                    # The first answer is used.
                    if sender._is_closed:
                        continue
                    sender._is_closed = True
                write_response(
                    writer, request._handle, response, request._requested, context.output_index, True, not context.follows_triton, request._places
                )
                count += 1
        except BaseException:
            writer.discard()
            raise
        self._leave_open(open_requests)
        if context.cancelled:
            context.cancelled.difference_update(request._handle for request in requests)
        return writer.finish(count)

    def _leave_open(self, requests):
        """These requests are answered later through their response senders. A sender that nobody holds answers at its end."""
        for request in requests:
            sender = request.get_response_sender()
            if request._release_flags == RELEASE_RESCHEDULE and not sender._is_closed:
                # The server has the request again. When it comes back, it is a new object.
                sender._is_closed = True
                sender._end()
                self._channel.send(simple_frame(frames.RESCHEDULE, request._handle))
            sender._owes_answer = True

    def _check(self, requests, result):
        if not isinstance(result, list):
            raise ExecuteError("Expected a list in the execute return, found type '%s'." % type(result))
        if len(result) != len(requests):
            raise ExecuteError(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n" % (len(requests), len(result))
            )
        for request, response in zip(requests, result):
            if type(response) is InferenceResponse:
                if request._release_flags == RELEASE_RESCHEDULE:
                    raise ExecuteError(
                        "Expected a None object in the execute function return list for reschduled request, found type "
                        "'%s'." % type(response)
                    )
            elif response is not None and not isinstance(response, InferenceResponse):
                raise ExecuteError(
                    "Expected an 'InferenceResponse' object in the execute function return list, found type '%s'."
                    % type(response)
                )

    def _fail(self, batch_id, requests, error):
        for request in requests:
            sender = request.get_response_sender()
            sender._is_closed = True
            sender._give_held()
            sender._end()
        has_place = not isinstance(error, (ExecuteError, SharedMemoryFull))
        text = exception_text(error) if has_place else str(error)
        message = "Failed to process the request(s) for model '%s', message: %s" % (context.instance_name, text)
        if has_place:
            log_traceback(error)
        else:
            Logger.log_error(message.rstrip())
        self._channel.send(simple_frame(frames.EXECUTE_FAILED, batch_id, _text_body(message)))

    def _run_coroutine(self, coroutine):
        # Here and not above: the module takes longer to import than the rest of this package.
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="galatea-asyncio", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if context.is_decoupled:
            future.add_done_callback(_report_background)
            return None
        return future.result()

    # The rest

    def _watch_readiness(self):
        """Asks the model once a second, and reports only changes to the server."""
        said = True
        while context.is_serving:
            model = self._model
            try:
                answer = model.is_ready()
                if isinstance(answer, types.CoroutineType):
                    import asyncio

                    answer = asyncio.run(answer)
                if not isinstance(answer, bool):
                    raise TypeError("is_ready() must return a boolean value")
            except BaseException as error:
                if said:
                    log_traceback(error)
                answer = False
            if answer != said:
                said = answer
                self._channel.send(simple_frame(frames.READINESS, int(answer)))
            time.sleep(1)

    def _free_outputs(self, count, id, frame):
        region = context.outputs
        for i in range(count):
            region.free(frames.OFFSET.unpack_from(frame, 16 + 8 * i)[0])

    def _trim(self, count, id, frame):
        if context.inputs is not None and context.inputs.on_trim is not None:
            context.inputs.on_trim()
        if context.outputs is not None:
            context.outputs.trim()
        heap.give_back()

    def _finalize(self, count, id, frame):
        self._is_leaving = True
        context.is_serving = False
        try:
            if self._model is not None and hasattr(self._model, "finalize"):
                self._model.finalize()
        except BaseException as error:
            log_traceback(error)
        self._model = None
        self._channel.flush()


def _limit_memory(limit):
    """Limits the memory: an allocation beyond it raises MemoryError and fails one batch, not the machine."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class _Plain(Exception):
    """An error whose text is shown alone, without type and place."""

    is_plain = True


def _report_background(future):
    if not future.cancelled() and future.exception() is not None:
        log_traceback(future.exception())


def _json(frame):
    length = frames.NAME_LENGTH.unpack_from(frame, 16)[0]
    return json.loads(bytes(frame[24 : 24 + length]))


def _text_body(text):
    data = text.encode("utf-8", "replace")
    return frames.NAME_LENGTH.pack(len(data)) + data


def _json_body(value):
    return _text_body(json.dumps(value))
