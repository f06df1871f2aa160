"""The life of a framework's model: find its file, load it, run batches of requests through it."""
import importlib
import json
import os
import sys

import numpy as np

import triton_python_backend_utils as pb_utils

from . import batching
from .description import Undescribed, complete
from .source import InputError, ModelError, ModelSource


def sequence_tensors(config):
    """What the sequence batcher adds to the tensors of the model: names of controls and of states, types of new states."""
    sequence = config.get("sequence_batching") or {}
    states = sequence.get("state") or []
    return (
        [control["name"] for control in sequence.get("control_input") or []],
        [state["input_name"] for state in states],
        {state["output_name"]: state["data_type"] for state in states},
    )


class FrameworkModel:
    """Base of a backend's TritonPythonModel. A backend gives the five names and `load` and `run`; `describe` if it can."""

    # The name of the framework for people, for `import`, and for `pip install`.
    framework = ""
    module = ""
    package = ""
    file_names = ()
    uses_gpus = True
    # What the framework raises for values in a request that it cannot take.
    input_errors = ()

    @classmethod
    def describe(cls, source):
        """Returns a Description of the file, and loads no more than needed. Raises Undescribed when the file has none."""
        raise cls.undescribed(source)

    @classmethod
    def class_names(cls, source):
        """Lists by output, where the file has the names of classes. Asked for also when config.pbtxt is complete."""
        return {}

    def load(self, source):
        """Loads the model onto the device that the source names."""
        raise NotImplementedError

    def run(self, inputs):
        """The joined inputs of all requests, by name → arrays by output name."""
        raise NotImplementedError

    def ask_for(self, requests):
        """Notes down what these requests want of the run that comes."""
        self.requested = frozenset().union(*(request.requested_output_names() for request in requests))

    def read(self, tensor):
        """An input of a request → its array."""
        return batching.array_of(tensor)

    def join(self, arrays):
        """The arrays of one input, one per request → the joined input for `run`."""
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    @classmethod
    def import_framework(cls):
        try:
            return importlib.import_module(cls.module)
        except ModuleNotFoundError as error:
            # The framework is installed and lacks one of its own modules: the user must see this error.
            if error.name is not None and error.name.split(".")[0] != cls.module.split(".")[0]:
                raise
            raise ModelError(
                "%s is not installed for %s, which runs this model: '%s -m pip install %s' installs it there. %s"
                % (cls.framework, sys.executable, sys.executable, cls.package, other_pythons())
            ) from None

    @staticmethod
    def undescribed(source):
        return Undescribed(
            "the file of model '%s' does not say what its inputs and outputs are. Write them into config.pbtxt, with the "
            "model's own names, types and dims:" % source.name,
            'backend: "%s"\nmax_batch_size: 8\n'
            'input { name: "input" data_type: TYPE_FP32 dims: [ -1 ] }\n'
            'output { name: "prediction" data_type: TYPE_FP32 dims: [ -1 ] }\n' % source.config.get("backend", ""),
        )

    # The methods that the worker calls.

    @classmethod
    def auto_complete_config(cls, config):
        draft = config.as_dict()
        is_complete = bool(draft["input"] and draft["output"])
        if is_complete and cls.class_names.__func__ is FrameworkModel.class_names.__func__:
            return config
        cls.import_framework()
        source = ModelSource(pb_utils.get_model_dir(), draft, cls.file_names)
        if is_complete:
            draft["class_names"] = cls.class_names(source)
            return config
        return complete(config, cls.describe(source))

    def initialize(self, args):
        self.import_framework()
        config = json.loads(args["model_config"])
        kind = args["model_instance_kind"]
        self.source = ModelSource(pb_utils.get_model_dir(), config, self.file_names, kind, args["model_instance_device_id"])
        self.logger = pb_utils.Logger
        controls, states_in, states_out = sequence_tensors(config)
        self.input_names = [tensor["name"] for tensor in config["input"]] + controls + states_in
        self.output_types = {tensor["name"]: tensor["data_type"] for tensor in config["output"]}
        self.output_types.update(states_out)
        self.output_names = list(self.output_types)
        # Scalar inputs of the model, which have one dimension in the protocol; `load` names them.
        self.scalar_inputs = ()
        # The outputs that the requests of this run ask for: `run` may leave out the others.
        self.requested = frozenset(self.output_names)
        self._has_told_of_single_runs = False
        if self.source.is_gpu and not self.uses_gpus:
            self.logger.log_warn("model '%s': %s runs on the CPU alone" % (self.source.name, self.framework))
        self.load(self.source)

    def execute(self, requests):
        if not self.source.is_batching or len(requests) == 1:
            return [self._answer(request) for request in requests]
        try:
            self.ask_for(requests)
            inputs, rows = batching.gather(requests, self.read, self.join)
            return batching.scatter(self.run(inputs), rows, requests)
        except InputError:
            # The others of the batch are served, each alone.
            return [self._answer(request) for request in requests]
        except ModelError as error:
            return [self._failed(error) for _ in requests]
        except Exception as error:
            # One request can make a batch fail, so each request runs alone now.
            if not self._has_told_of_single_runs:
                self._has_told_of_single_runs = True
                self.logger.log_warn(
                    "model '%s': a batch of %d requests failed, they run one by one (said once): %s"
                    % (self.source.name, len(requests), error)
                )
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        try:
            self.ask_for([request])
            inputs = {}
            for tensor in request.inputs():
                array = self.read(tensor)
                is_scalar = tensor.name() in self.scalar_inputs and not self.source.is_batching
                inputs[tensor.name()] = self.join([array.reshape(()) if is_scalar else array])
            return batching.response(self.run(inputs), request)
        except Exception as error:
            return self._failed(error)

    def _failed(self, error):
        text = str(error) if isinstance(error, ModelError) else "%s: %s" % (type(error).__name__, error)
        message = "%s failed to run model '%s': %s" % (self.framework, self.source.name, text)
        is_of_client = isinstance(error, (InputError, *self.input_errors))
        code = pb_utils.TritonError.INVALID_ARG if is_of_client else pb_utils.TritonError.INTERNAL
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))

    # Helper methods for backends.

    def warn_of_pickle(self):
        self.logger.log_warn(
            "model '%s': loading the pickle '%s' runs any code that is in it; --allow-pickle-models allows that"
            % (self.source.name, os.path.basename(self.source.path))
        )

    def warn_of_version(self, saved_with, running):
        """Both as 'major.minor…'. A model of another minor version usually runs, but may give other results."""
        if not saved_with or saved_with.split(".")[:2] == running.split(".")[:2]:
            return
        self.logger.log_warn(
            "model '%s' was saved with %s %s and runs with %s: its answers may differ"
            % (self.source.name, self.framework, saved_with, running)
        )


def other_pythons():
    """How a Python that has the framework is named: to a command, or to the server."""
    venv = "activate the virtual environment that has it, so that python3 is its own"
    if is_command():
        return "Or name the Python that has it with --python PROGRAM, or %s." % venv
    return (
        "Or %s, name the Python that has it with --python PROGRAM (for one backend: --backend-config=<backend>,interpreter=PROGRAM), "
        "or give the model an environment with the parameter EXECUTION_ENV_PATH." % venv
    )


def is_command():
    """`galatea inspect` and `galatea init` read the file, not the server."""
    return "GALATEA_COMMAND" in os.environ


def pickles_are_allowed():
    return os.environ.get("GALATEA_ALLOW_PICKLE_MODELS") == "1"


def require_pickles(source, alternative):
    """A pickle is a program: to load it runs the code of its author, with the rights of the server."""
    name = os.path.basename(source.path)
    if not pickles_are_allowed():
        command = os.environ.get("GALATEA_COMMAND")
        run = "Run '%s' with" % command if command else "Start the server with"
        raise ModelError(
            "model '%s' is a pickle ('%s'): loading it runs any code that is in it. %s --allow-pickle-models if you trust "
            "whoever made it, or %s" % (source.name, name, run, alternative)
        )
