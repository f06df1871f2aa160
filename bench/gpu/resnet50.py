"""python3 bench/gpu/resnet50.py: ResNet-50 in half precision on an NVIDIA GPU, through the server and without it, in one run.

What it shows, each with its figures: models are placed on the GPU; images per second over shared memory and gRPC, beside PyTorch
alone; two instances on one GPU; a model that runs out of memory leaves the others serving. Ends with JSON, also in --json FILE.

Needs a Python with torch and numpy, and a Node: --node FILE (or FILE.xz, which is unpacked), else `node` on the PATH. The weights
are random. Every step has a time limit, the whole run one of SECONDS_OF_RUN seconds, 560; what fails is written down and the rest goes on."""
import argparse
import contextlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import time
import urllib.request

from gpu_bench import Report, call, perf, require, root, serving, within

GREEDY = '''
import torch

class Greedy(torch.nn.Module):
    """Takes as many GiB as it is asked for, and tells how much is left and where it lies."""
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, gibibytes):
        count = int(gibibytes.max()) << 30
        taken = torch.empty(count, dtype=torch.uint8, device=self.weight.device)
        is_cuda = taken.is_cuda
        free = torch.cuda.mem_get_info()[0] if is_cuda else 0
        del taken
        return torch.tensor([int(is_cuda), free >> 20])
'''

TWICE = '''
import torch

class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.full((1,), 2.0))

    def forward(self, x):
        return x * self.factor
'''
def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--seconds", type=float, default=3, help="of one measurement")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--only", default="", help="only steps whose names have one of these words (a|b) in them")
    parser.add_argument("--serve", action="append", default=[], help="a flag more for the server")
    parser.add_argument("--cpu", action="store_true", help="try the script out where there is no GPU")
    parser.add_argument("--bare", default="", help=argparse.SUPPRESS)
    parser.add_argument("--fuser", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# PyTorch alone: in processes of their own, whose memory is gone with them.


def bare(options, path):
    import torch

    device = torch.device("cpu" if options.cpu else "cuda:0")
    torch._C._jit_set_texpr_fuser_enabled(options.fuser)
    model = torch.jit.load(path, map_location=device).eval()
    kind = torch.float32 if options.cpu else torch.float16
    host = torch.rand(options.batch, 3, options.size, options.size).to(kind)
    wait = (lambda: None) if options.cpu else torch.cuda.synchronize

    def rate(step):
        with torch.inference_mode():
            for _ in range(10):
                step()
            wait()
            started, count = time.perf_counter(), 0
            while time.perf_counter() - started < options.seconds:
                for _ in range(5):
                    step()
                wait()
                count += 5
            return count * options.batch / (time.perf_counter() - started)

    on_device = host.to(device)
    print(json.dumps({"on_device": rate(lambda: model(on_device)), "with_copies": rate(lambda: model(host.to(device)).cpu())}))


def run_bare(options, path):
    """With and without TorchScript's fuser: the quicker one counts."""
    runs = [run_bare_once(options, path, flags) for flags in ([], ["--fuser"])]
    return max(runs, key=lambda run: run["on_device"])


def run_bare_once(options, path, flags):
    command = [sys.executable, os.path.abspath(__file__), "--bare", path, "--seconds", str(options.seconds)]
    command += ["--size", str(options.size), "--batch", str(options.batch)] + (["--cpu"] if options.cpu else []) + flags
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=within(60), check=True).stdout.splitlines()[-1])


# The repository


