"""python export.py [--width 64] [--size 224]: writes ResNet-50 three times into ./models, for three backends: TorchScript and an
exported program for pytorch, ONNX for onnxruntime. Beside them answers.json: one image and what PyTorch itself says of it.

Needs torch, onnx and onnxscript. The weights are random."""
import argparse
import json
import os

import torch
from resnet50 import make

CONFIG = """backend: "%s"
max_batch_size: 32
input { name: "image" data_type: TYPE_FP32 dims: [ 3, %d, %d ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1000 ] }
dynamic_batching { max_queue_delay_microseconds: 2000 }
instance_group { count: 1 kind: %s }
"""


def folder(root, name, backend, size, kind="KIND_AUTO"):
    path = os.path.join(root, name)
    os.makedirs(os.path.join(path, "1"), exist_ok=True)
    with open(os.path.join(path, "config.pbtxt"), "w") as file:
        file.write(CONFIG % (backend, size, size, kind))
    return os.path.join(path, "1")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage; 64 is ResNet-50, 8 is quick")
    parser.add_argument("--size", type=int, default=224, help="pixels of an image's side")
    parser.add_argument("--to", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
    arguments = parser.parse_args()
    model = make(arguments.width)
    size = arguments.size
    image = torch.rand(2, 3, size, size)

    path = folder(arguments.to, "resnet50_script", "pytorch", size)
    torch.jit.save(torch.jit.freeze(torch.jit.script(model)), os.path.join(path, "model.pt"))

    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (image,), dynamic_shapes=({0: batch},))
    path = folder(arguments.to, "resnet50_program", "pytorch", size)
    torch.export.save(program, os.path.join(path, "model.pt2"))

    path = folder(arguments.to, "resnet50_onnx", "onnxruntime", size, "KIND_CPU")
    torch.onnx.export(program, f=os.path.join(path, "model.onnx"), output_names=["OUTPUT__0"], external_data=False)

    with torch.inference_mode():
        scores = model(image[:1])
    answers = {"image": image[:1].flatten().tolist(), "shape": [1, 3, size, size], "scores": scores.flatten().tolist()}
    with open(os.path.join(arguments.to, "answers.json"), "w") as file:
        json.dump(answers, file)


main()
