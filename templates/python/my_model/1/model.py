"""Puts the numbers of each row on a scale from 0 (the smallest) to 1 (the largest)."""
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        """Once for each instance, before the first request: load weights and open connections here."""
        config = json.loads(args["model_config"])
        pb_utils.Logger.log_info("%s is there" % config["name"])

    def execute(self, requests):
        """For each batch. Returns one response for each request, in the same order."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        rows = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        if not np.isfinite(rows).all():
            error = pb_utils.TritonError("INPUT has a number that is not finite", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=error)
        smallest = rows.min(axis=1, keepdims=True, initial=np.inf)
        width = rows.max(axis=1, keepdims=True, initial=-np.inf) - smallest
        scaled = np.divide(rows - smallest, width, out=np.zeros_like(rows), where=width > 0)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", scaled)])

    def finalize(self):
        """Once for each instance, when the model is unloaded: close what initialize opened."""
