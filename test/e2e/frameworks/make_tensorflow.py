"""Builds small TensorFlow models: SavedModels with every type, strings and two signatures, a frozen graph, a ragged one."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import model_folders  # noqa: E402
import tensorflow as tf  # noqa: E402
from model_folders import expect, parameter, write_expected  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

kinds = [tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64]
kinds += [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.string]


def wire_name(kind):
    name = {"bfloat16": "BF16", "string": "BYTES"}.get(kind.name, kind.name)
    return name.replace("float", "FP").upper()



random = np.random.default_rng(1)
# One process each: importing TensorFlow takes seconds.
once = "instance_group { count: 1 kind: KIND_CPU }\n"


def folder(model, config=""):
    return model_folders.folder(model, config + once)


class Dense(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(random.standard_normal((4, 3)), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="features")])
    def scores(self, features):
        return {"scores": tf.nn.softmax(features @ self.weights)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="features")])
    def classes(self, features):
        return {"class": tf.argmax(features @ self.weights, axis=1)}


class Words(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.string, name="text")])
    def loud(self, text):
        return {"loud": tf.strings.upper(text)}


class Ragged(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def split(self, text):
        return {"words": tf.strings.split(text)}


class Kinds(tf.Module):
    """Every type there is, a scalar among them: what goes in comes out."""

    @tf.function(input_signature=[tf.TensorSpec([2] if kind != tf.int32 else [], kind, name=kind.name) for kind in kinds])
    def same(self, *tensors):
        return {"same_" + kind.name: tf.identity(tensor) for kind, tensor in zip(kinds, tensors)}


rows = random.standard_normal((9, 4)).astype(np.float32)
dense = Dense()
signatures = {"serving_default": dense.scores, "classes": dense.classes}
path = os.path.join(folder("dense"), "model.savedmodel")
tf.saved_model.save(dense, path, signatures=signatures)
with open(os.path.join(path, "saved_model.pb"), "rb+") as file:
    # As an older TensorFlow would have written it.
    saved = saved_model_pb2.SavedModel.FromString(file.read())
    saved.meta_graphs[0].meta_info_def.tensorflow_version = "2.11.0"
    file.seek(0)
    file.truncate()
    file.write(saved.SerializeToString())
expect("dense", {"features": ("FP32", rows)}, {"scores": dense.scores(rows)["scores"]})

choice = 'platform: "tensorflow_savedmodel"\n' + parameter("TF_NUM_INTRA_THREADS", "1") + parameter("TF_NUM_INTER_THREADS", "1")
path = folder("dense_classes", choice + parameter("TF_SIGNATURE_DEF", "classes"))
tf.saved_model.save(dense, os.path.join(path, "model.savedmodel"), signatures=signatures)
expect("dense_classes", {"features": ("FP32", rows)}, {"class": dense.classes(rows)["class"][:, None]})
path = folder("dense_nothing", choice + parameter("TF_SIGNATURE_DEF", "nothing"))
tf.saved_model.save(dense, os.path.join(path, "model.savedmodel"), signatures=signatures)

words = Words()
tf.saved_model.save(words, os.path.join(folder("words"), "model.savedmodel"), signatures=words.loud)
expect("words", {"text": ("BYTES", [["a"], ["bc"], ["d"]])}, {"loud": [["A"], ["BC"], ["D"]]})

ragged = Ragged()
tf.saved_model.save(ragged, os.path.join(folder("ragged"), "model.savedmodel"))

everything = Kinds()
tf.saved_model.save(everything, os.path.join(folder("kinds"), "model.savedmodel"), signatures=everything.same)
values = {kind.name: [5] if kind == tf.int32 else [True, False] if kind == tf.bool else [1, 2] for kind in kinds}
values["string"] = ["one", "two"]
expect(
    "kinds",
    {kind.name: (wire_name(kind), values[kind.name]) for kind in kinds},
    {"same_" + name: value for name, value in values.items()},
    isWhole=True,
)

weights = dense.weights.numpy()
graph = tf.Graph()
with graph.as_default():
    features = tf.compat.v1.placeholder(tf.float32, [None, 4], name="features")
    tf.nn.relu(features @ tf.constant(weights), name="hidden")
with open(os.path.join(folder("graph"), "model.graphdef"), "wb") as file:
    file.write(graph.as_graph_def().SerializeToString())
expect("graph", {"features": ("FP32", rows)}, {"hidden": np.maximum(rows @ weights, 0)})
write_expected()
