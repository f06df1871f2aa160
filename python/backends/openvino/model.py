"""OpenVINO: its own IR (`model.xml` with `model.bin`), and all other formats that it reads, such as ONNX."""
import os
import re

import numpy as np

from galatea_framework import BF16, Description, FrameworkModel, ModelError, TensorDescription

DATA_TYPES = {
    "boolean": "TYPE_BOOL",
    "i8": "TYPE_INT8",
    "i16": "TYPE_INT16",
    "i32": "TYPE_INT32",
    "i64": "TYPE_INT64",
    "u8": "TYPE_UINT8",
    "u16": "TYPE_UINT16",
    "u32": "TYPE_UINT32",
    "u64": "TYPE_UINT64",
    "f16": "TYPE_FP16",
    "bf16": "TYPE_BF16",
    "f32": "TYPE_FP32",
    "f64": "TYPE_FP64",
    "string": "TYPE_STRING",
}

# Triton's parameters, the older names among them, and the property of OpenVINO that each sets.
PROPERTIES = {
    "INFERENCE_NUM_THREADS": "INFERENCE_NUM_THREADS",
    "CPU_THREADS_NUM": "INFERENCE_NUM_THREADS",
    "COMPILATION_NUM_THREADS": "COMPILATION_NUM_THREADS",
    "NUM_STREAMS": "NUM_STREAMS",
    "CPU_THROUGHPUT_STREAMS": "NUM_STREAMS",
    "PERFORMANCE_HINT": "PERFORMANCE_HINT",
    "HINT_PRECISION": "INFERENCE_PRECISION_HINT",
    "CACHE_DIR": "CACHE_DIR",
}


