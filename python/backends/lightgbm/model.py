"""LightGBM: boosters saved with `save_model`, as text."""
import re

import numpy as np

from galatea_framework import Description, FrameworkModel, tabular


class TritonPythonModel(FrameworkModel):
    framework = "LightGBM"
    module = "lightgbm"
    package = "lightgbm"
    file_names = ("model.txt", "model.lgb")
    uses_gpus = False

    @classmethod
    def describe(cls, source):
        booster = load_booster(source)
        facts = {"objective": objective_of(booster), "trees": booster.num_trees()}
        return Description([tabular.feature_input(booster.num_feature())], outputs_of(booster), facts)

    def load(self, source):
        self._booster = load_booster(source)
        self._threads = source.integer("threads", 1, 1)
        self._classes = class_count(self._booster)
        self._answers = tabular.booster_answers(source, self.output_names, self._classes, "LightGBM model")

    def run(self, inputs):
        rows = tabular.features(inputs, self.input_names)
        scores = self._booster.predict(rows, num_threads=self._threads)
        return tabular.booster_outputs(scores, self._classes, self._answers, self.output_types)


def load_booster(source):
    import lightgbm

    return lightgbm.Booster(model_file=source.path)


def objective_of(booster):
    """The objective in the head of the file: `objective=multiclass num_class:3`."""
    found = re.search(r"^objective=(.*)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    return found.group(1).strip() if found else "custom"


def class_count(booster):
    """The number of classes; 0 for a model that answers with a number."""
    objective = objective_of(booster)
    if objective.startswith("multiclass"):
        return booster.num_model_per_iteration()
    return 2 if objective.startswith("binary") else 0


def outputs_of(booster):
    classes = class_count(booster)
    return tabular.classifier_outputs(np.arange(classes)) if classes else tabular.regressor_outputs()
