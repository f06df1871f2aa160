"""scikit-learn: estimators saved with skops (`model.skops`), or as a pickle (`model.joblib`, `model.pkl`) where allowed."""
import warnings

import numpy as np

from galatea_framework import Description, FrameworkModel, ModelError, TensorDescription, tabular
from galatea_framework.model import require_pickles

# The name of an output, and the estimator's method that computes it.
OUTPUT_METHODS = {
    "label": "predict",
    "prediction": "predict",
    "probabilities": "predict_proba",
    "scores": "decision_function",
    "transformed": "transform",
}


class TritonPythonModel(FrameworkModel):
    framework = "scikit-learn"
    module = "sklearn"
    package = "scikit-learn"
    file_names = ("model.skops", "model.joblib", "model.pkl")
    uses_gpus = False
    knows_class_names = True

    @classmethod
    def describe(cls, source):
        estimator, saved_with = load_estimator(source)
        count = getattr(estimator, "n_features_in_", None)
        if count is None:
            raise cls.undescribed(source)
        facts = {"estimator": type(estimator).__name__, "saved with": saved_with or cls.import_framework().__version__}
        return Description([tabular.feature_input(count)], outputs_of(estimator), facts, class_names_of(estimator, source))

    def load(self, source):
        if not source.path.endswith(".skops"):
            self.warn_of_pickle()
        self._estimator, saved_with = load_estimator(source)
        self.warn_of_version(saved_with, self.import_framework().__version__)
        known = [output for output, method in OUTPUT_METHODS.items() if hasattr(self._estimator, method)]
        self._answers = tabular.answers_of(source, self.output_names, known, type(self._estimator).__name__)
        self._columns = tabular.column_names(getattr(self._estimator, "feature_names_in_", None))

    def run(self, inputs):
        rows = tabular.features(inputs, self.input_names, self._columns)
        return {
            name: tabular.as_output(self._compute(answer, rows), self.output_types[name])
            for name, answer in self._answers.items()
        }

    def _compute(self, answer, rows):
        values = getattr(self._estimator, OUTPUT_METHODS[answer])(rows)
        # With several targets there is one array per target.
        if isinstance(values, list):
            return np.stack(values, axis=1)
        return values.toarray() if hasattr(values, "toarray") else values


def outputs_of(estimator):
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list):
        # Several targets, each with classes of its own.
        return [TensorDescription("label", tabular.label_type(np.concatenate(classes)), [-1, len(classes)])]
    if classes is not None:
        outputs = tabular.classifier_outputs(classes)
        return outputs if hasattr(estimator, "predict_proba") else outputs[:1]
    if hasattr(estimator, "predict"):
        return tabular.regressor_outputs(target_count(estimator))
    return [TensorDescription("transformed", "TYPE_FP32", [-1, -1])]


def target_count(estimator):
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if hasattr(last, "n_outputs_"):
        return last.n_outputs_
    coefficients = getattr(last, "coef_", None)
    return coefficients.shape[0] if getattr(coefficients, "ndim", 1) == 2 else 1


def class_names_of(estimator, source):
    """The class names for the classification extension. Numbers from 0 on need no names: the extension shows indices."""
    classes = getattr(estimator, "classes_", None)
    if classes is None or isinstance(classes, list):
        return {}
    names = [str(name) for name in classes]
    if names == [str(index) for index in range(len(names))]:
        return {}
    configured = [tensor["name"] for tensor in source.config.get("output", [])] or ["probabilities", "scores"]
    return {name: names for name in configured if name != "label"}


# The process that described the model may go on to serve it, so the estimator is kept.
_loaded = {}


def load_estimator(source):
    """The estimator, and the version that saved it when that differs from the running version."""
    if source.path not in _loaded:
        _loaded[source.path] = read_estimator(source)
    return _loaded[source.path]


def read_estimator(source):
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InconsistentVersionWarning)
        estimator = read_skops(source) if source.path.endswith(".skops") else read_pickle(source)
    versions = [getattr(one.message, "original_sklearn_version", None) for one in caught]
    return estimator, next((version for version in versions if version), None)


def read_pickle(source):
    require_pickles(source, "save it with skops: skops.io.dump(estimator, 'model.skops')")
    import joblib

    return joblib.load(source.path)


def read_skops(source):
    try:
        import skops.io
    except ModuleNotFoundError:
        raise ModelError("model '%s' is a skops file: 'pip install skops' brings what reads it" % source.name) from None
    trusted = (source.parameter("skops_trusted") or "").split(",")
    # A type of the framework itself runs only code of the framework.
    found = skops.io.get_untrusted_types(file=source.path)
    unknown = [name for name in found if name.split(".")[0] not in ("sklearn", "numpy", "scipy") and name not in trusted]
    if unknown:
        raise ModelError(
            "model '%s' holds types that nobody vouches for: %s. Name those that you trust in the parameter skops_trusted, "
            "with commas between them" % (source.name, ", ".join(unknown))
        )
    return skops.io.load(source.path, trusted=found)
