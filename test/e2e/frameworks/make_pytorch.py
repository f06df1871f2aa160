"""Builds small PyTorch models: TorchScript with every way of naming, exported programs, a class with its weights."""
import os
import shutil
import zipfile
from typing import Dict, List, Optional, Tuple

import torch
from model_folders import expect, folder, parameter, root, write_expected
from torch import Tensor, nn

torch.manual_seed(1)
batching = "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 500 }\n"


def tensor(role, name, kind, dims, rest=""):
    return '%s { name: "%s" data_type: TYPE_%s dims: %s %s }\n' % (role, name, kind, dims, rest)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 8192)
        self.outer = nn.Linear(8192, 3)

    def forward(self, features: Tensor):
        return torch.softmax(self.outer(torch.relu(self.inner(features))), 1)


rows = torch.randn(9, 4)
wide = Wide().eval()
config = 'platform: "pytorch_libtorch"\n' + batching + "instance_group { count: 2 kind: KIND_CPU }\n"
config += tensor("input", "INPUT__0", "FP32", "[ 4 ]") + tensor("output", "OUTPUT__0", "FP32", "[ 3 ]")
path = folder("numbered", config + parameter("ENABLE_WEIGHT_SHARING", "true"))
torch.jit.save(torch.jit.script(wide), os.path.join(path, "model.pt"))
expect("numbered", {"INPUT__0": ("FP32", rows)}, {"OUTPUT__0": wide(rows).detach()})


class AddSub(nn.Module):
    def forward(self, a: Tensor, b: Tensor, scale: Optional[Tensor] = None):
        if bool((a == 99).any()):
            raise ValueError("99 is not welcome")
        if scale is not None:
            b = b * scale
        return a + b, a - b


config = 'backend: "pytorch"\n' + batching
config += tensor("input", "b", "BF16", "[ 4 ]") + tensor("input", "a", "BF16", "[ 4 ]")
config += tensor("input", "scale", "BF16", "[ 1 ]", "optional: true")
config += tensor("output", "difference__1", "BF16", "[ 4 ]") + tensor("output", "sum__0", "BF16", "[ 4 ]")
torch.jit.save(torch.jit.script(AddSub()), os.path.join(folder("named_bf16", config), "model.pt"))
left, right = rows.bfloat16(), torch.randn(9, 4).bfloat16()
expect(
    "named_bf16",
    {"a": ("BF16", left.float()), "b": ("BF16", right.float())},
    {"sum__0": (left + right).float(), "difference__1": (left - right).float()},
)


class Difference(nn.Module):
    def forward(self, left: Tensor, right: Tensor):
        return left - right


config = 'backend: "pytorch"\n' + batching
config += tensor("input", "FIRST", "FP32", "[ 4 ]") + tensor("input", "SECOND", "FP32", "[ 4 ]")
config += tensor("output", "OUTPUT__0", "FP32", "[ 4 ]")
torch.jit.save(torch.jit.script(Difference()), os.path.join(folder("ordered", config), "model.pt"))
expect("ordered", {"FIRST": ("FP32", rows), "SECOND": ("FP32", rows.flip(0))}, {"OUTPUT__0": rows - rows.flip(0)})


class Tally(nn.Module):
    def forward(self, value: Tensor, is_start: Tensor, total: Tensor):
        total = value if bool(is_start.any()) else total + value
        return total, total


config = 'backend: "pytorch"\nmax_batch_size: 1\n'
config += tensor("input", "VALUE__0", "INT64", "[ 1 ]") + tensor("output", "TOTAL__0", "INT64", "[ 1 ]")
config += """sequence_batching {
  oldest { max_candidate_sequences: 4 }
  control_input { name: "START__1" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
  state { input_name: "STATE__2" output_name: "NEXT__1" data_type: TYPE_INT64 dims: 1 }
}
"""
torch.jit.save(torch.jit.script(Tally()), os.path.join(folder("tally", config), "model.pt"))


class Dictionary(nn.Module):
    def forward(self, x: Dict[str, Tensor]) -> Dict[str, Tensor]:
        return {"product": x["left"] * x["right"], "total": x["left"].sum(1) + x["right"].sum(1)}


config = 'backend: "pytorch"\nmax_batch_size: 8\n'
config += tensor("input", "left", "FP16", "[ 4 ]") + tensor("input", "right", "FP16", "[ 4 ]")
config += tensor("output", "product", "FP16", "[ 4 ]") + tensor("output", "total", "FP16", "[ 1 ]", "reshape { shape: [ ] }")
torch.jit.save(torch.jit.script(Dictionary()), os.path.join(folder("dictionary_fp16", config), "model.pt"))
left, right = left.half(), right.half()
expect(
    "dictionary_fp16",
    {"left": ("FP16", left.float()), "right": ("FP16", right.float())},
    {"product": (left * right).float(), "total": (left.sum(1) + right.sum(1)).float()[:, None]},
    tolerance=1e-2,
)


class ListOfTensors(nn.Module):
    def forward(self, parts: List[Tensor]):
        return torch.cat(parts, 1)


config = 'backend: "pytorch"\nmax_batch_size: 8\n'
config += tensor("input", "second__1", "INT64", "[ 1 ]") + tensor("input", "first__0", "INT64", "[ 2 ]")
config += tensor("output", "joined", "INT64", "[ 3 ]")
torch.jit.save(torch.jit.script(ListOfTensors()), os.path.join(folder("list", config), "model.pt"))
expect(
    "list",
    {"first__0": ("INT64", [[1, 2], [3, 4]]), "second__1": ("INT64", [[5], [6]])},
    {"joined": [[1, 2, 5], [3, 4, 6]]},
)


