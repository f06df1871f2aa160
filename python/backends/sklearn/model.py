"""scikit-learn: estimators saved with skops (`model.skops`), or as a pickle (`model.joblib`, `model.pkl`) where allowed."""
import sys

from galatea_framework import Description, FrameworkModel, ModelError, Undescribed, tabular
from galatea_sklearn import answers
from galatea_sklearn.estimator_file import load_estimator
from galatea_sklearn.intake import Intake, RowReader


class TritonPythonModel(FrameworkModel):
    framework = "scikit-learn"
    module = "sklearn"
    package = "scikit-learn"
    file_names = ("model.skops", "model.joblib", "model.pkl")
    uses_gpus = False
    # Unknown categories, NaN where no NaN may be, another number of columns, texts that are no UTF-8.
    input_errors = (ValueError,)

    @classmethod
    def describe(cls, source):
        estimator, saved_with = load_estimator(source)
        refuse_unservable(source, estimator)
        intake = Intake(estimator)
        trial = tried(source, estimator, intake)
        if trial.reason is not None:
            raise undescribed(source, estimator, intake, trial.reason)
        try:
            outputs = answers.described(estimator, trial)
        except ModelError as error:
            raise ModelError("model '%s', a %s, cannot be served: %s" % (source.name, name_of(estimator), error)) from None
        facts = {"estimator": name_of(estimator), "saved with": saved_with or cls.import_framework().__version__}
        if intake.names is not None:
            facts["columns"] = ", ".join(intake.names)
        return Description(intake.described(), outputs, facts, cls.class_names(source))

    @classmethod
    def class_names(cls, source):
        """Numbers from 0 on need no names: the extension shows indices."""
        classes = getattr(load_estimator(source)[0], "classes_", None)
        if classes is None or isinstance(classes, list):
            return {}
        names = [str(name) for name in classes]
        if names == [str(index) for index in range(len(names))]:
            return {}
        configured = [tensor["name"] for tensor in source.config.get("output", [])] or ["probabilities", "scores"]
        return {name: names for name in configured if name != "label"}

    def load(self, source):
        if not source.path.endswith(".skops"):
            self.warn_of_pickle()
        estimator, saved_with = load_estimator(source)
        self.warn_of_version(saved_with, self.import_framework().__version__)
        refuse_unservable(source, estimator)
        intake = Intake(estimator)
        self._reader = RowReader(source, intake, source.config["input"])
        known = answers.known_outputs(estimator)
        self._answers = tabular.answers_of(source, self.output_names, known, name_of(estimator))
        trial = tried(source, estimator, intake)
        self._reader.is_single = trial.is_single
        self._shapes = {}
        for tensor in source.config["output"]:
            answer = self._answers[tensor["name"]]
            if answer in trial.answers:
                answers.check_output(source, tensor, trial.answers[answer])
            shape = answers.row_shape(source, tensor)
            self._shapes[tensor["name"]] = None if -1 in shape else shape
        self._steps, self._last = split(estimator)

    def run(self, inputs):
        rows = self._reader.rows(inputs)
        wanted = [name for name in self._answers if name in self.requested]
        estimator = self._last
        for step in self._steps:
            rows = step.transform(rows)
        return {name: self._shaped(name, answers.compute(estimator, self._answers[name], rows)) for name in wanted}

    def _shaped(self, name, values):
        array = tabular.as_output(values, self.output_types[name])
        shape = self._shapes[name]
        return array if shape is None else array.reshape([array.shape[0]] + shape)


def split(estimator):
    """A pipeline's transformers and its last step, so that several answers need the transformers only once."""
    from sklearn.pipeline import Pipeline

    if type(estimator) is not Pipeline or len(estimator.steps) < 2:
        return [], estimator
    steps = [step for _, step in estimator.steps]
    if any(step is None or isinstance(step, str) for step in steps[-1:]):
        return [], estimator
    return [step for step in steps[:-1] if step is not None and not isinstance(step, str)], steps[-1]


def name_of(estimator):
    """The type, with that of the estimator that a search or a pipeline ends in."""
    name = type(estimator).__name__
    inner = getattr(estimator, "best_estimator_", None)
    if hasattr(estimator, "steps"):
        inner = estimator.steps[-1][1]
    return name if inner is None or isinstance(inner, str) else "%s of %s" % (name, name_of(inner))


def refuse_unservable(source, estimator):
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(estimator, "fit"):
        raise ModelError(
            "the file of model '%s' holds a %s and no estimator: save the fitted estimator itself"
            % (source.name, type(estimator).__name__)
        )
    if not answers.known_outputs(estimator):
        raise ModelError(
            "model '%s' is a %s, which has none of %s: it can say something only about the rows that it was fitted on"
            % (source.name, name_of(estimator), ", ".join(dict.fromkeys(answers.OUTPUT_METHODS.values())))
        )
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise ModelError(
            "model '%s' is a %s that is not fitted: call fit before it is saved" % (source.name, name_of(estimator))
        ) from None
    except TypeError:
        # Not one of scikit-learn's, but something that behaves like one.
        pass


def tried(source, estimator, intake):
    trial = answers.Trial(estimator, intake)
    if trial.reason is not None and intake.names is not None and intake.pandas is None:
        raise ModelError(
            "model '%s', a %s, was fitted on a DataFrame and takes nothing else (%s): '%s -m pip install pandas' installs what "
            "makes one" % (source.name, name_of(estimator), trial.reason, sys.executable)
        )
    return trial


def undescribed(source, estimator, intake, reason):
    """The estimator refused every row that was tried, so its owner must say what it answers with."""
    inputs = "".join(
        'input { name: "%s" data_type: %s dims: [ %d ] }\n' % (one.name, one.data_type, (one.shape + [1])[1])
        for one in intake.described()
    )
    outputs = "".join(
        'output { name: "%s" data_type: TYPE_FP64 dims: [ -1 ] }\n' % name for name in answers.described_names(estimator)
    )
    return Undescribed(
        "model '%s', a %s, answers none of the rows that were tried to learn its outputs (%s: %s). Write them into config.pbtxt:"
        % (source.name, name_of(estimator), type(reason).__name__, reason),
        'backend: "sklearn"\nmax_batch_size: 8\n%s%s' % (inputs, outputs),
    )
