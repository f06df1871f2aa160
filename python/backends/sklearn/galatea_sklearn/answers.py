"""What an estimator gives: its methods are tried on two rows that it should know, because only their answers tell the types and
shapes for certain."""
import warnings

import numpy as np

from galatea_framework import ModelError, TensorDescription

# The name of an output, and the estimator's method that computes it. The methods' own names are taken as well.
OUTPUT_METHODS = {
    "label": "predict",
    "prediction": "predict",
    "probabilities": "predict_proba",
    "log_probabilities": "predict_log_proba",
    "scores": "decision_function",
    "sample_scores": "score_samples",
    "transformed": "transform",
}
OUTPUT_METHODS.update({method: method for method in list(OUTPUT_METHODS.values())})

# What a sparse answer may take as an array.
MOST_DENSE_BYTES = 256 * 2**20
_NUMBERS = (np.float64(0), np.float64(1), np.float64(0.5), np.float32(0), np.float32(1))
_TYPES = {"i": "TYPE_INT64", "u": "TYPE_INT64", "b": "TYPE_BOOL", "U": "TYPE_STRING", "S": "TYPE_STRING"}


def known_outputs(estimator):
    """The names that outputs may have. Where each of several targets has its own number of classes, `probabilities_0` and so on
    are those of one target."""
    known = [output for output, method in OUTPUT_METHODS.items() if hasattr(estimator, method)]
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list) and "probabilities" in known:
        known += ["probabilities_%d" % index for index in range(len(classes))]
    return known


def described_names(estimator):
    """The outputs that a description has: every answer of an estimator that predicts, else what it transforms to."""
    predicted = "label" if getattr(estimator, "classes_", None) is not None else "prediction"
    names = [name for name in (predicted, "probabilities", "scores") if hasattr(estimator, OUTPUT_METHODS[name])]
    if hasattr(estimator, "predict"):
        return names
    return [name for name in ("transformed", "scores", "sample_scores") if hasattr(estimator, OUTPUT_METHODS[name])][:1]


class Trial:
    """The answers to two rows, by output. `reason` says why there are none."""

    def __init__(self, estimator, intake):
        self.reason = None
        self.answers = {}
        # True when the estimator takes float32 and no float64.
        self.is_single = False
        wanted = described_names(estimator)
        for number in _NUMBERS:
            answers, error = self._tried(estimator, intake.sample(number))
            # The reason of the first try is told: its row is the most usual one.
            self.reason = self.reason or error
            if len(answers) > len(self.answers):
                self.answers = answers
                self.is_single = number.dtype == np.float32
            if all(_is_answered(name, answers) for name in wanted):
                break
        if self.answers:
            self.reason = None

    def _tried(self, estimator, rows):
        answers = {}
        given = {}
        for name in known_outputs(estimator):
            method, _ = method_of(name)
            if method not in given:
                given[method] = _quietly(estimator, method, rows)
            if isinstance(given[method], Exception):
                continue
            try:
                answers[name] = shaped(name, given[method])
            except ValueError:
                # The targets have different numbers of classes: each has an output of its own.
                continue
        return answers, next((one for one in given.values() if isinstance(one, Exception)), None)


def _is_answered(name, answers):
    return name in answers or (name == "probabilities" and "probabilities_0" in answers)


def _quietly(estimator, method, rows):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(estimator, method)(rows)
    except Exception as error:
        return error


def method_of(output):
    """The method that computes an output, and the target that the output is for, or None."""
    name, _, target = output.rpartition("_")
    return (OUTPUT_METHODS[name], int(target)) if target.isdigit() else (OUTPUT_METHODS[output], None)


def compute(estimator, output, rows):
    method, _ = method_of(output)
    return shaped(output, getattr(estimator, method)(rows))


def shaped(output, values):
    """The answer for one output as one array."""
    _, target = method_of(output)
    if target is not None and not isinstance(values, list):
        raise ValueError("the targets share one array")
    if target is not None:
        return plain(values[target])
    # With several targets there is one array per target.
    return np.stack([plain(one) for one in values], axis=1) if isinstance(values, list) else plain(values)


def plain(values):
    """Sparse matrices and DataFrames as arrays."""
    if hasattr(values, "toarray"):
        check_dense_size(values)
        values = values.toarray()
    return np.asarray(values)


def check_dense_size(values):
    """A sparse answer of a few kilobytes may be an array of gigabytes: rows times words of a vocabulary."""
    size = int(np.prod(values.shape, dtype=object)) * values.dtype.itemsize
    if size > MOST_DENSE_BYTES:
        raise ValueError(
            "the answer is a sparse matrix of shape %s, which would take %d bytes as an array, more than %d: send fewer rows at a time"
            % (list(values.shape), size, MOST_DENSE_BYTES)
        )


def described(estimator, trial):
    """Descriptions of the outputs. Raises ModelError when there is none that the protocol can carry."""
    names = described_names(estimator)
    split = [name for name in trial.answers if name.startswith("probabilities_")]
    if "probabilities" in names and "probabilities" not in trial.answers:
        names[names.index("probabilities") : names.index("probabilities") + 1] = split
    return [
        TensorDescription(name, type_of(trial.answers[name]), [-1] + list(trial.answers[name].shape[1:]))
        for name in names
        if name in trial.answers
    ]


def type_of(array):
    """The type in config.pbtxt; an error for what has none."""
    if array.dtype == np.float32 or array.dtype == np.float16:
        return "TYPE_FP32"
    if array.dtype.kind == "f":
        return "TYPE_FP64"
    if array.dtype.kind == "O":
        kinds = {np.asarray(value).dtype.kind for value in array.flat}
        if len(kinds) == 1 and kinds <= set("iubf"):
            return type_of(np.array(array.tolist()))
        if kinds <= set("US"):
            return "TYPE_STRING"
        raise ModelError("its answer mixes texts and other values, which no tensor can hold")
    if array.dtype.kind not in _TYPES:
        raise ModelError("its answer is of the type %s, which the protocol cannot carry" % array.dtype)
    return _TYPES[array.dtype.kind]


def check_output(source, tensor, array):
    """Refuses an output whose configuration would change the answer."""
    kind, wanted = type_of(array), tensor["data_type"]
    is_integer = wanted.startswith(("TYPE_INT", "TYPE_UINT"))
    fits = {
        "TYPE_STRING": wanted == "TYPE_STRING",
        "TYPE_BOOL": wanted == "TYPE_BOOL" or is_integer or wanted.startswith("TYPE_FP"),
        "TYPE_INT64": is_integer or wanted.startswith("TYPE_FP"),
    }.get(kind, wanted.startswith("TYPE_FP"))
    if not fits:
        raise ModelError(
            "output '%s' of model '%s' is %s, and the estimator answers with %s: write data_type: %s"
            % (tensor["name"], source.name, wanted, kind, kind)
        )
    dims = row_shape(source, tensor)
    row = list(array.shape[1:])
    if -1 in dims:
        return
    if np.prod(dims, dtype=np.int64) != np.prod(row, dtype=np.int64):
        shape = (row or [1]) if source.is_batching else [-1] + row
        raise ModelError(
            "output '%s' of model '%s' has dims %s, and the estimator answers with %d values a row: write dims: %s"
            % (tensor["name"], source.name, tensor["dims"], np.prod(row, dtype=np.int64), shape)
        )


def row_shape(source, tensor):
    """The shape of one row as the server expects it from the model."""
    shape = tensor.get("reshape", {}).get("shape", tensor["dims"])
    return list(shape) if source.is_batching else list(shape)[1:]
