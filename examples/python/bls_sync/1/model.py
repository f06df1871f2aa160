"""Calls the model that its request names, and passes the answer on."""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.call(request) for request in requests]

    def call(self, request):
        name = pb_utils.get_input_tensor_by_name(request, "MODEL_NAME").as_numpy()[0].decode()
        inner = pb_utils.InferenceRequest(
            model_name=name,
            request_id=request.request_id(),
            requested_output_names=["OUTPUT0", "OUTPUT1"],
            inputs=[pb_utils.get_input_tensor_by_name(request, n) for n in ("INPUT0", "INPUT1")],
        )
        response = inner.exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        return pb_utils.InferenceResponse(response.output_tensors())