def make_models(options, folder):
    import torch

    sys.path.insert(0, os.path.join(root, "examples", "resnet50"))
    from resnet50 import make

    model = make(options.width)
    kind, name = (torch.float32, "FP32") if options.cpu else (torch.float16, "FP16")
    model = model.to(kind).to(memory_format=torch.channels_last)
    script = os.path.join(folder, "resnet50.pt")
    torch.jit.save(torch.jit.freeze(torch.jit.script(model)), script)
    group = "KIND_CPU" if options.cpu else "KIND_GPU gpus: [ 0 ]"
    tensors = 'input { name: "INPUT__0" data_type: TYPE_%s dims: [ 3, %d, %d ] }\n' % (name, options.size, options.size)
    tensors += 'output { name: "OUTPUT__0" data_type: TYPE_%s dims: [ 1000 ] }\n' % name
    batching = "max_batch_size: %d\ndynamic_batching { max_queue_delay_microseconds: 1000 }\n" % options.batch
    repository = os.path.join(folder, "models")
    for model_name, count in (("resnet50", 1), ("resnet50_two", 2)):
        version = os.path.join(repository, model_name, "1")
        os.makedirs(version)
        shutil.copy(script, os.path.join(version, "model.pt"))
        with open(os.path.join(repository, model_name, "config.pbtxt"), "w") as file:
            file.write('platform: "pytorch_libtorch"\n' + batching + tensors)
            file.write("instance_group { count: %d kind: %s }\n" % (count, group))
            # The fuser compiles anew for each size of batch.
            file.write('parameters { key: "ENABLE_TENSOR_FUSER" value { string_value: "false" } }\n')
    version = os.path.join(repository, "greedy", "1")
    os.makedirs(version)
    with open(os.path.join(version, "model.py"), "w") as file:
        file.write(GREEDY)
    with open(os.path.join(repository, "greedy", "config.pbtxt"), "w") as file:
        file.write('backend: "pytorch"\nruntime: "model.py"\ninput { name: "gibibytes" data_type: TYPE_INT64 dims: [ 1 ] }\n')
        file.write('output { name: "told" data_type: TYPE_INT64 dims: [ 2 ] }\n')
        file.write("instance_group { count: 1 kind: %s }\n" % group)
    version = os.path.join(repository, "twice", "1")
    os.makedirs(version)
    with open(os.path.join(version, "model.py"), "w") as file:
        file.write(TWICE)
    with open(os.path.join(repository, "twice", "config.pbtxt"), "w") as file:
        file.write('backend: "pytorch"\nruntime: "model.py"\nmax_batch_size: 8\ndynamic_batching { }\n')
        file.write('input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }\noutput { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }\n')
        file.write("instance_group { count: 1 kind: %s }\n" % group)
    return repository, script


# Requests


def infer_greedy(address, gibibytes):
    body = {"inputs": [{"name": "gibibytes", "datatype": "INT64", "shape": [1], "data": [gibibytes]}]}
    return call(address, "/v2/models/greedy/infer", body)


def infer_image(options, address):
    import numpy as np

    # JSON has no half precision.
    kind, datatype = (np.float32, "FP32") if options.cpu else (np.float16, "FP16")
    image = np.zeros((1, 3, options.size, options.size), kind)
    return binary_infer(address, "resnet50", "INPUT__0", datatype, image, "OUTPUT__0")[0]


def binary_infer(address, model, name, datatype, array, output):
    """The status and the bytes of one output, in the binary form of the protocol."""
    data = array.tobytes()
    head = {"inputs": [{"name": name, "datatype": datatype, "shape": list(array.shape)}]}
    head["inputs"][0]["parameters"] = {"binary_data_size": len(data)}
    head["outputs"] = [{"name": output, "parameters": {"binary_data": True}}]
    text = json.dumps(head).encode()
    request = urllib.request.Request("http://%s/v2/models/%s/infer" % (address, model), text + data)
    request.add_header("Inference-Header-Content-Length", str(len(text)))
    with urllib.request.urlopen(request, timeout=within(60)) as response:
        answer = response.read()
        return response.status, answer[int(response.headers["Inference-Header-Content-Length"]) :]


def right_answers(address):
    """The GPU reads inputs where the server has put them: also after that memory has grown, and was given back when idle."""
    import numpy as np
    from concurrent.futures import ThreadPoolExecutor

    def ask(seed, size):
        x = np.random.default_rng(seed).random((1, size), dtype=np.float32)
        y = np.frombuffer(binary_infer(address, "twice", "x", "FP32", x, "y")[1], np.float32)
        return bool((y == 2 * x[0]).all())

    # Surplus memory goes back five to ten seconds after the last request.
    idle = 12
    asked = wrong = 0
    with ThreadPoolExecutor(16) as pool:
        for round_number, (size, idle_seconds) in enumerate(((1 << 18, 0), (1 << 22, 0), (1 << 22, idle), (1 << 18, idle), (1 << 22, 0))):
            time.sleep(idle_seconds)
            answers = list(pool.map(lambda seed: ask(seed, size), range(1000 * round_number, 1000 * round_number + 48)))
            asked += len(answers)
            wrong += answers.count(False)
    if wrong:
        raise RuntimeError("%d of %d answers were wrong" % (wrong, asked))
    return {"asked": asked, "wrong": wrong}


