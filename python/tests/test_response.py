"""What a response takes, and what it says about anything else."""
import unittest

from galatea_worker.context import context
from galatea_worker.errors import TritonModelException
from galatea_worker.response import InferenceResponse


class ParametersTest(unittest.TestCase):
    def test_an_integer_that_no_protocol_can_carry_is_named(self):
        for value in (2**63, -(2**63) - 1, 10**400):
            with self.subTest(value=value), self.assertRaises(TritonModelException) as caught:
                InferenceResponse([], parameters={"big": value})
            self.assertEqual(
                str(caught.exception), "Expect integers of parameters to have 64 bits, found more in 'big'"
            )
        InferenceResponse([], parameters={"a": 2**63 - 1, "b": -(2**63), "c": True, "d": 1e300})

    def test_with_the_rules_of_triton_a_float_is_no_parameter(self):
        context.follows_triton = True
        self.addCleanup(setattr, context, "follows_triton", False)
        with self.assertRaises(TritonModelException) as caught:
            InferenceResponse([], parameters={"a": 0.5})
        self.assertEqual(
            str(caught.exception),
            "Expect parameters values to have type bool/int/str, found type <class 'float'>",
        )
        InferenceResponse([], parameters={"a": 1, "b": "x", "c": True})

    def test_parameters_that_are_no_dict_are_named(self):
        for parameters in ([], "x", 5):
            with self.subTest(parameters=parameters), self.assertRaises(TritonModelException) as caught:
                InferenceResponse([], parameters=parameters)
            self.assertEqual(
                str(caught.exception),
                "Expect parameters to be a dict of str to bool/int/str/float, got %s" % type(parameters),
            )
