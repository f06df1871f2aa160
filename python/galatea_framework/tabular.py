"""Models of tables (scikit-learn, boosted trees): rows of features in; labels, probabilities or numbers out."""
import numpy as np

import triton_python_backend_utils as pb_utils

from .description import TensorDescription
from .source import ModelError


# Names of outputs that say what they are. An output with one of these names is that, or the model is refused.
MEANINGS = ("label", "prediction", "probabilities", "log_probabilities", "scores", "sample_scores", "transformed")


def features(inputs, names):
    """One input is the matrix of features; several are its columns, in the order of config.pbtxt."""
    columns = [inputs[name].reshape(inputs[name].shape[0], -1) for name in names]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def answers_of(source, output_names, known, what):
    """Which of the `known` answers each output is. A name of its own, as Triton's FIL backend has `output__0`, means what its
    parameters say: predict_proba, output_class, or else the plain prediction."""
    otherwise = next((one for one in ("prediction", "label", "transformed", "sample_scores") if one in known), known[0])
    if source.flag("predict_proba", False):
        otherwise = "probabilities"
    elif source.flag("output_class", False):
        otherwise = "label"
    answers = {name: name if name in known else otherwise for name in output_names}
    for name, answer in answers.items():
        if answer not in known or (name != answer and (len(output_names) > 1 or name in MEANINGS)):
            raise ModelError(
                "output '%s' of model '%s' is not one that a %s computes; there is %s"
                % (name, source.name, what, ", ".join(known))
            )
    return answers


def as_output(array, data_type):
    """Turns numpy's strings into objects, which the server needs."""
    array = np.asarray(array)
    if data_type == "TYPE_STRING":
        return array.astype(np.object_)
    return np.ascontiguousarray(array, dtype=pb_utils.triton_string_to_numpy(data_type))


def feature_input(count):
    return TensorDescription("input", "TYPE_FP32", [-1, int(count)])


def classifier_outputs(classes):
    """`classes` are the labels in the order of the probabilities."""
    return [
        TensorDescription("label", label_type(classes), [-1]),
        TensorDescription("probabilities", "TYPE_FP32", [-1, len(classes)]),
    ]


def regressor_outputs(targets=1):
    return [TensorDescription("prediction", "TYPE_FP32", [-1] if targets == 1 else [-1, int(targets)])]


def label_type(classes):
    kind = np.asarray(classes).dtype.kind
    return {"i": "TYPE_INT64", "u": "TYPE_INT64", "b": "TYPE_BOOL", "f": "TYPE_FP64"}.get(kind, "TYPE_STRING")


def probabilities_of(scores):
    """With two classes a booster returns only the probability of the second class."""
    return np.stack([1 - scores, scores], axis=1) if scores.ndim == 1 else scores


def booster_outputs(scores, classes, answers, types):
    """`classes` is how many the model tells apart, 0 when it answers with a number; `answers` are by output."""
    values = {"prediction": scores}
    if classes:
        values["probabilities"] = probabilities_of(scores)
        values["label"] = np.argmax(values["probabilities"], axis=1)
    return {name: as_output(values[answer], types[name]) for name, answer in answers.items()}


def booster_answers(source, output_names, classes, what):
    known = ["prediction", "label", "probabilities"] if classes else ["prediction"]
    return answers_of(source, output_names, known, what)
