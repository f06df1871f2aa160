"""What auto_complete_config may do to a configuration."""
import json
import unittest

from galatea_worker.model_config import ModelConfig


def config(**fields):
    return ModelConfig(json.dumps(dict({"name": "m", "max_batch_size": 0, "input": [], "output": []}, **fields)))


class ModelConfigTest(unittest.TestCase):
    def refuses(self, message, action):
        with self.assertRaises(ValueError) as caught:
            action()
        self.assertEqual(str(caught.exception), message)

    def test_what_is_missing_is_filled_in(self):
        model = config(input=[{"name": "A", "data_type": "TYPE_INVALID", "dims": []}])
        model.set_max_batch_size(4)
        model.set_dynamic_batching()
        model.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [2], "optional": True})
        model.add_output({"name": "B", "data_type": "TYPE_FP32", "dims": [2]})
        model.set_model_transaction_policy({"decoupled": True})
        result = model.as_dict()
        self.assertEqual(result["max_batch_size"], 4)
        self.assertEqual(result["dynamic_batching"], {})
        self.assertEqual(result["input"], [{"name": "A", "data_type": "TYPE_FP32", "dims": [2], "optional": True}])
        self.assertEqual(result["model_transaction_policy"], {"decoupled": True})

    def test_what_the_file_says_cannot_be_contradicted(self):
        self.refuses(
            "configuration specified max_batch_size 8, but in auto-complete-config function for model 'm' specified "
            "max_batch_size 4",
            lambda: config(max_batch_size=8).set_max_batch_size(4),
        )
        self.refuses(
            "Configuration specified scheduling_choice as 'sequence_batching', but auto-complete-config function for "
            "model 'm' tries to set scheduling_choice as 'dynamic_batching'",
            lambda: config(sequence_batching={}).set_dynamic_batching(),
        )
        known = [{"name": "A", "data_type": "TYPE_FP32", "dims": [1]}]
        self.refuses(
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'A', model provides TYPE_INT8",
            lambda: config(input=known).add_input({"name": "A", "data_type": "TYPE_INT8", "dims": [1]}),
        )
        self.refuses(
            "model 'm', tensor 'A': the model expects dims [2] but the model configuration specifies dims [1]",
            lambda: config(output=known).add_output({"name": "A", "data_type": "TYPE_FP32", "dims": [2]}),
        )
        self.refuses(
            "trying to change decoupled property in auto-complete-config for model 'm', which is already set to 'False'.",
            lambda: config(model_transaction_policy={"decoupled": False}).set_model_transaction_policy({"decoupled": True}),
        )

    def test_incomplete_tensors_are_refused(self):
        self.refuses(
            "input in auto-complete-config function for model 'm' is missing 'name' property.",
            lambda: config().add_input({"data_type": "TYPE_FP32", "dims": [1]}),
        )
        self.refuses(
            "output 'B' in auto-complete-config function for model 'm' is missing 'dims' property.",
            lambda: config().add_output({"name": "B", "data_type": "TYPE_FP32"}),
        )
        self.refuses(
            "output 'B' in auto-complete-config function for model 'm' contains property other than 'name', 'data_type' "
            "and 'dims'.",
            lambda: config().add_output({"name": "B", "data_type": "TYPE_FP32", "dims": [1], "optional": True}),
        )


if __name__ == "__main__":
    unittest.main()
