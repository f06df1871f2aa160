"""load_model, unload_model, is_model_ready."""
import numpy as np

from .arguments import text_argument, text_of
from .calls import ask
from .context import context
from .errors import TritonModelException
from .tensor import Tensor


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
    name = text_argument("unload_model", "model_name", model_name)
    _control("Failed to unload model", "unloadModel", {"name": name, "unloadDependents": bool(unload_dependents)})


def is_model_ready(model_name, model_version=""):
    name = text_argument("is_model_ready", "model_name", model_name)
    # Triton takes no number here.
    version = model_version if type(model_version) is int else text_argument("is_model_ready", "model_version", model_version)
    asked = {"name": name, "version": version}
    return bool(_control("Failed to check model readiness", "isModelReady", asked))


def _control(failure, method, arguments, tensors=()):
    try:
        return ask(method, arguments, tensors)
    except TritonModelException as error:
        raise TritonModelException(
            "%s: Failed to process the request for model '%s', message: %s" % (failure, context.instance_name, error)
        ) from None
