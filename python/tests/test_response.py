"""What a response takes, and what it says about anything else."""
import unittest

from galatea_worker.errors import TritonModelException
from galatea_worker.response import InferenceResponse


class ParametersTest(unittest.TestCase):
    def test_parameters_that_are_no_dict_are_named(self):
        for parameters in ([], "x", 5):
            with self.subTest(parameters=parameters), self.assertRaises(TritonModelException) as caught:
                InferenceResponse([], parameters=parameters)
            self.assertEqual(
                str(caught.exception),
                "Expect parameters to be a dict of str to bool/int/str/float, got %s" % type(parameters),
            )
