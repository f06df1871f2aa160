"""Decoupled: one answer per element of IN, the i-th after DELAY[i] milliseconds."""
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            delays = pb_utils.get_input_tensor_by_name(request, "DELAY").as_numpy()
            if values.shape != delays.shape:
                error = pb_utils.TritonError("IN and DELAY must have the same shape", pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            for i, (value, delay) in enumerate(zip(values, delays)):
                time.sleep(float(delay) / 1000)
                outputs = [
                    pb_utils.Tensor("IDX", np.array([i], np.uint32)),
                    pb_utils.Tensor("OUT", np.array([value], np.int32)),
                ]
                sender.send(pb_utils.InferenceResponse(outputs))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
