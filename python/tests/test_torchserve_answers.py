"""What a TorchServe handler returned becomes the JSON that TorchServe makes of it."""
import json
import os
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "backends", "torchserve"))
from galatea_torchserve.answers import encoded


class EncodedTest(unittest.TestCase):
    def test_json_has_the_same_bytes_whichever_encoder_writes_it(self):
        nan = float("nan")
        scalars = [1, -2.5, None, True, "a\"\n, é", nan]
        values = [[], {}, 7, None, scalars, {"a": 1, "b, c": "x"}, {1: 2, None: 3.5, True: "y"}]
        values += [[[1, 2], []], {"a": {"b": [1]}}, [scalars, {"k": scalars}], (1, 2), [(1, 2)]]
        for value in values:
            self.assertEqual(encoded(value).decode(), json.dumps(value, indent=2))
