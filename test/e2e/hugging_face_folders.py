"""python hugging_face_folders.py FOLDER: writes small folders of Hugging Face with random weights, one for each task of
templates/huggingface, and has the template's code answer them as the library itself does."""
import importlib.util
import io
import json
import os
import sys
import types

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

root, program = sys.argv[1:3]
torch.manual_seed(1)
torch.set_num_threads(1)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
words = "[PAD] [UNK] Anna lives in Riga and Essen".split()
tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
bert = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=8, **sizes)
names = transformers.BertConfig(vocab_size=len(words), id2label={0: "O", 1: "B-PER", 2: "I-LOC"}, **sizes)
picture = transformers.ViTConfig(image_size=16, patch_size=8, id2label={0: "cat", 1: "dog", 2: "owl"}, **sizes)
made = {
    "embedding": transformers.BertModel(bert),
    "names": transformers.BertForTokenClassification(names),
    "pictures": transformers.ViTForImageClassification(picture),
}
for name, model in made.items():
    model.eval().save_pretrained(os.path.join(root, name))
    if name != "pictures":
        fast.save_pretrained(os.path.join(root, name))
size = {"height": 16, "width": 16}
transformers.ViTImageProcessor(size=size).save_pretrained(os.path.join(root, "pictures"))

# The template's code, without a server around it.
sys.modules["triton_python_backend_utils"] = types.ModuleType("triton_python_backend_utils")
spec = importlib.util.spec_from_file_location("template", program)
template = importlib.util.module_from_spec(spec)
spec.loader.exec_module(template)


def run(task, name, values):
    template.FOLDER = os.path.join(root, name)
    with torch.inference_mode():
        return task("cpu")(values)


texts = [b"Anna lives in Riga and Essen", b"Essen"]
rows = run(template.Embedding, "embedding", texts)["EMBEDDING"]
for text, row in zip(texts, rows):
    alone = made["embedding"](**fast(text.decode(), return_tensors="pt")).last_hidden_state.mean(dim=1)
    assert np.allclose(row, alone.detach().numpy()[0], atol=1e-5), (row, alone)
# A text of more tokens than the network has places is cut.
assert run(template.Embedding, "embedding", [b"Riga " * 50])["EMBEDDING"].shape == (1, 16)

found = json.loads(run(template.TokenClassification, "names", texts)["ENTITIES"][0][0])
logits = made["names"](**fast(texts[0].decode(), return_tensors="pt")).logits[0]
wanted = [names.id2label[index] for index in logits.argmax(dim=1).tolist()]
assert [each["text"] for each in found], found
for each in found:
    assert texts[0].decode()[each["start"] : each["end"]] == each["text"], each
    first = texts[0].decode()[: each["start"]].count(" ")
    assert wanted[first].endswith(each["label"]), (wanted, each)

file = io.BytesIO()
Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3)).save(file, "PNG")
scores = run(template.ImageClassification, "pictures", [file.getvalue()])
assert scores["SCORES"].shape == (1, 3) and abs(scores["SCORES"].sum() - 1) < 1e-5, scores
assert scores["LABEL"][0][0].decode() == ["cat", "dog", "owl"][scores["SCORES"][0].argmax()]
print("the same answers")
