"""Fits a straight line."""
import os

import joblib
import numpy as np
from model_folders import expect, folder, write_expected
from sklearn.linear_model import LinearRegression

rows = np.arange(8, dtype=np.float32)[:, None]
line = LinearRegression().fit(rows, 3 * rows[:, 0] + 1)
joblib.dump(line, os.path.join(folder("line"), "model.joblib"))
expect("line", {"input": ("FP32", rows)}, {"prediction": line.predict(rows)[:, None]})
write_expected()