class Words(nn.Module):
    def forward(self, text: List[str]) -> List[str]:
        return [word.upper() for word in text]


config = 'backend: "pytorch"\n' + batching
config += tensor("input", "text", "STRING", "[ 1 ]") + tensor("output", "loud", "STRING", "[ 1 ]")
torch.jit.save(torch.jit.script(Words()), os.path.join(folder("words", config), "model.pt"))
expect("words", {"text": ("BYTES", [["a"], ["bc"], ["d"]])}, {"loud": [["A"], ["BC"], ["D"]]})


class Greeting(nn.Module):
    def forward(self, text: str, times: torch.Tensor) -> Tuple[List[str], torch.Tensor]:
        return [text + "!"], times * 2


config = 'backend: "pytorch"\n' + tensor("input", "text", "STRING", "[ 1 ]") + tensor("input", "times", "FP32", "[ 1 ]")
config += tensor("output", "OUTPUT__0", "STRING", "[ 1 ]") + tensor("output", "OUTPUT__1", "FP32", "[ 1 ]")
torch.jit.save(torch.jit.script(Greeting()), os.path.join(folder("greeting", config), "model.pt"))
inputs = {"text": ("BYTES", ["hello"]), "times": ("FP32", [3])}
expect("greeting", inputs, {"OUTPUT__0": ["hello!"], "OUTPUT__1": [6]}, isWhole=True)


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, features):
        return {"scores": self.layer(features), "largest": features.amax(1)}


scores = Scores().eval()
dynamic = {"features": {0: torch.export.Dim("batch")}}
program = torch.export.export(scores, (rows,), dynamic_shapes=dynamic)
saved = os.path.join(root, "saved.pt2")
torch.export.save(program, saved)
# As an older PyTorch would have written it.
with zipfile.ZipFile(saved) as old, zipfile.ZipFile(os.path.join(folder("program"), "model.pt2"), "w") as new:
    for entry in old.infolist():
        data = old.read(entry)
        if entry.filename.endswith("models/model.json"):
            data = data.replace(torch.__version__.encode(), b"2.5.1")
        new.writestr(entry.filename, data)
os.remove(saved)
answer = {name: value.detach() for name, value in scores(rows).items()}
expect("program", {"features": ("FP32", rows)}, {"scores": answer["scores"], "largest": answer["largest"][:, None]})


class Nested(nn.Module):
    def forward(self, x, pair, rest, factor):
        return (x + pair["one"] * pair["two"] + rest[0]) * factor


values = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0]), torch.tensor([7.0, 8.0, 9.0])]
arguments = (values[0], {"one": values[1], "two": values[2]}, [values[0]], torch.tensor(0.5))
torch.export.save(torch.export.export(Nested(), arguments), os.path.join(folder("nested"), "model.pt2"))
names = ("x", "pair_one", "pair_two", "rest_0", "factor")
flat = (values[0], values[1], values[2], values[0], [0.5])
expect(
    "nested",
    {name: ("FP32", value) for name, value in zip(names, flat)},
    {"OUTPUT__0": Nested()(*arguments)},
    isWhole=True,
)

# A class whose answer tells how its process is set up.
program = '''
import torch

class Part(torch.nn.Module):
    pass

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, features):
        state = torch.is_inference_mode_enabled(), torch._C._get_graph_executor_optimize(), torch.backends.cudnn.enabled
        numbers = [torch.get_num_threads(), torch.get_num_interop_threads()] + [int(one) for one in state]
        return self.layer(features), torch.tensor([numbers] * len(features))
'''
config = 'backend: "pytorch"\nruntime: "model.py"\nmax_batch_size: 8\n'
config += tensor("input", "features", "FP32", "[ 4 ]") + tensor("output", "scores", "FP32", "[ 3 ]")
config += tensor("output", "settings", "INT64", "[ 5 ]")
for key, value in (
    ("NUM_THREADS", "1"),
    ("INTER_OP_THREAD_COUNT", "3"),
    ("INFERENCE_MODE", "false"),
    ("DISABLE_OPTIMIZED_EXECUTION", "true"),
    ("DISABLE_CUDNN", "true"),
    ("ENABLE_JIT_EXECUTOR", "true"),
    ("ENABLE_JIT_PROFILING", "false"),
    ("ENABLE_TENSOR_FUSER", "false"),
    ("ENABLE_CACHE_CLEANING", "true"),
):
    config += parameter(key, value)
path = folder("class", config)
with open(os.path.join(path, "model.py"), "w") as file:
    file.write(program)
torch.save(scores.state_dict(), os.path.join(path, "model.pt"))
expect(
    "class",
    {"features": ("FP32", rows)},
    {"scores": answer["scores"], "settings": [[1, 3, 0, 0, 0]] * 9},
)

# Those that fail: nothing is said about the tensors, and weights without a class.
torch.jit.save(torch.jit.script(AddSub()), os.path.join(folder("undescribed"), "model.pt"))
config = 'backend: "pytorch"\n' + tensor("input", "x", "FP32", "[ 4 ]") + tensor("output", "y", "FP32", "[ 3 ]")
path = folder("weights_alone", config)
torch.save(scores.state_dict(), os.path.join(path, "model.pt"))
torch.save(torch.nn.Linear(4, 3), os.path.join(folder("saved_whole", config), "model.pt"))
config += parameter("INTRA_OP_THREAD_COUNT", "many")
shutil.copytree(path, folder("wrong_parameter", config), dirs_exist_ok=True)
write_expected()
