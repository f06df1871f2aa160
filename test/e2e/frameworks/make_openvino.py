"""Builds small OpenVINO models in IR: a free batch, a batch of one, BF16, strings, and numbers without a dimension."""
import os

import numpy as np
import openvino
from model_folders import expect, folder, parameter, write_expected
from openvino import opset8 as ops

random = np.random.default_rng(1)
weights = random.standard_normal((4, 3)).astype(np.float32)
rows = random.standard_normal((9, 4)).astype(np.float32)


def parameter_of(name, shape, kind=np.float32):
    node = ops.parameter(shape, kind, name=name)
    node.output(0).set_names({name})
    return node


def named(node, name):
    node.output(0).set_names({name})
    return node


def save(name, outputs, inputs, config=""):
    path = os.path.join(folder(name, config), "model.xml")
    openvino.save_model(openvino.Model(outputs, inputs, name), path, compress_to_fp16=False)
    return path


def scores(batch):
    features = parameter_of("features", [batch, 4])
    return [named(ops.softmax(ops.matmul(features, ops.constant(weights), False, False), 1), "scores")], [features]


exponentials = np.exp(rows @ weights)
expected = {"scores": exponentials / exponentials.sum(1, keepdims=True)}
path = save("free_batch", *scores(-1))
with open(path) as file:
    text = file.read()
with open(path, "w") as file:
    # As an older OpenVINO would have written it.
    file.write(text.replace('"OpenVINO Runtime" value="%s' % openvino.__version__[:6], '"OpenVINO Runtime" value="2024.1'))
# Its own precision, which is bfloat16 where the processor has it; the others are told to keep to single precision.
own = openvino.Core().compile_model(openvino.Model(*scores(-1), "own"), "CPU")
expect("free_batch", {"features": ("FP32", rows)}, {"scores": own(rows)[0]})

config = """backend: "openvino"
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 500 }
input { name: "features" data_type: TYPE_FP32 dims: 4 }
output { name: "scores" data_type: TYPE_FP32 dims: 3 }
"""
config += parameter("HINT_PRECISION", "f32")
save("fixed_batch", *scores(1), config + parameter("CPU_THREADS_NUM", "1") + parameter("PERFORMANCE_HINT", "THROUGHPUT"))
expect("fixed_batch", {"features": ("FP32", rows)}, expected)
# No inputs and outputs are in the configuration: the layouts say that the model takes batches.
of_layout = openvino.Model(*scores(1), "of_layout")
for port in [*of_layout.inputs, *of_layout.outputs]:
    port.node.set_layout(openvino.Layout("NC"))
path = os.path.join(folder("of_layout", 'backend: "openvino"\n' + parameter("HINT_PRECISION", "f32")), "model.xml")
openvino.save_model(of_layout, path, compress_to_fp16=False)
expect("of_layout", {"features": ("FP32", rows)}, expected)

padding = parameter("SKIP_DYNAMIC_BATCHSIZE", "YES") + parameter("ENABLE_BATCH_PADDING", "YES")
save("padded_batch", *scores(8), config + padding)
expect("padded_batch", {"features": ("FP32", rows)}, expected)

halves = parameter_of("halves", [-1, 2], openvino.Type.bf16)
save("bf16", [named(ops.relu(halves), "positive")], [halves])
expect("bf16", {"halves": ("BF16", [[1, -1], [2, 0.5], [-3, 4]])}, {"positive": [[1, 0], [2, 0.5], [0, 4]]})

words = parameter_of("words", [-1], openvino.Type.string)
config = """backend: "openvino"
input { name: "words" data_type: TYPE_STRING dims: -1 }
output { name: "words" data_type: TYPE_STRING dims: -1 }
"""
save("words", [words], [words], config)
expect("words", {"words": ("BYTES", ["a", "bc"])}, {"words": ["a", "bc"]}, isWhole=True)

scalar = parameter_of("number", [])
save("scalar", [named(ops.multiply(scalar, ops.constant(np.float32(2))), "twice")], [scalar])
expect("scalar", {"number": ("FP32", [21])}, {"twice": [42]}, isWhole=True)
write_expected()
