"""python3 bench/gpu/native_gpu.py --backends FOLDER: backends of Triton that were built with GPU support (identity, onnxruntime), in the host of native
backends: outputs to the client and to CUDA shared memory, inputs from there, what a host takes of the GPU, a host for each model, for each device, and one for all.

The folder holds onnxruntime/libtriton_onnxruntime.so and identity/libtriton_identity.so with the libraries that both need. Needs what
resnet50_onnx.py needs, but no torch, onnx or tritonclient."""
import concurrent.futures
import ctypes
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import base64

from gpu_bench import Report, call, require, root, serving
from resnet50_onnx import parse_with

values = list(range(16))
ones = [1] * 16


def tensors(prefix):
    return "".join('%s { name: "%s%d" data_type: TYPE_INT32 dims: 16 }\n' % (kind, kind.upper(), i) for kind in ("input", "output") for i in prefix)


def has_common(options):
    """test/fixtures/native/wayward.c, built as libtriton_common.so."""
    return os.path.exists(os.path.join(options.backends, "common", "libtriton_common.so"))


def memory_manager(address):
    def say(text):
        status, answer = call(address["http"], "/v2/models/common/infer", {"inputs": [{"name": "X", "datatype": "BYTES", "shape": [1], "data": [text]}]})
        return answer["outputs"][0]["data"][0] if status == 200 else answer["error"]

    said = [say("gpu:1000"), say("gpu:1000"), say("gpu:70000000"), say("gpu:67108864"), say("gpu:1000")]
    assert [text == "through the GPU" for text in said] == [True, True, False, True, True], said
    return said


