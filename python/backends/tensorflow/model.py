"""TensorFlow: SavedModels (`model.savedmodel`, a folder) and frozen graphs (`model.graphdef`)."""
import os

import numpy as np

from galatea_framework import BF16, Description, FrameworkModel, ModelError, TensorDescription

# Set before the import, so that TensorFlow does not print three lines per process.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Keras writes its defaults into a new folder of the user unless its folder cannot be written to.
if not os.path.exists(os.path.expanduser("~/.keras")):
    os.environ.setdefault("KERAS_HOME", os.devnull)

DATA_TYPES = {
    "bool": "TYPE_BOOL",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    "string": "TYPE_STRING",
}


class TritonPythonModel(FrameworkModel):
    framework = "TensorFlow"
    module = "tensorflow"
    package = "tensorflow"
    file_names = ("model.savedmodel", "model.graphdef")

    @classmethod
    def describe(cls, source):
        if is_graph(source):
            return describe_graph(source)
        signature = signature_of(source)
        inputs = [_told(name, tensor) for name, tensor in sorted(signature.inputs.items())]
        outputs = [_told(name, tensor) for name, tensor in sorted(signature.outputs.items())]
        return Description(inputs, outputs, {"saved with": saved_version(source) or "unknown"})

    def load(self, source):
        tensorflow = self.import_framework()
        _set_threads(tensorflow, source)
        self._tensorflow = tensorflow
        self._device = device_of(tensorflow, source)
        if is_graph(source):
            self._function, shapes = load_graph(source, self.input_names, self.output_names)
        else:
            # The model must live as long as its signature, which does not keep the variables alive.
            self._model, signature = load_signature(source)
            self._check_names(signature)
            self._function = lambda inputs: signature(**inputs)
            shapes = {name: spec.shape for name, spec in inputs_of(signature).items()}
            self.warn_of_version(saved_version(source), tensorflow.__version__)
        self.scalar_inputs = [name for name, shape in shapes.items() if shape.rank == 0]

    def run(self, inputs):
        tensorflow = self._tensorflow
        with tensorflow.device(self._device):
            outputs = self._function({name: self._tensor(array) for name, array in inputs.items()})
        return {name: self._array(name, outputs[name]) for name in self.output_names}

    def _tensor(self, array):
        if array.dtype == BF16:
            # numpy has no such type; TensorFlow has one.
            array = array.view(np.uint16).view(self._tensorflow.bfloat16.as_numpy_dtype)
        return self._tensorflow.convert_to_tensor(array)

    def _array(self, name, tensor):
        if isinstance(tensor, self._tensorflow.RaggedTensor):
            raise ModelError(
                "output '%s' is ragged, rows of different lengths: the protocol knows arrays only. Export a signature that "
                "ends with to_tensor()" % name
            )
        # A value without a dimension is a plain number, or bytes.
        value = tensor.numpy()
        if isinstance(value, np.ndarray):
            return value
        return np.array(value, dtype=object if isinstance(value, bytes) else None)

    def _check_names(self, signature):
        given = {"input": inputs_of(signature), "output": signature.structured_outputs}
        for role, known in given.items():
            for name in self.input_names if role == "input" else self.output_names:
                if name not in known:
                    raise ModelError(
                        "unexpected inference %s '%s' for model '%s': its signature has %s"
                        % (role, name, self.source.name, ", ".join(sorted(known)))
                    )


def device_of(tensorflow, source):
    if not source.is_gpu:
        return "/CPU:0"
    gpus = tensorflow.config.list_physical_devices("GPU")
    if source.device_id >= len(gpus):
        raise ModelError(
            "model '%s' wants GPU %d (KIND_GPU), and TensorFlow %s sees %d of them: install one with CUDA, or write "
            "instance_group { kind: KIND_CPU }" % (source.name, source.device_id, tensorflow.__version__, len(gpus))
        )
    # Without this, the first instance would take all of the device's memory.
    tensorflow.config.set_visible_devices(gpus[source.device_id], "GPU")
    tensorflow.config.experimental.set_memory_growth(gpus[source.device_id], True)
    return "/GPU:0"


def is_graph(source):
    return source.config.get("platform") == "tensorflow_graphdef" or source.path.endswith(".graphdef")


def load_signature(source):
    import tensorflow

    try:
        model = tensorflow.saved_model.load(source.path, tags=[tag_of(source)])
    except (RuntimeError, ValueError, OSError) as error:
        tag = tag_of(source)
        raise ModelError("model '%s' cannot be loaded with the graph tag '%s': %s" % (source.name, tag, error)) from None
    return model, model.signatures[chosen_signature(source, sorted(model.signatures))]


def tag_of(source):
    return source.parameter("TF_GRAPH_TAG") or "serve"


