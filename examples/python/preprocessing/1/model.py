"""Text into numbers: lower case, words, padded to eight ids. The step before a text model."""
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

LENGTH = 8
VOCABULARY = 30_000


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            ids = np.zeros((len(texts), LENGTH), np.int64)
            mask = np.zeros((len(texts), LENGTH), np.int64)
            for row, (text,) in enumerate(texts):
                words = text.decode("utf-8").lower().split()[:LENGTH]
                for column, word in enumerate(words):
                    ids[row, column] = 1 + zlib.crc32(word.encode()) % (VOCABULARY - 1)
                    mask[row, column] = 1
            outputs = [pb_utils.Tensor("INPUT_IDS", ids), pb_utils.Tensor("ATTENTION_MASK", mask)]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
