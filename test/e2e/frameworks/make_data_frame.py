"""Fits a pipeline on a DataFrame: it picks its columns by name, and one of them is text."""
import os

import joblib
import numpy as np
import pandas
from model_folders import expect, folder, write_expected
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

random = np.random.default_rng(1)
frame = pandas.DataFrame({"age": random.uniform(1, 80, 60), "port": random.choice(["Cork", "Derby", "Essen"], 60)})
target = np.where((frame["port"] == "Cork") ^ (frame["age"] > 40), "by ship", "by train")
columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["port"]))
pipeline = make_pipeline(columns, LogisticRegression()).fit(frame, target)
config = """backend: "sklearn"
max_batch_size: 8
dynamic_batching { }
input { name: "port" data_type: TYPE_STRING dims: 1 }
input { name: "age" data_type: TYPE_FP64 dims: 1 }
output { name: "label" data_type: TYPE_STRING dims: 1 reshape { shape: [ ] } }
output { name: "probabilities" data_type: TYPE_FP32 dims: 2 }
"""
joblib.dump(pipeline, os.path.join(folder("travellers", config), "model.joblib"))
some = frame[:7]
expect(
    "travellers",
    {"age": ("FP64", some[["age"]]), "port": ("BYTES", some[["port"]])},
    {"label": pipeline.predict(some)[:, None], "probabilities": pipeline.predict_proba(some)},
)
write_expected()