def chosen_signature(source, names):
    asked = source.parameter("TF_SIGNATURE_DEF")
    wanted = asked or "serving_default"
    if wanted in names:
        return wanted
    # The only signature, unless the configuration names another.
    if asked is None and len(names) == 1:
        return names[0]
    raise ModelError(
        "model '%s' has no signature '%s'; there is %s. Choose one with the parameter TF_SIGNATURE_DEF"
        % (source.name, wanted, ", ".join(names) if names else "none: save it with signatures=")
    )


def read_saved_model(source):
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    path = os.path.join(source.path, "saved_model.pb")
    try:
        with open(path, "rb") as file:
            saved.ParseFromString(file.read())
    except (OSError, ValueError) as error:
        raise ModelError("'%s' of model '%s' cannot be read: %s" % (path, source.name, error)) from None
    return saved


def signature_of(source):
    """Reads the file without loading the model: threads and devices can be chosen only before a load."""
    graphs = read_saved_model(source).meta_graphs
    graph = next((graph for graph in graphs if tag_of(source) in graph.meta_info_def.tags), None)
    if graph is None:
        tags = sorted({tag for one in graphs for tag in one.meta_info_def.tags})
        raise ModelError(
            "model '%s' has no graph with the tag '%s' (TF_GRAPH_TAG); there is %s"
            % (source.name, tag_of(source), ", ".join(tags))
        )
    names = sorted(name for name in graph.signature_def if name != "__saved_model_init_op")
    return graph.signature_def[chosen_signature(source, names)]


def inputs_of(signature):
    return signature.structured_input_signature[1]


def _told(name, tensor):
    import tensorflow

    if tensor.WhichOneof("encoding") != "name":
        raise ModelError(
            "tensor '%s' is ragged or sparse, rows of different lengths: the protocol knows arrays only. Export a signature with "
            "to_tensor()" % name
        )
    shape = tensor.tensor_shape
    sizes = None if shape.unknown_rank else [-1 if dim.size < 0 else dim.size for dim in shape.dim]
    return _described(name, tensorflow.dtypes.as_dtype(tensor.dtype).name, sizes)


def _described(name, kind, shape):
    if kind not in DATA_TYPES:
        raise ModelError("tensor '%s' is of type %s, which the protocol cannot carry" % (name, kind))
    return TensorDescription(name, DATA_TYPES[kind], [-1] if shape is None else shape)


def saved_version(source):
    graphs = read_saved_model(source).meta_graphs
    return graphs[0].meta_info_def.tensorflow_version if graphs else ""


def read_graph(source):
    import tensorflow

    graph = tensorflow.compat.v1.GraphDef()
    with open(source.path, "rb") as file:
        graph.ParseFromString(file.read())
    return graph


def describe_graph(source):
    """Placeholders are the inputs; values that no other node uses are the outputs."""
    import tensorflow

    definition = read_graph(source)
    graph = tensorflow.Graph()
    with graph.as_default():
        tensorflow.import_graph_def(definition, name="")
    taken = {name.split(":")[0].lstrip("^") for node in definition.node for name in node.input}
    operations = graph.get_operations()
    inputs = [one for one in operations if one.type == "Placeholder"]
    outputs = [one for one in operations if one.name not in taken and one.outputs and one not in inputs]

    def told(operation):
        tensor = operation.outputs[0]
        shape = None if tensor.shape.rank is None else [-1 if size is None else size for size in tensor.shape]
        return _described(operation.name, tensor.dtype.base_dtype.name, shape)

    return Description([told(one) for one in inputs], [told(one) for one in outputs], {"nodes": len(definition.node)})


def load_graph(source, input_names, output_names):
    import tensorflow

    definition = read_graph(source)
    wrapped = tensorflow.compat.v1.wrap_function(
        lambda: tensorflow.compat.v1.import_graph_def(definition, name=""), []
    )

    def element(name):
        try:
            return wrapped.graph.as_graph_element(name if ":" in name else name + ":0")
        except (KeyError, ValueError):
            raise ModelError("the graph of model '%s' has no tensor '%s'" % (source.name, name)) from None

    pruned = wrapped.prune([element(name) for name in input_names], [element(name) for name in output_names])

    def call(inputs):
        return dict(zip(output_names, pruned(*(inputs[name] for name in input_names))))

    return call, {name: element(name).shape for name in input_names}


def _set_threads(tensorflow, source):
    for parameter, setter in (
        ("TF_NUM_INTRA_THREADS", tensorflow.config.threading.set_intra_op_parallelism_threads),
        ("TF_NUM_INTER_THREADS", tensorflow.config.threading.set_inter_op_parallelism_threads),
    ):
        count = source.integer(parameter, 0)
        if count:
            setter(count)
