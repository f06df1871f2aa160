"""XGBoost: boosters saved with `save_model`, as UBJSON or JSON."""
import json
import os
import re

import numpy as np

from galatea_framework import Description, FrameworkModel, ModelError, TensorDescription, tabular


class TritonPythonModel(FrameworkModel):
    framework = "XGBoost"
    module = "xgboost"
    package = "xgboost"
    # `xgboost.json` and `xgboost.model` are the names of Triton's FIL backend.
    file_names = ("model.ubj", "model.json", "xgboost.json", "xgboost.ubj", "xgboost.model")

    @classmethod
    def describe(cls, source):
        booster = load_booster(source)
        facts = {"objective": objective_of(booster), "trees": booster.num_boosted_rounds()}
        facts["saved with"] = saved_version(source.path) or "unknown"
        return Description([tabular.feature_input(booster.num_features())], outputs_of(booster), facts)

    def load(self, source):
        import xgboost

        self._booster = load_booster(source)
        self._booster.set_param({"nthread": source.integer("threads", 1, 1)})
        if source.is_gpu:
            self._booster.set_param({"device": "cuda:%d" % source.device_id})
        self._range = iteration_range(self._booster)
        self._classes = class_count(self._booster)
        if answers_with_labels(self._booster):
            self._answers = tabular.answers_of(source, self.output_names, ["label", "prediction"], "multi:softmax model")
        else:
            self._answers = tabular.booster_answers(source, self.output_names, self._classes, "XGBoost model")
        self.warn_of_version(saved_version(source.path), xgboost.__version__)

    def run(self, inputs):
        rows = tabular.features(inputs, self.input_names)
        # inplace_predict needs no DMatrix, which would copy the rows and cost more than a small forest.
        scores = self._booster.inplace_predict(rows, iteration_range=self._range)
        if self._classes:
            return tabular.booster_outputs(scores, self._classes, self._answers, self.output_types)
        return {name: tabular.as_output(scores, self.output_types[name]) for name in self._answers}


def load_booster(source):
    import xgboost

    try:
        return xgboost.Booster(model_file=source.path)
    except xgboost.core.XGBoostError as error:
        raise ModelError("XGBoost cannot read '%s': %s" % (source.path, str(error).splitlines()[-1])) from None


def iteration_range(booster):
    """All trees, or those up to the best iteration after early stopping, as XGBClassifier and XGBRegressor predict."""
    best = booster.attr("best_iteration")
    return (0, 0) if best is None else (0, int(best) + 1)


def _settings(booster):
    return json.loads(booster.save_config())["learner"]


def objective_of(booster):
    return _settings(booster)["objective"]["name"]


def saved_version(path):
    """Reads the last member of the file, in JSON and UBJSON, because the library gives only its own version."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 100))
        end = file.read()
    text = re.search(rb'"version":\s*\[(\d+),\s*(\d+),\s*(\d+)\]', end)
    if text:
        return ".".join(part.decode() for part in text.groups())
    binary = re.search(rb"version\[#L\0{7}\x03[iU](.)[iU](.)[iU](.)", end, re.DOTALL)
    return ".".join(str(part[0]) for part in binary.groups()) if binary else ""


def answers_with_labels(booster):
    return objective_of(booster) == "multi:softmax"


def class_count(booster):
    """The number of classes of a model with probabilities; 0 for a model that answers with a number."""
    objective = objective_of(booster)
    if objective == "multi:softprob":
        return int(_settings(booster)["learner_model_param"]["num_class"])
    return 2 if objective == "binary:logistic" else 0


def outputs_of(booster):
    classes = class_count(booster)
    if classes:
        return tabular.classifier_outputs(np.arange(classes))
    if answers_with_labels(booster):
        return [TensorDescription("label", "TYPE_INT64", [-1])]
    return tabular.regressor_outputs(int(_settings(booster)["learner_model_param"].get("num_target", 1)))
