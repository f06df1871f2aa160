"""`model.pt2`: programs of torch.export, and packages that were compiled ahead of time (AOTInductor)."""
import json
import zipfile

from galatea_framework import Description, ModelError, TensorDescription, Undescribed

from .loaded import Loaded
from .named_arguments import example_config

DATA_TYPES = {
    "torch.bool": "TYPE_BOOL",
    "torch.uint8": "TYPE_UINT8",
    "torch.uint16": "TYPE_UINT16",
    "torch.uint32": "TYPE_UINT32",
    "torch.uint64": "TYPE_UINT64",
    "torch.int8": "TYPE_INT8",
    "torch.int16": "TYPE_INT16",
    "torch.int32": "TYPE_INT32",
    "torch.int64": "TYPE_INT64",
    "torch.float16": "TYPE_FP16",
    "torch.bfloat16": "TYPE_BF16",
    "torch.float32": "TYPE_FP32",
    "torch.float64": "TYPE_FP64",
}


def is_compiled(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return any("aotinductor" in name for name in archive.namelist())
    except zipfile.BadZipFile:
        raise ModelError("'%s' is not a file that torch.export.save or AOTInductor wrote" % path) from None


def load(source, device):
    return load_package(source, device) if is_compiled(source.path) else load_program(source, device)


def load_package(source, device):
    """A compiled package is for one kind of device, and has no names of its arguments."""
    import torch

    index = device.index if device is not None and device.type == "cuda" else -1
    package = torch._inductor.aoti_load_package(source.path, device_index=index)
    wanted = package.get_metadata().get("AOTI_DEVICE_KEY", "")
    if wanted and device is not None and wanted != device.type:
        raise ModelError(
            "model '%s' was compiled for %s: its instance_group must be of KIND_%s"
            % (source.name, wanted, "GPU" if wanted == "cuda" else "CPU")
        )
    return Loaded(package, None)


def load_program(source, device):
    import torch
    from torch.utils import _pytree as pytree

    program = torch.export.load(source.path)
    if device is not None and device.type != "cpu":
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, device)
    module = program.module()
    structure = program.call_spec.in_spec

    def call(*flat):
        # A program that was exported with dictionaries and lists as arguments is called with them.
        arguments, keywords = pytree.tree_unflatten(list(flat), structure)
        return module(*arguments, **keywords)

    scalars = [tensor.name for tensor in tensors_of(program)[0] if not tensor.shape]
    return Loaded(call, module, user_inputs(program), saved_with=saved_version(source.path), scalar_names=scalars)


def user_inputs(program):
    return [name for name in program.graph_signature.user_inputs if isinstance(name, str)]


def tensors_of(program):
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = [_described(name, values[name]) for name in user_inputs(program)]
    names = output_names(program)
    outputs = [_described(name, values[node]) for name, node in zip(names, program.graph_signature.user_outputs)]
    return inputs, outputs


def output_names(program):
    """The keys of a dictionary, or numbers."""
    structure = program.call_spec.out_spec
    if structure.type is dict and all(isinstance(key, str) for key in structure.context):
        return list(structure.context)
    return ["OUTPUT__%d" % index for index in range(len(program.graph_signature.user_outputs))]


def describe(source):
    import torch

    if is_compiled(source.path):
        raise Undescribed(
            "a package that was compiled ahead of time does not say what the inputs and outputs of model '%s' are. This "
            "config.pbtxt serves it once the types and dims are the model's own, inputs numbered in the order of the "
            "arguments:" % source.name,
            example_config(["INPUT__0"]),
        )
    program = torch.export.load(source.path)
    inputs, outputs = tensors_of(program)
    facts = {"nodes": len(program.graph.nodes), "saved with": saved_version(source.path) or "unknown"}
    return Description(inputs, outputs, facts)


def saved_version(path):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(("models/model.json", "serialized_exported_program.json")):
                return json.loads(archive.read(name)).get("torch_version", "")
    return ""


def _described(name, value):
    kind = str(getattr(value, "dtype", type(value).__name__))
    if kind not in DATA_TYPES:
        raise ModelError("tensor '%s' is of type %s, which the protocol cannot carry" % (name, kind))
    return TensorDescription(name, DATA_TYPES[kind], [size if isinstance(size, int) else -1 for size in value.shape])
