"""Writes TensorFlow Serving's classic first model into a folder of versions: y = x / 2 + 2."""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf


class HalfPlusTwo(tf.Module):
    def __init__(self):
        self.half = tf.Variable(0.5)

    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": self.half * x + 2.0}


model = HalfPlusTwo()
tf.saved_model.save(model, os.path.join(sys.argv[1], "00000123"), signatures=model.__call__)
