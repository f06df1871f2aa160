"""Tells on what kind of device each of its instances was placed. With PyTorch the model would go to that device."""
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        kind, device = args["model_instance_kind"], args["model_instance_device_id"]
        self.place = "cuda:" + device if kind == "GPU" else "cpu"
        self.name = args["model_instance_name"]

    def execute(self, requests):
        text = "%s on %s" % (self.name, self.place)
        output = pb_utils.Tensor("PLACE", np.array([text.encode()], dtype=np.object_))
        return [pb_utils.InferenceResponse([output]) for _ in requests]
