"""InferenceResponse and the sender of responses."""
from . import frames
from .arguments import is_listing
from .codec import FrameWriter, write_response
from .context import context
from .errors import TritonError, TritonModelException
from .frames import RESPONSE_HEAD, pad8, simple_frame
from .tensor import Tensor

COMPLETE_FINAL = 1


# Types that a parameter of an answer may have, and their names.
_TRITON_PARAMETERS = ((bool, int, str), "bool/int/str")
_PARAMETERS = ((bool, int, str, float), "bool/int/str/float")


def check_parameters(parameters, allowed, names):
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise TritonModelException("Expect parameters to be a dict of str to %s, got %s" % (names, type(parameters)))
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException("Expect parameters keys to have type str, found type %s" % type(key))
        if not isinstance(value, allowed):
            raise TritonModelException(
                "Expect parameters values to have type %s, found type %s" % (names, type(value))
            )
        # A bool is an int, too, and fits.
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise TritonModelException("Expect integers of parameters to have 64 bits, found more in '%s'" % key)
    return parameters


class InferenceResponse:
    __slots__ = ("_output_tensors", "_error", "_parameters")

    def __init__(self, output_tensors=(), error=None, parameters=None):
        if not is_listing(output_tensors) or (error is not None and not isinstance(error, TritonError)):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    1. c_python_backend_utils.InferenceResponse(output_tensors: List[c_python_backend_utils.Tensor] = "
                "[], error: c_python_backend_utils.TritonError = None, parameters: object = None)\n\n"
                "Invoked with: %r, error=%r" % (output_tensors, error)
            )
        for tensor in output_tensors:
            if not isinstance(tensor, Tensor):
                if tensor is None:
                    raise TritonModelException("Output tensor for inference response should not be empty.")
                raise TypeError(
                    "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                    "    1. c_python_backend_utils.InferenceResponse(output_tensors: "
                    "List[c_python_backend_utils.Tensor] = [], error: c_python_backend_utils.TritonError = None, "
                    "parameters: object = None)\n\nInvoked with: %r" % (output_tensors,)
                )
        self._output_tensors = output_tensors if type(output_tensors) in (list, tuple) else list(output_tensors)
        self._error = error
        allowed = _TRITON_PARAMETERS if context.follows_triton else _PARAMETERS
        self._parameters = None if parameters is None else check_parameters(parameters, *allowed)

    def output_tensors(self):
        return list(self._output_tensors)

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        """As JSON text, like a request's."""
        import json

        return "" if not self._parameters else json.dumps(self._parameters)


class InferenceResponseSender:
    """Answers one request, from any thread, also after execute has returned, until the final flag is sent."""

    def __init__(self, request):
        self._handle = request._handle
        self._requested = request._requested
        self._places = request._places
        # None for a model that answers once.
        self._flow = context.flows.get(request._handle)
        self._count = 0
        self._is_closed = False
        self._held = None
        self._owes_answer = False

    def send(self, response=None, flags=0):
        if (response is not None and not isinstance(response, InferenceResponse)) or not isinstance(flags, int):
            raise TypeError(
                "send(): incompatible function arguments. The following argument types are supported:\n"
                "    1. (self: c_python_backend_utils.InferenceResponseSender, response: "
                "c_python_backend_utils.InferenceResponse = None, flags: int = 0) -> None\n\n"
                "Invoked with: %r, %r, %r" % (self, response, flags)
            )
        if flags not in (0, COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if flags == 0 and response is None:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if not context.is_decoupled:
            if response is not None and self._count > 0:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one response."
                )
            if response is None and self._count == 0:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final before sending a "
                    "response."
                )
        if response is not None and self._flow is not None and not self._is_closed:
            self._flow.wait()
        if self._is_closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        self._count += 1
        is_final = flags == COMPLETE_FINAL
        self._is_closed = is_final
        if not context.is_decoupled:
            # One answer, marked final: the response waits for the flag when the two come apart.
            if not is_final:
                self._held = response
                return
            if response is None:
                response, self._held = self._held, None
        self._write(response, is_final)

    def _write(self, response, is_final):
        writer = FrameWriter(frames.RESPONSE, 0, context.outputs, context.inline_limit)
        try:
            write_response(
                writer, self._handle, response, self._requested, context.output_index, is_final, not context.follows_triton, self._places
            )
        except BaseException:
            writer.discard()
            raise
        frame = writer.finish(1)
        if self._flow is not None and not is_final:
            self._flow.sent(len(frame) + writer.stored_bytes)
        context.channel.send(frame)
        if is_final:
            self._end()

    def _give_held(self):
        """What was sent before execute failed reaches the client."""
        response, self._held = self._held, None
        if response is None:
            return
        try:
            self._write(response, True)
        except Exception:
            # The request then gets the error of the batch.
            pass

    def _end(self):
        context.cancelled.discard(self._handle)
        if self._flow is not None:
            context.flows.pop(self._handle, None)
            self._flow.end()

    def is_cancelled(self):
        context.channel.poll()
        return self._handle in context.cancelled

    def __del__(self):
        # Nobody can send the final flag any more. Without this the client would wait for ever.
        if self._owes_answer and not self._is_closed and context.channel is not None:
            self._is_closed = True
            self._end()
            text = (
                b"The model dropped this request: its response sender was released without sending the flag "
                b"TRITONSERVER_RESPONSE_COMPLETE_FINAL."
            )
            flags = frames.RESPONSE_ERROR | frames.RESPONSE_FINAL
            body = RESPONSE_HEAD.pack(self._handle, 0, flags, TritonError.INTERNAL, len(text)) + text + pad8(len(text))
            context.channel.send_if_free(simple_frame(frames.RESPONSE, 0, body, 1))
