"""XGBoost: boosters saved with `save_model`, as UBJSON or JSON."""
import json
import os
import re

from galatea_framework import CategoryColumns, Description, FrameworkModel, ModelError, TensorDescription, tabular


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
        return Description(columns_of(booster).described(booster.num_features()), outputs_of(booster), facts)

    def load(self, source):
        import xgboost

        self._booster = load_booster(source)
        self._booster.set_param({"nthread": source.integer("threads", 1, 1)})
        if source.is_gpu:
            self._booster.set_param({"device": "cuda:%d" % source.device_id})
        self._rows = columns_of(self._booster).reader(source, source.config["input"])
        self._range = iteration_range(self._booster)
        self._classes = class_count(self._booster)
        if answers_with_labels(self._booster):
            self._answers = tabular.answers_of(source, self.output_names, ["label", "prediction"], "multi:softmax model")
        else:
            self._answers = tabular.booster_answers(source, self.output_names, self._classes, "XGBoost model")
        self.warn_of_version(saved_version(source.path), xgboost.__version__)

    def run(self, inputs):
        rows = self._rows(inputs)
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


def columns_of(booster):
    """XGBoost computes with float32, so that is what numbers are sent as."""
    kinds = booster.feature_types or []
    if "c" not in kinds or booster.feature_names is None:
        return CategoryColumns(booster.feature_names, {}, "TYPE_FP32")
    # Only the model as JSON has the categories, since XGBoost 3.1: texts as bytes with offsets, or numbers.
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    encodings = model.get("model", model.get("gbtree", {}).get("model", {})).get("cats", {}).get("enc", [])
    categories = {position: _categories(one) for position, one in enumerate(encodings) if kinds[position] == "c"}
    known = {position: values for position, values in categories.items() if values}
    return CategoryColumns(booster.feature_names, known, "TYPE_FP32", refuses_unknown=True)


def _categories(encoding):
    values, offsets = encoding["values"], encoding.get("offsets")
    if offsets is None:
        return values
    text = bytes(value & 255 for value in values)
    return [text[start:end].decode() for start, end in zip(offsets, offsets[1:])]


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
        return tabular.classifier_outputs(classes, "TYPE_FP32")
    if answers_with_labels(booster):
        return [TensorDescription("label", "TYPE_INT64", [-1])]
    return tabular.regressor_outputs("TYPE_FP32", int(_settings(booster)["learner_model_param"].get("num_target", 1)))
