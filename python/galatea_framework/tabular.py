"""Models of tables (scikit-learn, boosted trees): rows of features in; labels, probabilities or numbers out."""
import numpy as np

import triton_python_backend_utils as pb_utils

from .description import TensorDescription
from .source import ModelError


# Names of outputs that say what they are. An output with one of these names is that, or the model is refused.
MEANINGS = ("label", "prediction", "probabilities", "log_probabilities", "scores", "sample_scores", "transformed")


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


def classifier_outputs(classes, number_type):
    """`classes` is how many there are."""
    return [
        TensorDescription("label", "TYPE_INT64", [-1]),
        TensorDescription("probabilities", number_type, [-1, classes]),
    ]


def regressor_outputs(number_type, targets=1):
    return [TensorDescription("prediction", number_type, [-1] if targets == 1 else [-1, int(targets)])]


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
