"""The sum and the difference of two inputs: the smallest whole Python model."""
import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        # Types come from the configuration, so that changing them there is enough.
        config = json.loads(args["model_config"])
        self.types = {
            name: pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, name)["data_type"])
            for name in ("OUTPUT0", "OUTPUT1")
        }

    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            outputs = [
                pb_utils.Tensor("OUTPUT0", (a + b).astype(self.types["OUTPUT0"])),
                pb_utils.Tensor("OUTPUT1", (a - b).astype(self.types["OUTPUT1"])),
            ]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses

    def finalize(self):
        print("add_sub says goodbye")
