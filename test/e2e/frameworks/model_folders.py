"""What the scripts that make models share: folders of a model repository, and a file of the answers that are expected."""
import json
import os
import sys

import numpy as np

root = sys.argv[1]
_expected = {}


def folder(model, config=""):
    path = os.path.join(root, model, "1")
    os.makedirs(path)
    if config:
        with open(os.path.join(root, model, "config.pbtxt"), "w") as file:
            file.write(config)
    return path


def parameter(key, value):
    return 'parameters { key: "%s" value { string_value: "%s" } }\n' % (key, value)


def expect(model, inputs, outputs, **rest):
    """`inputs` are (type, rows) by name."""
    _expected[model] = {
        "inputs": {name: {"dataType": kind, "rows": _rows(rows)} for name, (kind, rows) in inputs.items()},
        "outputs": {name: _rows(rows) for name, rows in outputs.items()},
        **rest,
    }


def _rows(rows):
    return np.asarray(rows).tolist()


def write_expected():
    with open(os.path.join(root, "expected.json"), "w") as file:
        json.dump(_expected, file)
