"""The description in a model file, and how it completes a configuration (Triton's rules for ONNX models)."""
from .source import ModelError, backend_setting


class Undescribed(ModelError):
    """The format has no names, types or shapes, so config.pbtxt must have them; `config` is a first text for it."""

    def __init__(self, message, config):
        super().__init__("%s\n\n%s" % (message, config))
        self.config = config


class TensorDescription:
    def __init__(self, name, data_type, shape):
        """`data_type` as in config.pbtxt; -1 in `shape` is a dimension of any size."""
        self.name = name
        self.data_type = data_type
        self.shape = list(shape)

    def as_dict(self):
        return {"name": self.name, "data_type": self.data_type, "shape": self.shape}


class Description:
    def __init__(self, inputs, outputs, facts=None, class_names=None):
        """`facts` are for people: what `galatea inspect` prints beside the tensors. `class_names` are lists by output: what
        the classification extension answers with where there is no label file."""
        self.inputs = inputs
        self.outputs = outputs
        self.facts = facts or {}
        self.class_names = class_names or {}

    @property
    def can_batch(self):
        tensors = self.inputs + self.outputs
        return bool(tensors) and all(tensor.shape and tensor.shape[0] == -1 for tensor in tensors)

    def as_dict(self):
        return {
            "inputs": [tensor.as_dict() for tensor in self.inputs],
            "outputs": [tensor.as_dict() for tensor in self.outputs],
            "facts": self.facts,
        }


def complete(config, description):
    """Fills in fields that the configuration leaves out; its own fields stay."""
    draft = config.as_dict()
    draft["class_names"] = description.class_names
    if draft["input"] and draft["output"]:
        return config
    if not description.can_batch and draft["max_batch_size"] > 0:
        raise ModelError(
            "autofill failed for model '%s': model does not support batching while non-zero max_batch_size is specified"
            % draft["name"]
        )
    if description.can_batch:
        if draft["max_batch_size"] == 0:
            draft["max_batch_size"] = int(backend_setting("default-max-batch-size", 4))
        if draft["max_batch_size"] > 1 and not any(
            scheduler in draft for scheduler in ("sequence_batching", "ensemble_scheduling")
        ):
            config.set_dynamic_batching()
    drop = 1 if draft["max_batch_size"] > 0 else 0
    if not draft["input"]:
        draft["input"] = [_entry(tensor, drop) for tensor in description.inputs]
    if not draft["output"]:
        draft["output"] = [_entry(tensor, drop) for tensor in description.outputs]
    return config


def _entry(tensor, drop):
    dims = tensor.shape[drop:]
    entry = {"name": tensor.name, "data_type": tensor.data_type, "dims": dims or [1]}
    if not dims and drop:
        # `dims` must not be empty: a row of one number is one element on the wire and has no dimension in the model.
        entry["reshape"] = {"shape": []}
    return entry
