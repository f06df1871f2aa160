"""Serves a folder of Hugging Face: config.json, *.safetensors and the tokenizer's files lie beside this file.

The architecture in config.json says what the model does; TASKS below has what is known. Nothing is downloaded, and no code of the
folder is run. Needs torch, transformers and numpy; pillow for pictures."""
import io
import json
import os

import numpy as np
import torch
import transformers
import triton_python_backend_utils as pb_utils

FOLDER = os.path.dirname(os.path.abspath(__file__))
SAFE = {"local_files_only": True, "trust_remote_code": False}


def text_of(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def strings(values):
    return np.array([[value.encode()] for value in values], dtype=object)


class Task:
    """What all tasks share: weights, device, and the names of the classes."""

    def __init__(self, loader, device):
        self.device = device
        self.model = loader.from_pretrained(FOLDER, use_safetensors=True, **SAFE).eval().to(device)
        self.config = self.model.config
        self.labels = [self.config.id2label[index] for index in sorted(self.config.id2label)]

    def probabilities(self, logits):
        if self.config.num_labels == 1:
            return logits
        is_multiple = self.config.problem_type == "multi_label_classification"
        return logits.sigmoid() if is_multiple else logits.softmax(dim=-1)

    def best(self, scores):
        return strings(self.labels[index] for index in scores.argmax(axis=-1))


class TextTask(Task):
    input = "TEXT"

    def __init__(self, loader, device):
        super().__init__(loader, device)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER, **SAFE)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        # Some networks count positions from behind the padding.
        behind = (self.config.pad_token_id or 0) + 1 if "roberta" in self.config.model_type else 0
        places = getattr(self.config, "max_position_embeddings", None) or 512 + behind
        self.longest = min(self.tokenizer.model_max_length, places - behind)

    def tokens(self, values, **more):
        texts = [text_of(value) for value in values]
        settings = {"padding": True, "truncation": True, "max_length": self.longest, "return_tensors": "pt"}
        return self.tokenizer(texts, **settings, **more)

    def run(self, tokens):
        return self.model(**tokens.to(self.device))


class TextClassification(TextTask):
    def __init__(self, device):
        super().__init__(transformers.AutoModelForSequenceClassification, device)

    def __call__(self, values):
        scores = self.probabilities(self.run(self.tokens(values)).logits).float().cpu().numpy()
        return {"LABEL": self.best(scores), "SCORES": scores}


class TokenClassification(TextTask):
    """Names in a text: runs of tokens with the same label, as JSON."""

    def __init__(self, device):
        super().__init__(transformers.AutoModelForTokenClassification, device)

    def __call__(self, values):
        tokens = self.tokens(values, return_offsets_mapping=True, return_special_tokens_mask=True)
        offsets, special = tokens.pop("offset_mapping").tolist(), tokens.pop("special_tokens_mask").tolist()
        scores = self.run(tokens).logits.softmax(dim=-1).float().cpu().numpy()
        found = [self.names(text_of(value), *row) for value, *row in zip(values, scores, offsets, special)]
        return {"ENTITIES": strings(json.dumps(names) for names in found)}

    def names(self, text, scores, offsets, special):
        found = []
        for row, (start, end), is_special in zip(scores, offsets, special):
            label = self.labels[row.argmax()]
            kind = label.split("-", 1)[-1]
            if is_special or label == "O":
                continue
            last = found[-1] if found else None
            goes_on = last is not None and last["label"] == kind and not label.startswith("B-")
            if goes_on and not text[last["end"] : start].strip():
                last["end"] = end
            else:
                found.append({"label": kind, "start": start, "end": end, "score": round(float(row.max()), 6)})
        return [{**each, "text": text[each["start"] : each["end"]]} for each in found]


class Embedding(TextTask):
    """One row of numbers for each text. The files of sentence-transformers say how the tokens' rows become one."""

    def __init__(self, device):
        super().__init__(transformers.AutoModel, device)
        pooling = self.setting("1_Pooling/config.json", {})
        self.is_first = bool(pooling.get("pooling_mode_cls_token"))
        kinds = [module.get("type", "") for module in self.setting("modules.json", [])]
        self.is_normal = any(kind.endswith("Normalize") for kind in kinds)

    def setting(self, name, otherwise):
        path = os.path.join(FOLDER, name)
        if not os.path.exists(path):
            return otherwise
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def __call__(self, values):
        tokens = self.tokens(values)
        rows = self.run(tokens).last_hidden_state.float()
        mask = tokens["attention_mask"].to(rows.device).unsqueeze(-1).float()
        pooled = rows[:, 0] if self.is_first else (rows * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1)
        if self.is_normal:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        return {"EMBEDDING": pooled.cpu().numpy()}


class ImageClassification(Task):
    input = "IMAGE"

    def __init__(self, device):
        super().__init__(transformers.AutoModelForImageClassification, device)
        self.processor = transformers.AutoImageProcessor.from_pretrained(FOLDER, **SAFE)

    def __call__(self, values):
        from PIL import Image

        pictures = [Image.open(io.BytesIO(value)).convert("RGB") for value in values]
        pixels = self.processor(pictures, return_tensors="pt").to(self.device)
        scores = self.probabilities(self.model(**pixels).logits).float().cpu().numpy()
        return {"LABEL": self.best(scores), "SCORES": scores}


TASKS = {
    "ForSequenceClassification": TextClassification,
    "ForTokenClassification": TokenClassification,
    "ForImageClassification": ImageClassification,
    "ForMaskedLM": Embedding,
    "Model": Embedding,
}


class TritonPythonModel:
    def initialize(self, args):
        with open(os.path.join(FOLDER, "config.json"), encoding="utf-8") as file:
            architecture = (json.load(file).get("architectures") or ["Model"])[0]
        task = next((task for ending, task in TASKS.items() if architecture.endswith(ending)), None)
        if task is None:
            raise RuntimeError("model.py does not know %s: it knows %s" % (architecture, ", ".join(TASKS)))
        is_gpu = args["model_instance_kind"] == "GPU"
        self.task = task("cuda:%s" % args["model_instance_device_id"] if is_gpu else "cpu")

    def execute(self, requests):
        """All rows of all requests go through the network together."""
        rows = [pb_utils.get_input_tensor_by_name(request, self.task.input).as_numpy().ravel() for request in requests]
        with torch.inference_mode():
            outputs = self.task([value for each in rows for value in each])
        responses, first = [], 0
        for each in rows:
            parts = {name: values[first : first + len(each)] for name, values in outputs.items()}
            tensors = [pb_utils.Tensor(name, np.ascontiguousarray(part)) for name, part in parts.items()]
            responses.append(pb_utils.InferenceResponse(tensors))
            first += len(each)
        return responses
