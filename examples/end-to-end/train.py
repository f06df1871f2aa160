"""python train.py FOLDER: trains a classifier of digits and writes it three times: fp32.onnx, fp16.onnx and int8.onnx.

Beside them held-out.json: digits that the training has not seen. Needs scikit-learn, onnx and onnxruntime. The digits come with
scikit-learn: the test part of the UCI set "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak; CC BY 4.0)."""
import json
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

warnings.filterwarnings("ignore")
HIDDEN = (512, 512)


def to_onnx(network, number):
    """The network with weights of this type. Inputs and outputs stay FP32, so that clients need not care."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(number))
    constants = [numpy_helper.from_array(np.array(1 / 16, number), "scale")]
    nodes = [
        helper.make_node("Cast", ["pixels"], ["numbers"], to=kind),
        helper.make_node("Mul", ["numbers", "scale"], ["layer_0"]),
    ]
    last = len(network.coefs_) - 1
    for index, (weights, bias) in enumerate(zip(network.coefs_, network.intercepts_)):
        constants.append(numpy_helper.from_array(weights.astype(number), "weights_%d" % index))
        constants.append(numpy_helper.from_array(bias.astype(number), "bias_%d" % index))
        nodes.append(helper.make_node("MatMul", ["layer_%d" % index, "weights_%d" % index], ["product_%d" % index]))
        nodes.append(helper.make_node("Add", ["product_%d" % index, "bias_%d" % index], ["sum_%d" % index]))
        if index < last:
            nodes.append(helper.make_node("Relu", ["sum_%d" % index], ["layer_%d" % (index + 1)]))
    nodes.append(helper.make_node("Cast", ["sum_%d" % last], ["logits"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Softmax", ["logits"], ["scores"], axis=1))
    inputs = [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 64])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])]
    graph = helper.make_graph(nodes, "digits", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main(folder):
    os.makedirs(folder, exist_ok=True)
    digits = load_digits()
    known, held_out, known_labels, held_out_labels = train_test_split(
        digits.data, digits.target, test_size=0.25, random_state=1, stratify=digits.target
    )
    network = MLPClassifier(HIDDEN, max_iter=12, random_state=1).fit(known / 16, known_labels)
    fp32 = os.path.join(folder, "fp32.onnx")
    onnx.save(to_onnx(network, np.float32), fp32)
    onnx.save(to_onnx(network, np.float16), os.path.join(folder, "fp16.onnx"))
    # The weights become bytes once, the numbers between the layers at each run.
    quantize_dynamic(fp32, os.path.join(folder, "int8.onnx"), weight_type=QuantType.QInt8)
    with open(os.path.join(folder, "held-out.json"), "w") as file:
        json.dump({"pixels": held_out.tolist(), "labels": held_out_labels.tolist()}, file)
    print("%d digits learned, %d held out" % (len(known), len(held_out)))


main(*sys.argv[1:])
