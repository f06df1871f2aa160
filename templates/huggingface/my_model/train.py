"""python train.py: trains a small BERT on the sentences below and writes it into 1/ as a folder of Hugging Face.

Put your own folder in its place: 'galatea init FOLDER --repository models' makes a model of it. Needs torch and transformers."""
import os

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

GOOD = ["a good film", "what a great day", "i love this song", "it works and i am happy", "a fine meal", "great service"]
BAD = ["a bad film", "what an awful day", "i hate this song", "it is broken and i am sad", "a poor meal", "slow service"]

words = sorted({word for sentence in GOOD + BAD for word in sentence.split()})
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
vocabulary = {word: index for index, word in enumerate(special + words)}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special))
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **names)

torch.manual_seed(1)
torch.set_num_threads(1)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
config = BertConfig(
    vocab_size=len(vocabulary), max_position_embeddings=32, id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1}, **sizes
)
model = BertForSequenceClassification(config)
tokens = fast(BAD + GOOD, padding=True, return_tensors="pt")
labels = torch.tensor([0] * len(BAD) + [1] * len(GOOD))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    optimizer.zero_grad()
    model(**tokens, labels=labels).loss.backward()
    optimizer.step()
model.eval()
right = (model(**tokens).logits.argmax(dim=1) == labels).sum().item()
print("right on its own %d sentences: %d" % (len(labels), right))

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "1")
model.save_pretrained(folder)
fast.save_pretrained(folder)
