"""The module in which Triton has the classes of pb_utils. Models import it for their types, and tracebacks name it."""
from galatea_worker.bls import ResponseIterator
from galatea_worker.errors import TritonError, TritonModelException
from galatea_worker.logger import Logger
from galatea_worker.metrics import COUNTER, GAUGE, HISTOGRAM, Metric, MetricFamily, MetricKind
from galatea_worker.model_control import is_model_ready, load_model, unload_model
from galatea_worker.request import InferenceRequest, InferenceTrace, MemoryType, PreferredMemory
from galatea_worker.request import MEMORY_CPU as TRITONSERVER_MEMORY_CPU
from galatea_worker.request import MEMORY_GPU as TRITONSERVER_MEMORY_GPU
from galatea_worker.response import InferenceResponse, InferenceResponseSender
from galatea_worker.tensor import Tensor

for _class in [value for value in list(vars().values()) if isinstance(value, type)]:
    _class.__module__ = __name__
