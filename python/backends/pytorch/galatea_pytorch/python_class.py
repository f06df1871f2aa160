"""A class in `model.py` with its weights in `model.pt`: Triton's "PyTorch 2" mode."""
import importlib.util
import inspect
import json
import os
import typing

from galatea_framework import ModelError, Undescribed

from .loaded import Loaded
from .named_arguments import example_config


def load(source, device):
    import torch

    module = class_of(source)()
    weights = os.path.splitext(program_of(source))[0] + ".pt"
    if os.path.exists(weights):
        # `weights_only`: torch refuses a pickle with code. The tensors are mapped and not copied, so that instances on
        # the CPU share the pages of the file.
        state = torch.load(weights, map_location="cpu", weights_only=True, mmap=True)
        try:
            module.load_state_dict(state, assign=True)
        except RuntimeError as error:
            raise ModelError("the weights in '%s' are not those of the class: %s" % (weights, error)) from None
    if device is not None:
        module = module.to(device)
    module.eval()
    parameters = forward_of(module)
    return Loaded(compiled(source, module), module, [one.name for one in parameters], container_of(parameters))


def compiled(source, module):
    import torch

    text = source.parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS")
    if text is None:
        return module
    words = {"True": True, "False": False}
    try:
        settings = {
            key: words.get(value, value) if isinstance(value, str) else value for key, value in json.loads(text).items()
        }
        return torch.compile(module, **settings)
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise ModelError(
            "parameter TORCH_COMPILE_OPTIONAL_PARAMETERS of model '%s': expected the options of torch.compile as JSON, got "
            "'%s': %s" % (source.name, text, error)
        ) from None


def program_of(source):
    runtime = source.config.get("runtime", "")
    name = os.path.basename(source.path) if source.path.endswith(".py") else runtime or "model.py"
    return os.path.join(source.model_dir, name)


def class_of(source):
    import torch

    path = program_of(source)
    if not os.path.exists(path):
        raise ModelError("model '%s' has no '%s'" % (source.name, path))
    spec = importlib.util.spec_from_file_location("galatea_pytorch_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    ]
    # Without a class of this name the last class is the model; earlier classes are its parts.
    chosen = [value for value in classes if value.__name__ == "Model"] or classes[-1:]
    if not chosen:
        raise ModelError("'%s' of model '%s' defines no subclass of torch.nn.Module" % (os.path.basename(path), source.name))
    return chosen[0]


def forward_of(module):
    """The arguments that have a name; for a class without self."""
    parameters = inspect.signature(module.forward).parameters
    return [
        parameter
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def container_of(parameters):
    if len(parameters) != 1:
        return None
    kind = typing.get_origin(parameters[0].annotation) or parameters[0].annotation
    return kind if kind in (dict, list) else None


def describe(source):
    names = [parameter.name for parameter in forward_of(class_of(source))]
    raise Undescribed(
        "a class does not say what the inputs and outputs of model '%s' are. This config.pbtxt serves it once the types and "
        "dims are the model's own:" % source.name,
        example_config(names) + 'runtime: "model.py"\n',
    )
