"""PyTorch: TorchScript (`model.pt`), exported programs and compiled packages (`model.pt2`), or a class in `model.py` with its
weights in `model.pt`."""
import warnings

import numpy as np

from galatea_framework import FrameworkModel, ModelError
from galatea_pytorch import exported, python_class, script, shared_weights, tensors
from galatea_pytorch.named_arguments import argument_plan, output_plan
from galatea_pytorch.pinned_inputs import PinnedInputs


class TritonPythonModel(FrameworkModel):
    framework = "PyTorch"
    module = "torch"
    package = "torch"
    file_names = ("model.pt", "model.pt2", "model.py")

    @classmethod
    def describe(cls, source):
        return kind_of(source).describe(source)

    def load(self, source):
        torch = self.import_framework()
        configure(torch, source)
        self._torch = torch
        kind = kind_of(source)
        device = device_of(torch, source)
        try:
            loaded = kind.load(source, device)
        except out_of_memory(torch) as error:
            raise ModelError("%s has not enough memory for model '%s': %s" % (device, source.name, error)) from None
        if source.flag("ENABLE_WEIGHT_SHARING", False):
            shared_weights.share(self.logger, source, loaded.module)
        self.warn_of_version(loaded.saved_with, torch.__version__)
        self.scalar_inputs = loaded.scalar_names
        self._function = loaded.function
        self._device = device or device_of_weights(torch, loaded.module)
        self._pinned = PinnedInputs(torch, self.logger) if self._device.type == "cuda" else None
        self._arguments = argument_plan(source, loaded, self.input_names)
        self._outputs = output_plan(source, self.output_names)
        self._dims = {tensor["name"]: tensor["dims"] for tensor in source.config["output"]}
        self._guard = torch.inference_mode if source.flag("INFERENCE_MODE", True) else torch.no_grad
        self._cleans_cache = source.flag("ENABLE_CACHE_CLEANING", False) and self._device.type == "cuda"

    def ask_for(self, requests):
        super().ask_for(requests)
        # Outputs that a client wants in CUDA shared memory.
        self._wanted_on_gpu = frozenset().union(*(request._places or () for request in requests))

    def read(self, tensor):
        # An input in CUDA shared memory stays where the client left it.
        return super().read(tensor) if tensor.is_cpu() else self._torch.from_dlpack(tensor.to_dlpack())

    def join(self, arrays):
        if self._pinned is not None:
            self._pinned.cover()
        return tensors.join(self._torch, arrays, self._device)

    def run(self, inputs):
        torch = self._torch
        try:
            with self._guard():
                arguments, keywords = self._arguments(inputs)
                answers = self._outputs(self._function(*arguments, **keywords))
                return {name: self._array(name, answer) for name, answer in answers.items()}
        except out_of_memory(torch) as error:
            # The memory of this batch is given back, so that smaller batches and other models on the device can run.
            torch.cuda.empty_cache()
            raise MemoryError("%s has not enough memory for this batch: %s" % (self._device, _first_line(error))) from None
        finally:
            if self._pinned is not None:
                # After this the server reuses the memory of the inputs, and the GPU may still read it.
                torch.cuda.current_stream(self._device).synchronize()
            if self._cleans_cache:
                torch.cuda.empty_cache()

    def _array(self, name, answer):
        if name in self._wanted_on_gpu and tensors.is_on_gpu(self._torch, answer):
            return tensors.plain(answer)
        array = tensors.array_of(self._torch, name, answer)
        if array.dtype == np.object_ and self.source.is_batching:
            # A list of strings has no shape: its first dimension is the batch, the configuration gives the others.
            dims = self._dims.get(name, [-1])
            return array.reshape([-1] + dims if -1 not in dims else [-1, 1])
        return array


def kind_of(source):
    if source.path.endswith(".pt2"):
        return exported
    if source.path.endswith(".py") or source.config.get("runtime", "").endswith(".py"):
        return python_class
    return script


def device_of(torch, source):
    """None for KIND_MODEL: the model itself chooses its device."""
    if source.kind == "MODEL":
        return None
    if not source.is_gpu:
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if source.device_id >= count:
        seen = "sees none" if count == 0 else "sees %d of them" % count
        raise ModelError(
            "model '%s' wants GPU %d (KIND_GPU), and PyTorch %s %s: install one with CUDA, or write "
            "instance_group { kind: KIND_CPU }"
            % (source.name, source.device_id, torch.__version__, seen)
        )
    device = torch.device("cuda", source.device_id)
    torch.cuda.set_device(device)
    return device


def out_of_memory(torch):
    return getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError


def device_of_weights(torch, module):
    for parameter in module.parameters() if module is not None else ():
        return parameter.device
    return torch.device("cpu")


def configure(torch, source):
    """Settings of the process: it belongs to this one instance of this one model. Some have two names in Triton, one for
    TorchScript and one for classes."""
    # The server's memory is given to torch as it is; a model that writes into its inputs does so at its own risk.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
    if source.is_gpu:
        # For a model on a GPU many CPU threads only spin, and would take the cores that the server needs.
        torch.set_num_threads(1)
    for names, setter in (
        (("INTRA_OP_THREAD_COUNT", "NUM_THREADS"), torch.set_num_threads),
        (("INTER_OP_THREAD_COUNT", "NUM_INTEROP_THREADS"), torch.set_num_interop_threads),
    ):
        for name in names:
            count = source.integer(name, 0)
            if count:
                setter(count)
    torch.backends.cudnn.enabled = not source.flag("DISABLE_CUDNN", False)
    torch._C._set_graph_executor_optimize(not source.flag("DISABLE_OPTIMIZED_EXECUTION", False))
    for name, setter in (
        ("ENABLE_JIT_EXECUTOR", torch._C._jit_set_profiling_executor),
        ("ENABLE_JIT_PROFILING", torch._C._jit_set_profiling_mode),
        ("ENABLE_TENSOR_FUSER", torch._C._jit_set_texpr_fuser_enabled),
    ):
        if source.parameter(name) is not None:
            setter(source.flag(name, True))


def _first_line(error):
    return (str(error).splitlines() or [""])[0]
