"""Serves every estimator of estimators.py in this process, with the code that a worker runs, and compares each answer with what
scikit-learn itself gives. Writes verdict.json: how many were checked, and what was wrong. Some of the estimators become a
repository for a real server, so that all are fitted once."""
import json
import os
import sys
import tempfile

code = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python")
sys.path[:0] = [code, os.path.join(code, "backends", "sklearn")]
os.environ["GALATEA_ALLOW_PICKLE_MODELS"] = "1"

import joblib
import numpy as np
import pandas
from estimators import refused, served
from galatea_framework import ModelError
from galatea_worker.context import context
from galatea_worker.model_config import ModelConfig
from galatea_worker.tensor import Tensor
from model import TritonPythonModel
from model_folders import expect, folder, root, write_expected

METHODS = {
    "label": "predict",
    "prediction": "predict",
    "probabilities": "predict_proba",
    "scores": "decision_function",
    "transformed": "transform",
    "sample_scores": "score_samples",
}
NUMPY = {"TYPE_FP32": np.float32, "TYPE_FP64": np.float64, "TYPE_INT64": np.int64, "TYPE_BOOL": np.bool_}


class NoServer:
    """Takes the log lines of the models."""

    def send(self, frame):
        pass


context.channel = NoServer()


class Request:
    def __init__(self, inputs, outputs):
        self._inputs, self._outputs = inputs, outputs

    def inputs(self):
        return self._inputs

    def requested_output_names(self):
        return set(self._outputs)


def model_of(name, estimator, place, **settings):
    """The model as a worker serves it: its configuration is completed from the file, then it is loaded."""
    context.model_dir = os.path.join(place, name)
    os.makedirs(context.model_dir)
    joblib.dump(estimator, os.path.join(context.model_dir, "model.joblib"))
    draft = {"name": name, "backend": "sklearn", "max_batch_size": 0, "input": [], "output": [], **settings}
    config = ModelConfig(json.dumps(draft))
    completed = TritonPythonModel.auto_complete_config(config).as_dict()
    model = TritonPythonModel()
    args = {"model_config": json.dumps(completed), "model_instance_kind": "CPU", "model_instance_device_id": "0"}
    model.initialize(args)
    return model, completed


def column_of(rows, name):
    if isinstance(rows, pandas.DataFrame):
        return rows[name].to_numpy(dtype=object)
    return rows[:, int(name[1:])]


def tensors_of(config, rows):
    """The rows as the inputs of a request, in the types that the configuration asks for."""
    tensors = {}
    for entry in config["input"]:
        if entry["name"] != "input":
            values = column_of(rows, entry["name"])
        else:
            values = rows.to_numpy() if isinstance(rows, pandas.DataFrame) else np.asarray(rows)
        if entry["data_type"] == "TYPE_STRING":
            wire = np.array([b"" if one != one or one is None else str(one).encode() for one in values.ravel()], dtype=object)
            tensors[entry["name"]] = wire.reshape(values.shape)
        else:
            tensors[entry["name"]] = values.astype(NUMPY[entry["data_type"]])
    return tensors


def expected(estimator, rows, name):
    name, _, index = name.rpartition("_") if name[-1].isdigit() else (name, "", "")
    values = getattr(estimator, METHODS[name])(rows)
    if isinstance(values, list):
        values = values[int(index)] if index else np.stack(values, axis=1)
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def is_same(got, want):
    """The last bits of a sum depend on how many rows are summed at a time."""
    if want.dtype.kind != "f":
        return bool(np.all(got == want))
    return np.allclose(got, want, rtol=1e-5 if want.dtype == np.float32 else 1e-11, atol=1e-11, equal_nan=True)


def difference(name, config, estimator, rows, answers):
    for entry in config["output"]:
        want = expected(estimator, rows, entry["name"])
        got = answers[entry["name"]]
        if entry["data_type"] == "TYPE_STRING":
            got = np.array([one.decode() if isinstance(one, bytes) else one for one in got.ravel()], object).reshape(got.shape)
            want = np.array([one.decode() if isinstance(one, bytes) else one for one in want.ravel()], object).reshape(want.shape)
        if got.shape != want.shape:
            return "%s: %s has shape %s, scikit-learn's has %s" % (name, entry["name"], got.shape, want.shape)
        if not is_same(got, want):
            return "%s: %s is %s, scikit-learn says %s" % (name, entry["name"], got.tolist(), want.tolist())
    if hasattr(estimator, "predict") and not any(entry["name"] in ("label", "prediction") for entry in config["output"]):
        return "%s: no prediction among %s" % (name, config["output"])
    offered = [output for output, method in METHODS.items() if output in ("probabilities", "scores") and hasattr(estimator, method)]
    names = [entry["name"].split("_")[0] for entry in config["output"]]
    lost = [output for output in offered if output not in names and hasattr(estimator, "predict")]
    return "%s: lacks %s" % (name, lost) if lost else None