class TritonPythonModel(FrameworkModel):
    framework = "OpenVINO"
    module = "openvino"
    package = "openvino"
    file_names = ("model.xml", "model.onnx")

    @classmethod
    def describe(cls, source):
        model = read_model(source)
        if has_batch_layout(model) and not source.flag("SKIP_DYNAMIC_BATCHSIZE", False):
            model = with_open_batch(source, model)
        facts = {"graph": model.get_friendly_name(), "operations": len(model.get_ops())}
        if saved_version(source.path):
            facts["saved with"] = saved_version(source.path)
        if source.path.endswith(".xml"):
            facts["weights"] = _weights_size(source.path)
        return Description([_described(port) for port in model.inputs], [_described(port) for port in model.outputs], facts)

    def load(self, source):
        openvino = self.import_framework()
        self._openvino = openvino
        core = openvino.Core()
        extension = source.parameter("CPU_EXTENSION_PATH")
        if extension:
            core.add_extension(extension)
        model = read_model(source, core)
        self.warn_of_version(saved_version(source.path), openvino.__version__)
        check_signature(source, model, self.input_names, self.output_names)
        self._fixed_rows = 0
        if source.is_batching and not source.flag("SKIP_DYNAMIC_BATCHSIZE", False):
            open_batch(source, model)
        elif source.is_batching and source.flag("ENABLE_BATCH_PADDING", False):
            self._fixed_rows = max([0] + [shape_of(port)[0] for port in model.inputs if shape_of(port)])
        compiled = self._compile(core, model, source)
        self._request = compiled.create_infer_request()
        self._ports = [(self._name_in_config(port, self.output_names), index) for index, port in enumerate(compiled.outputs)]
        self._inputs = {self._name_in_config(port, self.input_names): index for index, port in enumerate(compiled.inputs)}
        self.scalar_inputs = [name for name, index in self._inputs.items() if shape_of(compiled.inputs[index]) == []]

    def _compile(self, core, model, source):
        settings = {
            name: source.parameter(parameter) for parameter, name in PROPERTIES.items() if source.parameter(parameter)
        }
        if source.flag("HINT_BF16", source.flag("ENFORCE_BF16", False)):
            settings["INFERENCE_PRECISION_HINT"] = "bf16"
        # The server sends one batch at a time, so OpenVINO should optimise for latency.
        settings.setdefault("PERFORMANCE_HINT", "LATENCY")
        device = source.parameter("TARGET_DEVICE") or ("GPU.%d" % source.device_id if source.is_gpu else "CPU")
        known = [name.split(".")[0] for name in core.available_devices] + ["AUTO", "MULTI", "HETERO"]
        if device.split(".")[0].split(":")[0] not in known:
            raise ModelError(
                "model '%s' wants the device %s (TARGET_DEVICE), OpenVINO finds %s here"
                % (source.name, device, ", ".join(core.available_devices))
            )
        try:
            return core.compile_model(model, device, settings)
        except RuntimeError as error:
            raise ModelError(
                "OpenVINO cannot compile model '%s' for %s with %s: %s"
                % (source.name, device, settings, str(error).strip().splitlines()[-1])
            ) from None

    def join(self, arrays):
        array = super().join(arrays)
        if array.dtype == BF16:
            bits = np.ascontiguousarray(array).view(np.uint16)
            return self._openvino.Tensor(bits, self._openvino.Shape(bits.shape), self._openvino.Type.bf16)
        # OpenVINO returns strings as numpy strings, not as objects.
        return array.astype(np.bytes_) if array.dtype == np.object_ else array

    def run(self, inputs):
        rows = 0
        if self._fixed_rows:
            rows = next(iter(inputs.values())).shape[0]
            inputs = {name: padded(array, self._fixed_rows) for name, array in inputs.items()}
        self._request.infer({self._inputs[name]: value for name, value in inputs.items()}, share_inputs=True)
        outputs = {}
        for name, index in self._ports:
            if name in self.output_types:
                array = self._array(self._request.get_output_tensor(index))
                outputs[name] = array[:rows] if rows else array
        return outputs

    def _array(self, tensor):
        """Copies the answer, because the next one is written into the same memory."""
        kind = tensor.element_type.get_type_name()
        if kind == "string":
            return tensor.bytes_data.astype(np.object_)
        # OpenVINO gives the bits of bfloat16 as float16.
        return np.array(tensor.data.view(np.uint16)).view(BF16) if kind == "bf16" else np.array(tensor.data)

    def _name_in_config(self, port, known):
        """A tensor may have several names; the configuration knows it by one of them."""
        for name in port.get_names():
            if name in known:
                return name
        return name_of(port)


def read_model(source, core=None):
    import openvino

    try:
        return (core or openvino.Core()).read_model(source.path)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError("OpenVINO cannot read '%s': %s" % (source.path, reason)) from None


def saved_version(path):
    """The last lines of an IR: `<info name="OpenVINO Runtime" value="2026.4.1-…"/>`, formerly `<Runtime_version value=…/>`."""
    if not path.endswith(".xml"):
        return ""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        found = re.search(rb'(?:OpenVINO Runtime"|Runtime_version) value="(\d+\.\d+(?:\.\d+)?)', file.read())
    return found.group(1).decode() if found else ""


def padded(array, rows):
    if array.shape[0] == rows:
        return array
    if array.shape[0] > rows:
        raise ModelError("the model was saved for batches of %d rows, got %d" % (rows, array.shape[0]))
    return np.concatenate([array, np.repeat(array[-1:], rows - array.shape[0], axis=0)])


def name_of(port):
    names = port.get_names()
    return min(names) if names else port.get_node().get_friendly_name()


def shape_of(port):
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return [-1]
    return [-1 if dimension.is_dynamic else dimension.get_length() for dimension in shape]


