"""Decoupled: n answers of n, sent by a thread while execute takes the next request."""
import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.running = 0
        self.idle = threading.Condition()

    def execute(self, requests):
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            with self.idle:
                self.running += 1
            threading.Thread(target=self.answer, args=(request.get_response_sender(), count), daemon=True).start()
        # A decoupled model returns nothing: its answers go through the response sender.
        return None

    def answer(self, sender, count):
        try:
            for _ in range(count):
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([count], np.int32))]))
        finally:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            with self.idle:
                self.running -= 1
                self.idle.notify_all()

    def finalize(self):
        with self.idle:
            self.idle.wait_for(lambda: self.running == 0)
