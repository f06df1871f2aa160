"""Adds up all answers of the decoupled model `square`: n answers of n make n squared."""
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            inner = pb_utils.InferenceRequest(
                model_name="square",
                requested_output_names=["OUT"],
                inputs=[pb_utils.get_input_tensor_by_name(request, "IN")],
            )
            total = 0
            error = None
            for answer in inner.exec(decoupled=True):
                if answer.has_error():
                    error = answer.error()
                # The last answer only says that there are no more: it has no outputs.
                elif answer.output_tensors():
                    total += int(pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy()[0])
            if error is not None:
                responses.append(pb_utils.InferenceResponse(error=error))
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array([total], np.int32))]))
        return responses
