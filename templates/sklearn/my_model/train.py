"""python train.py: trains the model and writes 1/model.skops. Put your own pipeline in its place.

Needs scikit-learn and skops. The data are Fisher's irises, which come with scikit-learn."""
import os

import skops.io
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

iris = load_iris()
kinds = iris.target_names[iris.target]
known, held_out, known_kinds, held_out_kinds = train_test_split(iris.data, kinds, test_size=0.3, random_state=1)
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(known, known_kinds)
print("right on flowers that it has not seen: %.0f %%" % (100 * model.score(held_out, held_out_kinds)))
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "1")
os.makedirs(folder, exist_ok=True)
skops.io.dump(model, os.path.join(folder, "model.skops"))
