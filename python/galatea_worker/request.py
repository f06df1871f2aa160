"""InferenceRequest: the argument of execute, and the request with which a model calls another model."""
import json
import operator

from . import bls
from .arguments import is_listing, text_of, texts_of
from .context import context
from .errors import TritonModelException
from .named_code import NamedCode
from .response import InferenceResponseSender, check_parameters
from .tensor import Tensor


class MemoryType(NamedCode):
    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


MEMORY_GPU, MEMORY_CPU = MemoryType
RELEASE_ALL = 1
RELEASE_RESCHEDULE = 2


class PreferredMemory:
    """Where the outputs of a called model should lie. Everything is in main memory here."""

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        self._type = preferred_memory_type
        self._device_id = preferred_device_id


class InferenceTrace:
    """Joins the trace of a called model to the trace of the request."""

    __slots__ = ("_handle", "_context")

    def __init__(self, handle=0, trace_context=None):
        self._handle = handle
        self._context = trace_context

    def get_context(self):
        return self._context


def is_integer(value, lowest, highest):
    """As pybind11 takes one: what can be an index, and no float."""
    try:
        return lowest <= operator.index(value) <= highest
    except TypeError:
        return False


class InferenceRequest:
    __slots__ = (
        "_handle",
        "_request_id",
        "_correlation_id",
        "_flags",
        "_timeout",
        "_priority",
        "_parameters",
        "_requested",
        "_inputs",
        "_model_name",
        "_model_version",
        "_preferred_memory",
        "_trace",
        "_sender",
        "_release_flags",
        "_bls_parameters",
        "_places",
        "__weakref__",
    )

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name=None,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ):
        model, id, names = text_of(model_name), text_of(request_id), texts_of(requested_output_names)
        if (
            not is_listing(inputs)
            or names is None
            or model is None
            or id is None
            or correlation_id is None
            or not is_integer(model_version, -(2**63), 2**63 - 1)
            or not is_integer(flags, 0, 2**32 - 1)
            or not is_integer(timeout, 0, 2**64 - 1)
        ):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    1. c_python_backend_utils.InferenceRequest(request_id: str = '', correlation_id: object = 0, "
                "inputs: List[c_python_backend_utils.Tensor], requested_output_names: List[str], model_name: str, "
                "model_version: int = -1, flags: int = 0, timeout: int = 0, preferred_memory: "
                "c_python_backend_utils.PreferredMemory = None, trace: c_python_backend_utils.InferenceTrace = None, "
                "parameters: object = None)\n\nInvoked with: %r, %r, %r, %r"
                % (request_id, inputs, requested_output_names, model_name)
            )
        if not isinstance(correlation_id, str) and not is_integer(correlation_id, 0, 2**64 - 1):
            raise TritonModelException("Correlation ID must be integer or string")
        for tensor in inputs:
            if not isinstance(tensor, Tensor):
                raise TritonModelException(
                    "Input tensor for request with id '%s' and model name '%s' should not be empty."
                    % (id, model)
                )
        self._handle = 0
        self._request_id = id
        self._correlation_id = correlation_id if isinstance(correlation_id, str) else operator.index(correlation_id)
        self._flags = operator.index(flags)
        self._timeout = operator.index(timeout)
        self._priority = 0
        self._inputs = list(inputs)
        self._requested = names
        self._places = None
        self._model_name = model
        self._model_version = operator.index(model_version)
        self._preferred_memory = preferred_memory
        self._trace = trace
        self._sender = None
        self._release_flags = RELEASE_ALL
        self._bls_parameters = check_parameters(parameters, (bool, int, str), "bool/int/str")
        self._parameters = json.dumps(parameters) if parameters else "{}"

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._request_id

    def correlation_id(self):
        return self._correlation_id

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        if not is_integer(flags, 0, 2**32 - 1):
            raise TypeError("set_flags(): incompatible function arguments: flags must be an integer, got %r" % (flags,))
        self._flags = operator.index(flags)

    def timeout(self):
        return self._timeout

    def parameters(self):
        return self._parameters

    def requested_output_names(self):
        return set(self._requested)

    def preferred_memory(self):
        return self._preferred_memory

    def trace(self):
        return self._trace if self._trace is not None else InferenceTrace(self._handle)

    def get_response_sender(self):
        if self._sender is None:
            if self._handle == 0:
                raise TritonModelException("A request made by the model itself has no response sender.")
            self._sender = InferenceResponseSender(self)
        return self._sender

    def is_cancelled(self):
        if self._handle == 0:
            return False
        context.channel.poll()
        return self._handle in context.cancelled

    def set_release_flags(self, flags):
        if flags not in (RELEASE_ALL, RELEASE_RESCHEDULE):
            raise TritonModelException("Unable to set release flags. Unsupported flag provided.")
        self._release_flags = flags

    def exec(self, decoupled=False):
        return bls.exec_sync(self, decoupled)

    def async_exec(self, decoupled=False):
        return bls.exec_async(self, decoupled)
