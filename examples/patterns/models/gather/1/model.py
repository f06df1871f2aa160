"""Gathers the parts of a group from many requests. The request that brings the last part gets the answer, the others end without one.

At most MOST groups wait. A further one pushes the oldest out, so that clients which go away cost no memory for ever."""
import numpy as np
import triton_python_backend_utils as pb_utils

MOST = 1000


class TritonPythonModel:
    def initialize(self, args):
        self.groups = {}

    def execute(self, requests):
        for request in requests:
            self.take(request)
        # A decoupled model returns nothing: answers go through the response sender.
        return None

    def take(self, request):
        group, parts, values = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("GROUP", "PARTS", "VALUES")
        )
        name, sender = group[0], request.get_response_sender()
        found = self.groups.setdefault(name, [])
        found.append(values.copy())
        if len(self.groups) > MOST:
            del self.groups[next(iter(self.groups))]
        if len(found) >= parts[0]:
            del self.groups[name]
            every = np.concatenate(found)
            outputs = [
                pb_utils.Tensor("MEAN", np.array([every.mean()], np.float32)),
                pb_utils.Tensor("COUNT", np.array([len(every)], np.int32)),
            ]
            sender.send(pb_utils.InferenceResponse(outputs))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
