"""Reads bytes of a device file, which is opened once. One instance has the device to itself, so requests take turns."""
import json
import os
import select
import stat

import numpy as np
import triton_python_backend_utils as pb_utils

MOST = 65536
WAIT_SECONDS = 1


class TritonPythonModel:
    def initialize(self, args):
        self.path = json.loads(args["model_config"])["parameters"]["device"]["string_value"]
        kind = os.stat(self.path).st_mode
        if not (stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)):
            raise pb_utils.TritonModelException("'%s' is no character device and no pipe" % self.path)
        # A device that has nothing to say must not stop the start.
        self.device = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        count = int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])
        if not 0 < count <= MOST:
            return self.error("COUNT must be from 1 to %d, got %d" % (MOST, count), pb_utils.TritonError.INVALID_ARG)
        ready, _, _ = select.select([self.device], [], [], WAIT_SECONDS)
        content = os.read(self.device, count) if ready else b""
        if not content:
            silent = "'%s' said nothing for %d s" % (self.path, WAIT_SECONDS)
            return self.error(silent, pb_utils.TritonError.UNAVAILABLE)
        return pb_utils.InferenceResponse([pb_utils.Tensor("BYTES", np.frombuffer(content, np.uint8))])

    def error(self, message, code):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))

    def finalize(self):
        os.close(self.device)
