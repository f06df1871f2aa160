"""The handler of a TorchServe archive: the version folder is an unpacked .mar. Each row of a request is one request of TorchServe."""
import json

import triton_python_backend_utils as pb_utils

from galatea_torchserve.answers import Answers, HandlerFailure
from galatea_torchserve.handler import load_handler, read_settings
from galatea_torchserve.rows import read_rows


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        draft = config.as_dict()
        if draft["input"] and draft["output"]:
            return config
        strings = {"data_type": "TYPE_STRING", "dims": [1]}
        config.add_input({"name": "data", **strings})
        config.add_input({"name": "request", **strings, "optional": True})
        config.add_output({"name": "prediction", **strings})
        config.add_output({"name": "response", **strings})
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        folder = pb_utils.get_model_dir()
        settings = read_settings(folder)
        gpu = int(args["model_instance_device_id"]) if args["model_instance_kind"] == "GPU" else None
        self._decodes = settings["decodesInput"]
        # The versions of a model share one configuration, and each has its own batch size.
        self._most_rows = max(settings["batchSize"], 1)
        self._is_batching = config["max_batch_size"] > 0
        self._is_decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self._handle, self._context, self._processor = load_handler(config["name"], folder, settings, gpu)

    def execute(self, requests):
        replies = []
        batch = []
        count = 0
        for request in requests:
            rows = read_rows(request, self._decodes)
            if batch and count + len(rows) > self._most_rows:
                replies += self._run(batch)
                batch = []
                count = 0
            batch.append((request, rows))
            count += len(rows)
        replies += self._run(batch)
        return None if self._is_decoupled else replies

    def _run(self, batch):
        senders = [request.get_response_sender() for request, _ in batch] if self._is_decoupled else None
        rows = [row for _, own in batch for row in own]
        answers = Answers(self._context, rows, [len(own) for _, own in batch], senders, self._is_batching)
        try:
            responses = answers.responses(answers.run(self._handle, self._processor))
        except HandlerFailure as failure:
            error = pb_utils.TritonError("%s (status %d)" % (failure.text, failure.status), failure.code)
            responses = [pb_utils.InferenceResponse(error=error) for _ in batch]
        if senders is not None:
            for sender, response in zip(senders, responses):
                sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return responses
