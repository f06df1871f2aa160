"""load_model, unload_model, is_model_ready."""
import numpy as np

from .calls import ask
from .context import context
from .errors import TritonModelException
from .tensor import Tensor
from .text import text_of


def load_model(model_name, config="", files=None):
    name, text = text_of(model_name), text_of(config)
    if name is None or text is None or not isinstance(files, (dict, type(None))):
        raise TypeError(
            "load_model(): incompatible function arguments. The following argument types are supported:\n"
            "    1. (model_name: str, config: str = '', files: object = None) -> None\n\n"
            "Invoked with: %r, %r, %r" % (model_name, config, files)
        )
    tensors = [Tensor(path, np.frombuffer(bytes(data), np.uint8)) for path, data in (files or {}).items()]
    _control("Failed to load model", "loadModel", {"name": name, "config": text}, tensors)


def unload_model(model_name, unload_dependents=False):
    asked = {"name": _text(model_name), "unloadDependents": bool(unload_dependents)}
    _control("Failed to unload model", "unloadModel", asked)


def is_model_ready(model_name, model_version=""):
    asked = {"name": _text(model_name), "version": _text(model_version)}
    return bool(_control("Failed to check model readiness", "isModelReady", asked))


def _text(value):
    text = text_of(value)
    if text is None:
        raise TypeError("incompatible function arguments: expected a str, found %r" % (value,))
    return text


def _control(failure, method, arguments, tensors=()):
    try:
        return ask(method, arguments, tensors)
    except TritonModelException as error:
        raise TritonModelException(
            "%s: Failed to process the request for model '%s', message: %s" % (failure, context.instance_name, error)
        ) from None
