"""Trains small models of real data and writes a model repository, and beside it what each framework itself answers."""
import os

import joblib
import lightgbm
import numpy as np
import pandas
import skops.io
import xgboost
from model_folders import expect, folder, parameter, write_expected
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

iris = load_iris()
rows = iris.data.astype(np.float32)
some = rows[::17]
species = iris.target_names[iris.target].astype(object)
diabetes = load_diabetes()
patients = diabetes.data.astype(np.float32)


def column(values):
    """One number a row: one element on the wire."""
    return np.asarray(values)[:, None]


forest = make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=1)).fit(rows, species)
skops.io.dump(forest, os.path.join(folder("flowers"), "model.skops"))
answers = {"label": column(forest.predict(some)), "probabilities": forest.predict_proba(some)}
expect("flowers", {"input": ("FP32", some)}, answers)

line = LinearRegression().fit(patients, diabetes.target)
joblib.dump(line, os.path.join(folder("patients"), "model.joblib"))
expect("patients", {"input": ("FP32", patients[:7])}, {"prediction": column(line.predict(patients[:7]))})

# Two targets, and the features in two inputs.
twice = LinearRegression().fit(patients, np.stack([diabetes.target, -diabetes.target], axis=1))
config = """backend: "sklearn"
max_batch_size: 8
input { name: "first" data_type: TYPE_FP64 dims: 4 }
input { name: "rest" data_type: TYPE_FP64 dims: 6 }
output { name: "prediction" data_type: TYPE_FP64 dims: 2 }
"""
skops.io.dump(twice, os.path.join(folder("patients_twice", config), "model.skops"))
parts = {"first": ("FP64", diabetes.data[:7, :4]), "rest": ("FP64", diabetes.data[:7, 4:])}
expect("patients_twice", parts, {"prediction": twice.predict(diabetes.data[:7])})

booster = xgboost.XGBClassifier(n_estimators=10).fit(rows, iris.target)
path = os.path.join(folder("flowers_xgboost"), "model.ubj")
booster.save_model(path)
with open(path, "rb+") as file:
    # As an older XGBoost would have written it: the last number of the file is the patch, the one before it the minor.
    content = file.read()
    version = content.rindex(b"version[#L")
    file.seek(version)
    file.write(content[version:].replace(b"i%ci%c" % tuple(map(int, xgboost.__version__.split(".")[:2])), b"i\2i\1"))
answers = {"label": column(booster.predict(some)), "probabilities": booster.predict_proba(some)}
expect("flowers_xgboost", {"input": ("FP32", some)}, answers)

# Stopped early: the best trees answer, not all of them.
regressor = xgboost.XGBRegressor(n_estimators=60, early_stopping_rounds=2)
regressor.fit(patients[:300], diabetes.target[:300], eval_set=[(patients[300:], diabetes.target[300:])], verbose=False)
config = """backend: "xgboost"
max_batch_size: 8
input { name: "input__0" data_type: TYPE_FP32 dims: 10 }
output { name: "output__0" data_type: TYPE_FP32 dims: 1 reshape { shape: [ ] } }
"""
regressor.save_model(os.path.join(folder("patients_xgboost", config), "xgboost.json"))
expect("patients_xgboost", {"input__0": ("FP32", patients[:7])}, {"output__0": column(regressor.predict(patients[:7]))})

light = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(rows, iris.target == 2)
config = """backend: "lightgbm"
max_batch_size: 8
dynamic_batching { }
input { name: "input__0" data_type: TYPE_FP32 dims: 4 }
output { name: "output__0" data_type: TYPE_FP32 dims: 2 }
"""
path = folder("virginica_lightgbm", config + parameter("predict_proba", "true"))
light.booster_.save_model(os.path.join(path, "model.txt"))
expect("virginica_lightgbm", {"input__0": ("FP32", some)}, {"output__0": light.predict_proba(some)})

# Trained on a DataFrame with categories: a request has the categories, each column in an input of its own.
random = np.random.default_rng(2)
frame = pandas.DataFrame({"age": random.uniform(1, 80, 200).astype(np.float32)})
frame["port"] = pandas.Categorical(random.choice(["Cork", "Derby", "Essen"], 200))
frame["deck"] = pandas.Categorical(random.choice([10, 20], 200))
travels = ((frame["port"] == "Cork") ^ (frame["age"] > 40) ^ (frame["deck"] == 20)).astype(int)
boosted = xgboost.XGBClassifier(n_estimators=10, enable_categorical=True).fit(frame, travels)
boosted.save_model(os.path.join(folder("travels_xgboost"), "model.ubj"))
light = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(frame, travels)
light.booster_.save_model(os.path.join(folder("travels_lightgbm"), "model.txt"))
few = frame[:9]
for name, model, kind in (("travels_xgboost", boosted, "FP32"), ("travels_lightgbm", light, "FP64")):
    inputs = {"age": (kind, few[["age"]]), "port": ("BYTES", few[["port"]].astype(object))}
    inputs["deck"] = (kind, few[["deck"]].astype(int))
    expect(name, inputs, {"label": column(model.predict(few)), "probabilities": model.predict_proba(few)})

# The numbers of categories, as the frameworks take arrays.
config = """backend: "lightgbm"
max_batch_size: 8
input { name: "input" data_type: TYPE_FP32 dims: 3 }
output { name: "probabilities" data_type: TYPE_FP64 dims: 2 }
"""
light.booster_.save_model(os.path.join(folder("travels_codes", config), "model.txt"))
codes = np.stack([few["age"], few["port"].cat.codes, few["deck"].cat.codes], axis=1)
expect("travels_codes", {"input": ("FP32", codes)}, {"probabilities": light.predict_proba(few)})
write_expected()
