"""python variants.py [--models ./models] [--images FOLDER]: makes two smaller ResNet-50 of resnet50_onnx: resnet50_fp16 in half precision, and
resnet50_int8 with weights and activations of 8 bits (QDQ: quantised and dequantised around each step, as ONNX Runtime and TensorRT
read it). Inputs and outputs stay FP32, so clients need no change. Prints how often each names the same class as the original.

Needs onnx and onnxruntime. The ranges of the activations come from images: --images names a folder of .npy files of shape [3, size, size]; without
it they are noise, which suits the random weights of this example and no real model."""
import argparse
import glob
import os
import shutil
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16

here = os.path.dirname(os.path.abspath(__file__))


class Images(CalibrationDataReader):
    def __init__(self, name, images):
        self.left = iter([{name: image[None]} for image in images])

    def get_next(self):
        return next(self.left, None)


def images_of(folder, shape, count):
    if folder:
        return [np.load(file).astype(np.float32) for file in sorted(glob.glob(os.path.join(folder, "*.npy")))[:count]]
    return list(np.random.default_rng(8).random((count, *shape), dtype=np.float32))


def scores(file, name, images):
    session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {name: image[None]})[0] for image in images])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=os.path.join(here, "models"))
    parser.add_argument("--images", default="")
    parser.add_argument("--count", type=int, default=32, help="images for the ranges of activations, and as many others to compare with")
    arguments = parser.parse_args()
    original = os.path.join(arguments.models, "resnet50_onnx", "1", "model.onnx")
    model = onnx.load(original)
    [tensor] = [each for each in model.graph.input if each.name not in {w.name for w in model.graph.initializer}]
    shape = [dim.dim_value for dim in tensor.type.tensor_type.shape.dim][1:]
    images = images_of(arguments.images, shape, 2 * arguments.count)
    known, fresh = images[: len(images) // 2], images[len(images) // 2 :]

    files = {}
    for variant in ("fp16", "int8"):
        folder = os.path.join(arguments.models, "resnet50_" + variant)
        os.makedirs(os.path.join(folder, "1"), exist_ok=True)
        shutil.copy(os.path.join(arguments.models, "resnet50_onnx", "config.pbtxt"), folder)
        files[variant] = os.path.join(folder, "1", "model.onnx")
    onnx.save(convert_float_to_float16(model, keep_io_types=True), files["fp16"])
    with tempfile.TemporaryDirectory() as folder:
        # Joins what can be one step, such as a convolution and its normalisation, before the ranges are measured.
        prepared = os.path.join(folder, "prepared.onnx")
        quant_pre_process(original, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared, files["int8"], Images(tensor.name, known), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )
    wanted = scores(original, tensor.name, fresh)
    print("%-14s %5.1f MB" % ("resnet50_onnx", os.path.getsize(original) / 1e6))
    for variant, file in files.items():
        told = scores(file, tensor.name, fresh)
        same = np.mean(told.argmax(1) == wanted.argmax(1))
        error = np.abs(told - wanted).max() / np.abs(wanted).max()
        size = os.path.getsize(file) / 1e6
        print("%-14s %5.1f MB, same class for %3.0f %% of %d images, scores differ by %.4f of the largest" % ("resnet50_" + variant, size, 100 * same, len(fresh), error))


main()