def check_signature(source, model, input_names, output_names):
    """Refuses, with Triton's texts, a configuration that the model does not have: an input that nobody sets keeps what was in it."""
    # The server fills in what `batch_input` names.
    batch_inputs = [name for entry in source.config.get("batch_input", []) for name in entry["target_name"]]
    count = len(input_names) + len(batch_inputs)
    _check_names(source, "input", input_names, model.inputs)
    if count != len(model.inputs):
        raise ModelError(
            "unable to load model '%s', configuration expects %d inputs, model provides %d"
            % (source.name, count, len(model.inputs))
        )
    _check_names(source, "output", output_names, model.outputs)
    batch_outputs = {name for entry in source.config.get("batch_output", []) for name in entry["target_name"]}
    for role, ports in (("input", model.inputs), ("output", model.outputs)):
        for tensor in source.config[role]:
            is_cut = tensor.get("allow_ragged_batch", False) or tensor["name"] in batch_outputs
            port = next(port for port in ports if tensor["name"] in port.get_names() or tensor["name"] == name_of(port))
            if not is_cut:
                _check_shape(source, tensor, port)


def _check_names(source, role, names, ports):
    known = [name for port in ports for name in (sorted(port.get_names()) or [name_of(port)])]
    for name in names:
        if name not in known:
            raise ModelError(
                "unexpected inference %s '%s' for model '%s', allowed %ss are: %s"
                % (role, name, source.name, role, ", ".join(known))
            )


def _check_shape(source, tensor, port):
    shape = shape_of(port)
    dims = tensor["reshape"]["shape"] if "reshape" in tensor else tensor["dims"]
    is_scalar = shape == [] and (source.is_batching or dims == [1])
    if port.get_partial_shape().rank.is_dynamic or is_scalar:
        return
    # The batch of a model that was saved with a fixed one is opened, or padded.
    configured = [-1] + dims if source.is_batching else dims
    expected = [-1] + shape[1:] if source.is_batching else shape
    if len(configured) == len(expected) and all(a == b or -1 in (a, b) for a, b in zip(configured, expected)):
        return
    said = "complete shape" if source.is_batching else "shape"
    raise ModelError(
        "model '%s', tensor '%s': the model expects %d dimensions (shape [%s]) but the model configuration specifies %d "
        "dimensions (%s [%s])"
        % (source.name, tensor["name"], len(shape), _listed(shape), len(configured), said, _listed(configured))
    )


def _listed(shape):
    return ",".join(str(dimension) for dimension in shape)


def has_batch_layout(model):
    """As in Triton, a model whose layouts all name the first dimension N takes batches, whatever size it was saved with."""
    from openvino import layout_helpers

    layouts = [layout_helpers.get_layout(port) for port in [*model.inputs, *model.outputs]]
    return all(layout_helpers.has_batch(layout) and layout_helpers.batch_idx(layout) == 0 for layout in layouts)


def with_open_batch(source, model):
    """The model as it was saved where it cannot take other sizes."""
    try:
        open_batch(source, model)
        return model
    except ModelError:
        return read_model(source)


def open_batch(source, model):
    """Opens the batch dimension of a model that was saved with a fixed one, because the server batches."""
    shapes = {}
    for port in model.inputs:
        shape = shape_of(port)
        if shape and shape[0] != -1:
            shapes[port] = [-1] + shape[1:]
    if not shapes:
        return
    try:
        model.reshape(shapes)
    except RuntimeError as error:
        raise ModelError(
            "model '%s' was saved for one size of batch and cannot be made to take others (%s): set max_batch_size: 0, or that "
            "size with the parameters SKIP_DYNAMIC_BATCHSIZE and ENABLE_BATCH_PADDING"
            % (source.name, str(error).strip().splitlines()[-1])
        ) from None


def _described(port):
    kind = port.get_element_type().get_type_name()
    if kind not in DATA_TYPES:
        raise ModelError("tensor '%s' is of type %s, which the protocol cannot carry" % (name_of(port), kind))
    return TensorDescription(name_of(port), DATA_TYPES[kind], shape_of(port))


def _weights_size(path):
    weights = os.path.splitext(path)[0] + ".bin"
    return "%d bytes" % os.path.getsize(weights) if os.path.exists(weights) else "none"
