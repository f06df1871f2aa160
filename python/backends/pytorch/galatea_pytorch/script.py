"""TorchScript: `torch.jit.save(torch.jit.script(model), 'model.pt')`."""
from galatea_framework import ModelError, Undescribed

from .loaded import Loaded
from .named_arguments import example_config


def load(source, device):
    module = read(source, device)
    arguments = arguments_of(module)
    container = None
    if len(arguments) == 1:
        kind = arguments[0].type
        if kind.kind() == "DictType":
            container = dict
        elif kind.kind() == "ListType" and kind.getElementType().kind() == "TensorType":
            container = list
    return Loaded(with_plain_texts(module, arguments), module, [argument.name for argument in arguments], container)


def with_plain_texts(module, arguments):
    """Strings come as lists. An argument of the type `str` gets the only one of its list."""
    texts = {argument.name for argument in arguments if argument.type.kind() == "StringType"}
    if not texts:
        return module
    order = [argument.name for argument in arguments]

    def one(name, value):
        if name not in texts or not isinstance(value, list):
            return value
        if len(value) != 1:
            raise ModelError("argument '%s' of forward is a str, one text for each call, and got %d texts" % (name, len(value)))
        return value[0]

    return lambda *given, **named: module(
        *(one(name, value) for name, value in zip(order, given)), **{name: one(name, value) for name, value in named.items()}
    )


def read(source, device):
    import torch

    try:
        return torch.jit.load(source.path, map_location=device).eval()
    except RuntimeError as error:
        first = str(error).splitlines()[0]
        if "PytorchStreamReader" in first or "constants.pkl" in first:
            if has_code(source.path):
                raise ModelError(
                    "'%s' is a model that was saved whole (torch.save(model)): a pickle, which needs the code of its classes. "
                    "Load it where that code is, and save it as a program: "
                    "torch.export.save(torch.export.export(model, example_inputs), 'model.pt2')" % source.path
                ) from None
            raise ModelError(
                "'%s' is not TorchScript (%s). If it holds weights alone, put the class that they belong to beside it as "
                'model.py and write runtime: "model.py" into config.pbtxt' % (source.path, first.split(". ")[0])
            ) from None
        raise


def has_code(path):
    """Whether a pickle names classes beside tensors. It is read without running any of them."""
    import pickle

    import torch

    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return True
    except Exception:
        # It is cut off, or of another kind.
        return False
    return False


def arguments_of(module):
    return module.forward.schema.arguments[1:]


def describe(source):
    """TorchScript knows the names of its arguments and nothing about types, shapes and outputs."""
    import torch

    module = read(source, torch.device("cpu"))
    arguments = arguments_of(module)
    names = [argument.name for argument in arguments]
    if len(arguments) == 1 and arguments[0].type.kind() in ("DictType", "ListType"):
        names = ["INPUT__0"]
    texts = {argument.name for argument in arguments if "str" in str(argument.type)}
    raise Undescribed(
        "TorchScript does not say what the inputs and outputs of model '%s' are. This config.pbtxt serves it once the types "
        "and dims are the model's own:" % source.name,
        example_config(names, texts, returned_types(module)),
    )


def returned_types(module):
    """The types of the outputs, as far as the schema tells them: texts, or else a guess."""
    answer = module.forward.schema.returns[0].type
    parts = answer.elements() if answer.kind() == "TupleType" else [answer]
    return ["TYPE_STRING" if str(part) in ("str", "List[str]") else "TYPE_FP32" for part in parts]