# The run


def machine(options):
    import torch

    facts = {"python": sys.version.split()[0], "torch": torch.__version__}
    if not options.cpu:
        facts["gpu"] = torch.cuda.get_device_name(0)
    return facts


def placement(address):
    """The configuration as the server completed it, and what a model sees."""
    group = call(address, "/v2/models/resnet50/config")[1]["instance_group"][0]
    status, answer = infer_greedy(address, 0)
    told = answer["outputs"][0]["data"] if status == 200 else [answer]
    return {"kind": group["kind"], "gpus": group["gpus"], "model_is_on_gpu": told[0] == 1}


def out_of_memory(options, address):
    status, answer = infer_greedy(address, 100_000)
    after = infer_image(options, address)
    again, _ = infer_greedy(address, 0)
    if status == 200 or after != 200 or again != 200:
        raise RuntimeError("greedy %s %s, resnet50 then %s, greedy again %s" % (status, answer, after, again))
    return {"greedy_says": answer.get("error", "")[:300], "resnet50_then": after, "greedy_again": again}


def find_node(options, folder):
    if not options.node.endswith(".xz"):
        return options.node or "node"
    node = os.path.join(folder, "node")
    with lzma.open(options.node) as packed, open(node, "wb") as plain:
        shutil.copyfileobj(packed, plain, 1 << 22)
    os.chmod(node, 0o755)
    return node


def main():
    options = parse()
    if options.bare:
        bare(options, options.bare)
        return 0
    require(options, ["numpy", "torch"])
    report = Report(options)
    with report.folder() as folder:
        report.result["steps"]["machine"] = machine(options)
        options.node = find_node(options, folder)
        measure(options, report, *make_models(options, folder), folder)
    return report.finish()


def measure(options, report, repository, script, folder):
    first = report.step("bare PyTorch", lambda: run_bare(options, script))
    log = os.path.join(folder, "server.log")
    loads = [
        ("full batches, shared memory", ("resnet50", options.batch, 4, "grpc", True)),
        ("full batches, gRPC", ("resnet50", options.batch, 4, "grpc", False)),
        ("quarters, gathered, shared memory", ("resnet50", max(1, options.batch // 4), 16, "grpc", True)),
        ("single images, gathered", ("resnet50", 1, 4 * options.batch, "grpc", True)),
        ("two instances, shared memory", ("resnet50_two", options.batch, 6, "grpc", True)),
    ]
    try:
        with serving(options, repository, log, ["--backend-config=pytorch,interpreter=" + sys.executable]) as address:
            report.step("placement", lambda: placement(address["http"]))
            for name, load in loads:
                report.step(name, lambda load=load: perf(options, address, *load))
            report.step("right answers", lambda: right_answers(address["http"]))
            report.step("out of memory", lambda: out_of_memory(options, address["http"]))
    except Exception as error:
        report.result["failures"]["server"] = str(error)
        print("server FAILED %s" % error, flush=True)
    with contextlib.suppress(OSError), open(log) as file:
        report.result["server_log_end"] = file.read()[-2000:]
    second = report.step("bare PyTorch again", lambda: run_bare(options, script))
    runs = [run for run in (first, second) if run]
    if runs:
        alone = sum(run["on_device"] for run in runs) / len(runs)
        with_copies = sum(run["with_copies"] for run in runs) / len(runs)
        for name, _ in loads:
            step = report.result["steps"].get(name)
            if step:
                step["of_bare"] = round(step["images_per_second"] / alone, 3)
                step["of_bare_with_copies"] = round(step["images_per_second"] / with_copies, 3)
                print("%-34s %.2f of bare PyTorch (%.2f with its copies)" % (name, step["of_bare"], step["of_bare_with_copies"]))


sys.exit(main())
