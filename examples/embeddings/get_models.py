"""python get_models.py [repository]: makes the network and the tokenizer out of the package wordllama, which carries them.

Needs wordllama and onnx: pip install wordllama==0.4.0.post1 onnx"""
import hashlib
import importlib.util
import json
import os
import shutil
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

repository = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
package = os.path.dirname(importlib.util.find_spec("wordllama").origin)
WEIGHTS = ("weights/l2_supercat_256.safetensors", "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5")
TOKENIZER = ("tokenizers/l2_supercat_tokenizer_config.json", "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68")


def checked(name, digest):
    """The file of the package, if it is the one that this example was written for."""
    path = os.path.join(package, name)
    with open(path, "rb") as file:
        content = file.read()
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        sys.exit("%s has the SHA-256 %s, expected %s: install wordllama==0.4.0.post1" % (path, found, digest))
    return path, content


def table():
    """The one tensor of the safetensors file: a row of 256 halves for each token."""
    _, content = checked(*WEIGHTS)
    size = int.from_bytes(content[:8], "little")
    described = json.loads(content[8 : 8 + size])["embedding.weight"]
    first, last = described["data_offsets"]
    return np.frombuffer(content[8 + size :][first:last], np.float16).reshape(described["shape"])


def network(rows):
    """The mean of the rows of a text's tokens, at unit length."""
    two = numpy_helper.from_array(np.array([2], np.int64), "two")
    one = numpy_helper.from_array(np.array([1], np.int64), "one")
    nodes = [
        helper.make_node("Gather", ["rows", "ids"], ["halves"]),
        helper.make_node("Cast", ["halves"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "two"], ["weights"]),
        helper.make_node("Mul", ["floats", "weights"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "one"], ["sum"], keepdims=0),
        helper.make_node("LpNormalization", ["sum"], ["embedding"], axis=1, p=2),
    ]
    # The length is made 1 at the end, so the sum does as well as the mean.
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"]),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["texts", "tokens"]),
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", 256])]
    constants = [numpy_helper.from_array(rows, "rows"), two, one]
    graph = helper.make_graph(nodes, "embed", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


for model in ("embed_network", "embed_tokens"):
    os.makedirs(os.path.join(repository, model, "1"), exist_ok=True)
save(network(table()), os.path.join(repository, "embed_network/1/model.onnx"))
shutil.copyfile(checked(*TOKENIZER)[0], os.path.join(repository, "embed_tokens/1/tokenizer.json"))
print("embed_network and embed_tokens are in %s" % repository)