def check(name, estimator, rows, place, **settings):
    try:
        model, config = model_of(name, estimator, place, **settings)
    except Exception as error:
        return "%s: load: %s: %s" % (name, type(error).__name__, error)
    tensors = tensors_of(config, rows)
    outputs = [entry["name"] for entry in config["output"]]
    # Two requests in one batch, then each alone.
    half = len(rows) // 2
    parts = [
        Request([Tensor(one, values[some]) for one, values in tensors.items()], outputs)
        for some in (slice(0, half), slice(half, None))
    ]
    for responses in (model.execute(parts), model.execute(parts[:1]) + model.execute(parts[1:])):
        failed = [one.error().message() for one in responses if one.has_error()]
        if failed:
            return "%s: %s" % (name, failed[0])
        answers = [{tensor.name(): tensor.as_numpy() for tensor in one.output_tensors()} for one in responses]
        joined = {output: np.concatenate([one[output] for one in answers]) for output in outputs}
        found = difference(name, config, estimator, rows, joined)
        if found:
            return found
    return None


def check_refused(name, saved, reason, place, **settings):
    try:
        model_of(name, saved, place, **settings)
    except ModelError as error:
        return None if reason in str(error) else "%s: refused with: %s" % (name, error)
    except Exception as error:
        return "%s: %s: %s" % (name, type(error).__name__, error)
    return "%s: was not refused" % name


def entry(name, kind, *dims):
    return {"name": name, "data_type": "TYPE_" + kind, "dims": list(dims)}


def configured(cases, place):
    """Configurations that somebody wrote: they are served as they are, or refused when they would change an answer."""
    label, two = entry("label", "STRING", 1), entry("prediction", "FP64", 2)
    port, age, fare = entry("port", "STRING", 1), entry("age", "FP64", 1), entry("fare", "FP64", 1)
    refusals = {
        "letters": ([entry("input", "FP32", 2)], [], "OneHotEncoder was fitted on strings there (column 'x0')"),
        "codes": ([entry("input", "STRING", 2)], [], "OneHotEncoder was fitted on numbers there"),
        "sentiment": ([entry("text", "FP32", 1)], [], "TfidfVectorizer was fitted on strings there: write data_type: TYPE_STRING"),
        "two_ridges": ([], [entry("prediction", "FP64", 1)], "answers with 2 values a row: write dims: [2]"),
        "line": ([], [entry("prediction", "INT64", 1)], "is TYPE_INT64, and the estimator answers with TYPE_FP64"),
        "logistic": ([], [entry("label", "INT64", 1)], "write data_type: TYPE_STRING"),
        "kmeans": ([entry("input", "FP64", 3)], [], "was fitted on 4 columns, and the inputs in its configuration have 3"),
        "travellers": ([age, fare], [label], "(age, fare, port), and the inputs in its configuration lack port"),
        "svc": ([], [entry("probabilities", "FP64", 3)], "output 'probabilities' of model 'svc_refused' is not one that"),
    }
    # Every input and output is given, so the file is not described.
    served_so = {
        "travellers": ([port, age, fare], [label, entry("probabilities", "FP64", 2)]),
        "sentiment": ([entry("review", "STRING", 1)], [label, entry("probabilities", "FP64", 2)]),
        "letters": ([entry("first", "STRING", 1), entry("second", "STRING", 1)], [entry("label", "INT64", 1)]),
        "two_ridges": ([entry("input", "FP64", -1)], [two]),
        "kmeans_float32": ([entry("input", "FP64", 4)], [entry("prediction", "INT64", 1)]),
    }
    wrong = []
    for name, (inputs, outputs, reason) in refusals.items():
        estimator, _ = cases[name]
        settings = {"max_batch_size": 8, "input": inputs, "output": outputs}
        wrong.append(check_refused(name + "_refused", estimator, reason, place, **settings))
    describe = TritonPythonModel.describe
    TritonPythonModel.describe = None
    for name, (inputs, outputs) in served_so.items():
        wrong.append(check_shaped(name, *cases[name], place, max_batch_size=8, input=inputs, output=outputs))
    TritonPythonModel.describe = describe
    return wrong


