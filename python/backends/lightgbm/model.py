"""LightGBM: boosters saved with `save_model`, as text."""
import re

from galatea_framework import CategoryColumns, Description, FrameworkModel, tabular


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
        return Description(columns_of(booster).described(booster.num_feature()), outputs_of(booster), facts)

    def load(self, source):
        self._booster = load_booster(source)
        self._threads = source.integer("threads", 1, 1)
        self._rows = columns_of(self._booster).reader(source, source.config["input"])
        self._classes = class_count(self._booster)
        self._answers = tabular.booster_answers(source, self.output_names, self._classes, "LightGBM model")

    def run(self, inputs):
        scores = self._booster.predict(self._rows(inputs), num_threads=self._threads)
        return tabular.booster_outputs(scores, self._classes, self._answers, self.output_types)


def load_booster(source):
    import lightgbm

    return lightgbm.Booster(model_file=source.path)


def head_line(booster, key):
    """A line of the head of the file."""
    found = re.search(r"^%s=(.*)$" % key, booster.model_to_string(num_iteration=1), re.MULTILINE)
    return found.group(1).strip() if found else ""


def objective_of(booster):
    """`multiclass num_class:3`"""
    return head_line(booster, "objective") or "custom"


def columns_of(booster):
    """The file has the categories of a DataFrame without saying which columns they belong to. The ranges of columns do:
    `[0:1]` is a number, `-1:2:0:1` has categories."""
    known = booster.pandas_categorical or []
    ranges = head_line(booster, "feature_infos").split()
    positions = [position for position, one in enumerate(ranges) if not one.startswith("[") and one != "none"]
    categories = dict(zip(positions, known)) if len(positions) == len(known) else {}
    return CategoryColumns(booster.feature_name(), categories, "TYPE_FP64")


def class_count(booster):
    """The number of classes; 0 for a model that answers with a number."""
    objective = objective_of(booster)
    if objective.startswith("multiclass"):
        return booster.num_model_per_iteration()
    return 2 if objective.startswith("binary") else 0


def outputs_of(booster):
    classes = class_count(booster)
    return tabular.classifier_outputs(classes, "TYPE_FP64") if classes else tabular.regressor_outputs("TYPE_FP64")
