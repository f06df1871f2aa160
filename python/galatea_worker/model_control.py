"""load_model, unload_model, is_model_ready."""
import numpy as np

from .calls import ask
from .context import context
from .errors import TritonModelException
from .tensor import Tensor


def load_model(model_name, config="", files=None):
    tensors = [Tensor(path, np.frombuffer(bytes(data), np.uint8)) for path, data in (files or {}).items()]
    _control("loadModel", {"name": model_name, "config": config}, tensors)


def unload_model(model_name, unload_dependents=False):
    _control("unloadModel", {"name": model_name, "unloadDependents": bool(unload_dependents)})


def is_model_ready(model_name, model_version=""):
    return bool(_control("isModelReady", {"name": model_name, "version": model_version}))


def _control(method, arguments, tensors=()):
    try:
        return ask(method, arguments, tensors)
    except TritonModelException as error:
        raise TritonModelException(
            "Failed to process the request for model '%s', message: %s" % (context.instance_name, error)
        ) from None