def check_shaped(name, estimator, rows, place, **settings):
    """As `check`; outputs have the shape of the configuration, and inputs names of their own."""
    model, config = model_of(name + "_configured", estimator, place, **settings)
    table = np.asarray(rows, dtype=object)
    table = table.reshape(len(rows), -1)
    named = list(rows.columns) if isinstance(rows, pandas.DataFrame) else []
    tensors, start = [], 0
    for one in config["input"]:
        width = table.shape[1] if one["dims"] == [-1] else one["dims"][0]
        first = named.index(one["name"]) if one["name"] in named else start
        start += width
        part = table[:, first : first + width]
        is_text = one["data_type"] == "TYPE_STRING"
        tensors.append(Tensor(one["name"], part if is_text else part.astype(NUMPY[one["data_type"]])))
    response = model.execute([Request(tensors, [one["name"] for one in config["output"]])])[0]
    if response.has_error():
        return "%s: %s" % (name, response.error().message())
    for tensor, one in zip(response.output_tensors(), config["output"]):
        want = expected(estimator, rows, one["name"]).reshape([len(rows)] + one["dims"])
        got = tensor.as_numpy()
        if got.shape != want.shape or not is_same(got, want):
            return "%s as configured: %s is %s, scikit-learn says %s" % (name, one["name"], got.tolist(), want.tolist())
    return None


def without_pandas(cases, place):
    """A table without names, whose strings are strings all the same. What picks columns by name cannot be served."""
    from galatea_sklearn import intake

    find, intake._pandas = intake._pandas, lambda: None
    names = ("frame_numbers", "frame_forest", "frame_letters")
    wrong = [check(name + "_without_pandas", *cases[name], place) for name in names]
    for name in ("travellers", "text_and_numbers"):
        wrong.append(check_refused(name + "_without_pandas", cases[name][0], "-m pip install pandas", place))
    intake._pandas = find
    return wrong


def check_dense_size():
    """'' when a sparse answer that would fill the memory is refused, and a small one is not; else what is wrong."""
    from galatea_sklearn import answers
    from scipy.sparse import csr_matrix

    if answers.plain(csr_matrix((3, 4))).shape != (3, 4):
        return "a small sparse answer is no array"
    try:
        answers.plain(csr_matrix((100_000, 1_000_000)))
    except ValueError as error:
        return "" if "send fewer rows" in str(error) else str(error)
    return "a sparse answer of 800 GB became an array"


def write_repository(cases):
    """Some of them as files, with the answers in the form of the protocol: one value a row is one element on the wire."""
    for name in ("letters", "sentiment", "travellers", "kmeans", "two_ridges"):
        estimator, rows = cases[name]
        joblib.dump(estimator, os.path.join(folder(name), "model.joblib"))
        if isinstance(rows, pandas.DataFrame):
            kinds = {one: "FP64" if rows[one].dtype.kind == "f" else "BYTES" for one in rows}
            inputs = {one: (kind, rows[[one]].to_numpy(dtype=object)) for one, kind in kinds.items()}
        else:
            table = np.asarray(rows, dtype=None if name in ("kmeans", "two_ridges") else object).reshape(len(rows), -1)
            inputs = {"input": ("BYTES" if table.dtype == object else "FP64", table)}
        predicted = "label" if hasattr(estimator, "classes_") else "prediction"
        offered = [one for one in (predicted, "probabilities", "scores") if hasattr(estimator, METHODS[one])]
        answers = {one: expected(estimator, rows, one) for one in offered}
        shaped = {one: values[:, None] if values.ndim == 1 else values for one, values in answers.items()}
        expect(name, inputs, shaped, tolerance=1e-9)
    write_expected()


with tempfile.TemporaryDirectory() as place:
    cases = {name: (estimator, rows) for name, estimator, rows in served()}
    wrong = [check(name, *case, place) for name, case in cases.items()]
    wrong += [check_refused(*case, place) for case in refused()]
    wrong += configured(cases, place) + without_pandas(cases, place) + [check_dense_size()]
write_repository(cases)
with open(os.path.join(root, "verdict.json"), "w") as file:
    json.dump({"checked": len(wrong), "wrong": [one for one in wrong if one]}, file)
