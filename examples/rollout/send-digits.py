"""Asks the digit classifier for the images of held-out.csv, again and again, until it is stopped."""

import csv
import sys
import time

import numpy as np
import tritonclient.http as triton

images_file = sys.argv[1] if len(sys.argv) > 1 else "models/digits/held-out.csv"
address = sys.argv[2] if len(sys.argv) > 2 else "localhost:8000"

with open(images_file) as file:
    rows = [row for row in csv.reader(file) if row[0].isdigit()]
client = triton.InferenceServerClient(address)
versions = {}
for count, row in enumerate(iter(lambda: rows[int(time.time() * 997) % len(rows)], None)):
    pixels = triton.InferInput("pixels", [1, 64], "FP32")
    pixels.set_data_from_numpy(np.array([row[-64:]], dtype=np.float32))
    version = client.infer("digits", [pixels]).get_response()["model_version"]
    versions[version] = versions.get(version, 0) + 1
    if count % 100 == 99:
        print(f"answers by version: {versions}", flush=True)
    time.sleep(0.01)
