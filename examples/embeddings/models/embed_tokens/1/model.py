"""Texts in, the numbers of their tokens out, all rows of a request as long as the longest. Needs tokenizers and numpy."""
import os

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

LONGEST = 512


class TritonPythonModel:
    def initialize(self, args):
        folder = os.path.dirname(os.path.abspath(__file__))
        self.tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(LONGEST)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        rows = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().ravel()
        texts = [row.decode("utf-8", "replace") for row in rows]
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        ids = np.array([each.ids for each in encoded], np.int64)
        mask = np.array([each.attention_mask for each in encoded], np.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("IDS", ids), pb_utils.Tensor("MASK", mask)])
