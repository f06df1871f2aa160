"""python train.py [repository] [penguins.csv]: trains a classifier of penguins on a table with texts and missing values.

Needs scikit-learn, skops and pandas; the table is in the package palmerpenguins. With the table's path the package is not needed."""
import hashlib
import importlib.util
import os
import sys

import pandas
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

SHA256 = "f204db2c753b0937caac3cb35258562c14f073e4bbc76be24b4c51ce22767a93"
repository = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
if len(sys.argv) > 2:
    path = sys.argv[2]
else:
    path = os.path.join(os.path.dirname(importlib.util.find_spec("palmerpenguins").origin), "data/penguins.csv")
with open(path, "rb") as file:
    found = hashlib.sha256(file.read()).hexdigest()
if found != SHA256:
    sys.exit("%s has the SHA-256 %s, expected %s: install palmerpenguins==0.1.6" % (path, found, SHA256))

table = pandas.read_csv(path)
numbers = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
texts = ["island", "sex"]
# A missing text is the empty text on the wire.
table[texts] = table[texts].fillna("")
known, held_out = train_test_split(table, test_size=0.3, random_state=1, stratify=table["species"])
columns = make_column_transformer((SimpleImputer(), numbers), (OneHotEncoder(handle_unknown="ignore"), texts))
model = make_pipeline(columns, RandomForestClassifier(50, random_state=1)).fit(known[numbers + texts], known["species"])
right = model.score(held_out[numbers + texts], held_out["species"])
print("right on %d penguins that it has not seen: %.1f %%" % (len(held_out), 100 * right))
folder = os.path.join(repository, "penguins", "1")
os.makedirs(folder, exist_ok=True)
skops.io.dump(model, os.path.join(folder, "model.skops"))
