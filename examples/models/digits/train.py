"""Trains the digit classifier of this folder and writes 1/model.onnx, labels.txt and held-out.csv.

    pip install scikit-learn==1.9.1 onnx==1.23.2
    python train.py

A multi-layer perceptron, 64 -> 192 -> 64 -> 10, on scikit-learn's bundled handwritten digits (1,797 images of 8x8
pixels, each 0 to 16). A quarter of them is put aside before training and never seen by it: held-out.csv. Every other
image is also shown twelve times a little turned, sheared, scaled and moved, because people do not write straight. The
sizes were chosen by cross-validation among the training images (98.7 %). The seed is fixed and one thread does the
sums: the same versions on the same kind of machine give the same bytes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pathlib
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

SEED = 20
FOLDER = pathlib.Path(__file__).resolve().parent
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def with_distortions(pixels, labels, copies):
    """The images themselves and `copies` of each, distorted at random."""
    random = np.random.default_rng(SEED)
    images = pixels.reshape(-1, 8, 8)
    centre = np.array([3.5, 3.5])
    shown = [images]
    for _ in range(copies):
        distorted = np.empty_like(images)
        for index, image in enumerate(images):
            turn, shear = random.uniform(-0.2, 0.2), random.uniform(-0.15, 0.15)
            wide, high = random.uniform(0.88, 1.15, 2)
            matrix = np.array([[np.cos(turn) * high, -np.sin(turn) + shear], [np.sin(turn), np.cos(turn) * wide]])
            offset = centre - matrix @ centre + random.uniform(-0.7, 0.7, 2)
            distorted[index] = ndimage.affine_transform(image, matrix, offset, order=1)
        shown.append(distorted)
    return np.concatenate(shown).reshape(-1, 64), np.tile(labels, copies + 1)


def to_onnx(network):
    """scores = softmax(relu(relu(pixels/16 * W0 + b0) * W1 + b1) * W2 + b2), with the first dimension free."""
    constants = [numpy_helper.from_array(np.array(1 / 16, np.float32), "scale")]
    nodes = [helper.make_node("Mul", ["pixels", "scale"], ["layer_0"])]
    last = len(network.coefs_) - 1
    for index, (weights, bias) in enumerate(zip(network.coefs_, network.intercepts_)):
        constants.append(numpy_helper.from_array(weights.astype(np.float32), f"weights_{index}"))
        constants.append(numpy_helper.from_array(bias.astype(np.float32), f"bias_{index}"))
        inputs = [f"layer_{index}", f"weights_{index}", f"bias_{index}"]
        nodes.append(helper.make_node("Gemm", inputs, [f"sum_{index}"]))
        if index < last:
            nodes.append(helper.make_node("Relu", [f"sum_{index}"], [f"layer_{index + 1}"]))
    nodes.append(helper.make_node("Softmax", [f"sum_{last}"], ["scores"], axis=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        constants,
    )
    model = helper.make_model(
        graph,
        producer_name="examples/models/digits/train.py",
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        doc_string="Handwritten digits 0-9 from 8x8 grey images (0 = paper, 16 = ink).",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    pixels, labels = load_digits(return_X_y=True)
    train_pixels, held_out_pixels, train_labels, held_out_labels = train_test_split(
        pixels, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    shown_pixels, shown_labels = with_distortions(train_pixels, train_labels, copies=12)
    network = MLPClassifier((192, 64), alpha=1e-2, batch_size=64, max_iter=40, random_state=SEED)
    with warnings.catch_warnings():
        # Forty rounds are meant to end before the weights stand still: more of them learn the training set by heart.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(shown_pixels / 16, shown_labels)
    correct = int(np.sum(network.predict(held_out_pixels / 16) == held_out_labels))
    print(f"held-out digits recognised: {correct} of {len(held_out_labels)} ({correct / len(held_out_labels):.1%})")

    (FOLDER / "1").mkdir(exist_ok=True)
    model = to_onnx(network).SerializeToString(deterministic=True)
    (FOLDER / "1" / "model.onnx").write_bytes(model)
    (FOLDER / "labels.txt").write_text("\n".join(LABELS) + "\n")
    rows = [[label, *row] for label, row in zip(held_out_labels, held_out_pixels.astype(int))]
    lines = ["label," + ",".join(f"p{index}" for index in range(64))]
    lines += [",".join(map(str, row)) for row in rows]
    (FOLDER / "held-out.csv").write_text("\n".join(lines) + "\n")
    print(f"wrote 1/model.onnx ({len(model):,} bytes), labels.txt and held-out.csv")


if __name__ == "__main__":
    main()
