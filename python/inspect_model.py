"""`python inspect_model.py <backend> <model file>`: what a framework's file says about itself, as one line of JSON.

{"inputs": […], "outputs": […], "facts": {…}}, or {"error": "…"}; with "config" beside it when the format does not tell, which is
then the config.pbtxt to begin with. Run by `galatea inspect` and `galatea init`."""
import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))


def main(backend, path):
    sys.path[:0] = [here, os.path.join(here, "backends", backend)]
    from galatea_worker.telemetry import switch_telemetry_off

    switch_telemetry_off()
    try:
        from galatea_framework import ModelError, ModelSource, Undescribed
    except ModuleNotFoundError as error:
        python, name = sys.executable, error.name
        return {
            "error": "%s has no %s: '%s -m pip install %s' installs it there. Or name a Python that has it with --python PROGRAM, such as "
            "the bin/python of a virtual environment." % (python, name, python, name)
        }
    from model import TritonPythonModel

    folder, name = os.path.split(os.path.abspath(path))
    config = {"name": os.path.splitext(name)[0], "backend": backend, "default_model_filename": name}
    try:
        TritonPythonModel.import_framework()
        return TritonPythonModel.describe(ModelSource(folder, config, ())).as_dict()
    except Undescribed as error:
        return {"error": str(error), "config": error.config}
    except ModelError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": "'%s' cannot be read: %s: %s" % (path, type(error).__name__, error)}


if __name__ == "__main__":
    # Output of a framework must not mix with the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(main(*sys.argv[1:3]), answer)