def make_repository(options, folder):
    group = "instance_group { kind: %s count: 1 }\n" % ("KIND_CPU" if options.cpu else "KIND_GPU")
    simple = 'backend: "onnxruntime"\nmax_batch_size: 8\n' + tensors((0, 1)) + group + "dynamic_batching { }\n"
    echo = 'backend: "identity"\nmax_batch_size: 8\n' + tensors((0,)) + group
    texts = 'backend: "common"\ninput { name: "X" data_type: TYPE_STRING dims: 1 }\noutput { name: "OUT" data_type: TYPE_STRING dims: -1 }\n'
    models = {"simple": simple, "simple_twin": simple, "simple_cpu": simple.replace("KIND_GPU", "KIND_CPU"), "echo": echo}
    if has_common(options):
        models["common"] = texts
    for name, config in models.items():
        os.makedirs(os.path.join(folder, name, "1"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w") as file:
            file.write(config)
        if "simple" in name:
            shutil.copy(os.path.join(options.models, "simple", "1", "model.onnx"), os.path.join(folder, name, "1"))


class Cuda:
    """Memory of the GPU that this process owns and the server opens."""

    def __init__(self):
        places = [path for place in sys.path for path in glob.glob(os.path.join(place, "nvidia", "*", "lib", "libcudart.so*"))]
        self.runtime = ctypes.CDLL((places + ["libcudart.so.13"])[0])

    def check(self, code):
        if code != 0:
            raise RuntimeError("the CUDA runtime says %d" % code)

    def allocate(self, bytes):
        pointer = ctypes.c_void_p()
        self.check(self.runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(bytes)))
        self.check(self.runtime.cudaMemset(pointer, 0xFF, ctypes.c_size_t(bytes)))
        handle = (ctypes.c_char * 64)()
        self.check(self.runtime.cudaIpcGetMemHandle(handle, pointer))
        return pointer, base64.b64encode(bytes_of(handle)).decode()

    def write(self, pointer, offset, numbers):
        data = (ctypes.c_int32 * len(numbers))(*numbers)
        self.check(self.runtime.cudaMemcpy(ctypes.c_void_p(pointer.value + offset), data, ctypes.c_size_t(4 * len(numbers)), 1))
        self.check(self.runtime.cudaDeviceSynchronize())

    def read(self, pointer, offset, count):
        data = (ctypes.c_int32 * count)()
        self.check(self.runtime.cudaDeviceSynchronize())
        self.check(self.runtime.cudaMemcpy(data, ctypes.c_void_p(pointer.value + offset), ctypes.c_size_t(4 * count), 2))
        return list(data)


def bytes_of(handle):
    return ctypes.string_at(ctypes.addressof(handle), 64)


def infer(address, model, inputs, outputs=None, expect=200):
    body = {"inputs": [{"name": name, "datatype": "INT32", "shape": [1, 16], **more} for name, more in inputs.items()]}
    if outputs is not None:
        body["outputs"] = [{"name": name, "parameters": more} for name, more in outputs.items()]
    status, answer = call(address["http"], "/v2/models/%s/infer" % model, body)
    assert status == expect, (status, answer)
    return {output["name"]: output.get("data") for output in answer["outputs"]}


def host_outputs(address):
    for model in ("simple", "simple_twin", "simple_cpu"):
        got = infer(address, model, {"INPUT0": {"data": values}, "INPUT1": {"data": ones}})
        assert got == {"OUTPUT0": [v + 1 for v in values], "OUTPUT1": [v - 1 for v in values]}, got
    got = infer(address, "echo", {"INPUT0": {"data": values}})
    assert got == {"OUTPUT0": values}, got
    return {model: call(address["http"], "/v2/models/%s/config" % model)[1]["instance_group"][0] for model in ("simple", "echo")}


def region(offset, size=64):
    return {"shared_memory_region": "region", "shared_memory_offset": offset, "shared_memory_byte_size": size}


def cuda_region(address, cuda):
    pointer, handle = cuda.allocate(4096)
    cuda.write(pointer, 0, values)
    status, answer = call(address["http"], "/v2/cudasharedmemory/region/region/register", {"raw_handle": {"b64": handle}, "device_id": 0, "byte_size": 4096})
    assert status == 200, answer
    inputs = {"INPUT0": {"parameters": region(0)}, "INPUT1": {"data": ones}}
    infer(address, "simple", inputs, {"OUTPUT0": region(1024), "OUTPUT1": region(2048)})
    got = cuda.read(pointer, 1024, 16), cuda.read(pointer, 2048, 16)
    assert got == ([v + 1 for v in values], [v - 1 for v in values]), got
    mixed = infer(address, "simple", inputs, {"OUTPUT0": region(3072), "OUTPUT1": {}})
    assert mixed["OUTPUT1"] == [v - 1 for v in values] and cuda.read(pointer, 3072, 16) == got[0], mixed
    infer(address, "echo", {"INPUT0": {"parameters": region(0)}}, {"OUTPUT0": region(512)})
    assert cuda.read(pointer, 512, 16) == values
    status, answer = call(address["http"], "/v2/cudasharedmemory/region/region/unregister", {})
    assert status == 200, answer
    return "inputs from the GPU, outputs to the GPU, and one of each"


def many(address, count):
    def one(i):
        got = infer(address, "simple", {"INPUT0": {"data": [i + v for v in values]}, "INPUT1": {"data": ones}})
        return got["OUTPUT0"] == [i + v + 1 for v in values]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        right = sum(pool.map(one, range(count)))
    assert right == count, right
    rows = call(address["http"], "/v2/models/simple/stats")[1]["model_stats"][0]
    return {"right": right, "inferences": rows["inference_count"], "executions": rows["execution_count"]}


def hosts_of(pid):
    rows = subprocess.run(["ps", "-eo", "pid,ppid,rss,comm"], capture_output=True, text=True).stdout.splitlines()[1:]
    found = [row.split(None, 3) for row in rows]
    return {int(row[0]): int(row[2]) // 1024 for row in found if int(row[1]) == pid and row[3].startswith("galatea-native")}


def gpu_memory(address):
    """MiB of the GPU by process; drivers in containers often do not tell, so the whole of the GPU stands beside it."""
    def ask(query):
        return subprocess.run(["nvidia-smi", "--query-" + query, "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout.strip()

    try:
        return {"hosts, MiB resident": hosts_of(address["pid"]), "by process": ask("compute-apps=pid,used_memory"), "whole GPU": ask("gpu=memory.used")}
    except FileNotFoundError:
        return {"hosts, MiB resident": hosts_of(address["pid"])}


def host_count(address, options, expected):
    """Of the three models of onnxruntime, beside those of the other backends."""
    others = 2 if has_common(options) else 1
    count = len(hosts_of(address["pid"])) - others
    assert count == expected, count
    return count


def crash(address):
    """A host that is ended costs one model an error; it comes back with a new context, and the other model does not notice."""
    [first, *_] = sorted(hosts_of(address["pid"]))
    os.kill(first, 9)
    for _ in range(100):
        states = [call(address["http"], "/v2/models/%s/infer" % model, {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": values}] + ([] if model == "echo" else [{"name": "INPUT1", "datatype": "INT32", "shape": [1, 16], "data": ones}])})[0] for model in ("simple", "simple_twin", "echo")]
        if states == [200, 200, 200] and first not in hosts_of(address["pid"]):
            return "all three models answer again"
    raise AssertionError(states)


def run(options, report, repository, name, hosts):
    log = (options.log or os.path.join(repository, "..", "server.log")) + "." + name
    more = ["--backend-directory=" + options.backends, "--backend-config=onnxruntime,host=" + name]
    with serving(options, repository, log, more) as address:
        report.step("%s: outputs to the client" % name, lambda: host_outputs(address))
        report.step("%s: hosts" % name, lambda: host_count(address, options, hosts))
        if not options.cpu:
            cuda = Cuda()
            if has_common(options):
                report.step("%s: memory manager" % name, lambda: memory_manager(address))
            report.step("%s: before" % name, lambda: gpu_memory(address))
            report.step("%s: CUDA shared memory" % name, lambda: cuda_region(address, cuda))
        report.step("%s: many" % name, lambda: many(address, options.count))
        report.step("%s: memory" % name, lambda: gpu_memory(address))
        report.step("%s: many again" % name, lambda: many(address, options.count))
        report.step("%s: memory again" % name, lambda: gpu_memory(address))
        if name == "model":
            report.step("%s: a host is ended" % name, lambda: crash(address))
            report.step("%s: outputs to the client after that" % name, lambda: host_outputs(address))


def main():
    options = parse_with(lambda parser: (
        parser.add_argument("--backends", required=True),
        parser.add_argument("--models", default=os.path.join(root, "examples", "models")),
        parser.add_argument("--count", type=int, default=2000),
    ))
    require(options, files=["backends", "models"])
    report = Report(options)
    with tempfile.TemporaryDirectory() as folder:
        repository = os.path.join(folder, "models")
        make_repository(options, repository)
        run(options, report, repository, "model", 3)
        run(options, report, repository, "device", 1 if options.cpu else 2)
        run(options, report, repository, "shared", 1)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()
