"""python3 bench/gpu/python_gpu.py: Python models that use an NVIDIA GPU, through the server: DLPack to and from torch tensors on the GPU, calls to an
ONNX model with tensors of the GPU, FORCE_CPU_ONLY_INPUT_TENSORS, torch.compile, several instances, what tensors in CUDA shared memory
take in place and through the host, also with a model of the PyTorch backend. Needs what resnet50_onnx.py needs."""
import os
import shutil
import sys
import tempfile
import threading
import time

from gpu_bench import Report, gpu_memory_mib, require, serving
from resnet50_onnx import make_model, parse

dlpack = '''
import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack

class TritonPythonModel:
    def initialize(self, args):
        self.device = "cuda:%s" % args["model_instance_device_id"] if args["model_instance_kind"] == "GPU" else "cpu"
        self.model = torch.nn.Linear(64, 64, bias=False).to(self.device)
        torch.nn.init.eye_(self.model.weight)
        if args["model_name"].endswith("compiled"):
            self.model = torch.compile(self.model)

    def execute(self, requests):
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "X")
            with torch.inference_mode():
                x = from_dlpack(tensor.to_dlpack()).to(self.device)
                y = self.model(x) * 2
            where = pb_utils.Tensor.from_dlpack("Y", to_dlpack(y) if x.shape[0] % 2 else y)
            facts = torch.tensor([int(tensor.is_cpu()), int(y.is_cuda)], dtype=torch.int32)
            responses.append(pb_utils.InferenceResponse([where, pb_utils.Tensor("FACTS", facts.numpy())]))
        return responses
'''

caller = '''
import torch
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            image = torch.from_numpy(pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()).cuda().half()
            inner = pb_utils.InferenceRequest(model_name="resnet50", requested_output_names=["OUTPUT__0"],
                inputs=[pb_utils.Tensor.from_dlpack("INPUT__0", image)],
                preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0))
            answer = inner.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            scores = torch.from_dlpack(pb_utils.get_output_tensor_by_name(answer, "OUTPUT__0").to_dlpack())
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("SCORES", scores.float().cuda())]))
        return responses
'''

maker = '''
import torch
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        rows = [int(pb_utils.get_input_tensor_by_name(request, "ROWS").as_numpy()[0]) for request in requests]
        made = [torch.arange(64 * n, device="cuda:0", dtype=torch.float32).reshape(n, 64) for n in rows]
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", y)]) for y in made]
'''

network = '''
import torch

class Model(torch.nn.Module):
    def forward(self, X):
        return {"Y": 2 * X, "FACTS": torch.tensor([int(not X.is_cuda), int(X.is_cuda)], dtype=torch.int32)}
'''

tensors = 'backend: "python"\nmax_batch_size: 0\ninput { name: "X" data_type: TYPE_FP32 dims: [ -1, 64 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ -1, 64 ] }\noutput { name: "FACTS" data_type: TYPE_INT32 dims: [ 2 ] }\n'
made = 'backend: "python"\ninput { name: "ROWS" data_type: TYPE_INT32 dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ -1, 64 ] }\n'
forced = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "%s" } }\n'


def make_repository(options, folder):
    kind = "KIND_CPU" if options.cpu else "KIND_GPU"
    group = "instance_group { kind: %s count: %d }\n"
    models = {
        "dlpack": (dlpack, tensors + group % (kind, 1) + forced % "no"),
        "dlpack_forced": (dlpack, tensors + group % (kind, 1) + forced % "yes"),
        "dlpack_twice": (dlpack, tensors + group % (kind, 2) + forced % "no"),
        "network": (network, tensors.replace('"python"', '"pytorch"\nruntime: "model.py"') + group % (kind, 1)),
        "maker": (maker, made + group % (kind, 1)),
        "maker_elsewhere": (maker, made + group % ("KIND_CPU" if options.cpu else "KIND_MODEL", 1)),
        "dlpack_compiled": (dlpack, tensors + group % (kind, 1)),
        "caller": (caller, 'backend: "python"\ninput { name: "IMAGE" data_type: TYPE_FP32 dims: [ -1, 3, %d, %d ] }\noutput { name: "SCORES" data_type: TYPE_FP32 dims: [ -1, 1000 ] }\n' % (options.size, options.size) + group % (kind, 1)),
    }
    for name, (code, config) in models.items():
        os.makedirs(os.path.join(folder, name, "1"))
        for path, text in (("config.pbtxt", config), ("1/model.py", code)):
            with open(os.path.join(folder, name, path), "w") as file:
                file.write(text)
    os.makedirs(os.path.join(folder, "resnet50", "1"))
    with open(os.path.join(folder, "resnet50", "config.pbtxt"), "w") as file:
        file.write('platform: "onnxruntime_onnx"\nmax_batch_size: 8\ninstance_group { kind: %s }\n' % kind)
    return os.path.join(folder, "resnet50", "1", "model.onnx")


def ask(address, model, rows):
    import numpy as np
    import tritonclient.grpc as grpc

    x = np.random.default_rng(rows).random((rows, 64)).astype(np.float32)
    one = grpc.InferInput("X", list(x.shape), "FP32")
    one.set_data_from_numpy(x)
    answer = grpc.InferenceServerClient(address["grpc"]).infer(model, [one])
    facts = answer.as_numpy("FACTS").tolist()
    return {"max_error": float(np.abs(answer.as_numpy("Y") - 2 * x).max()), "input_is_cpu": facts[0], "computed_on_gpu": facts[1]}


def ask_on_gpu(address, model, rounds=1, rows=None):
    """The input lies in CUDA shared memory, and so does the place of the output. Each round has a region of its own."""
    import numpy as np
    import tritonclient.grpc as grpc
    import tritonclient.utils.cuda_shared_memory as cudashm

    client = grpc.InferenceServerClient(address["grpc"])
    worst, facts, times = 0.0, set(), []
    for number in range(rounds):
        x = np.random.default_rng(number).random((rows or 1 + number % 5, 64)).astype(np.float32)
        region = cudashm.create_shared_memory_region("x", 256 + 2 * x.nbytes, 0)
        cudashm.set_shared_memory_region(region, [np.zeros(64, np.float32), x])
        client.register_cuda_shared_memory("x", cudashm.get_raw_handle(region), 0, 256 + 2 * x.nbytes)
        one = grpc.InferInput("X", list(x.shape), "FP32")
        one.set_shared_memory("x", x.nbytes, offset=256)
        out = grpc.InferRequestedOutput("Y")
        out.set_shared_memory("x", x.nbytes, offset=256 + x.nbytes)
        begin = time.perf_counter()
        try:
            answer = client.infer(model, [one], outputs=[out, grpc.InferRequestedOutput("FACTS")])
        except Exception:
            client.unregister_cuda_shared_memory("x")
            raise
        times.append(time.perf_counter() - begin)
        got = cudashm.get_contents_as_numpy(region, np.float32, [64 + 2 * x.size])[64 + x.size :].reshape(x.shape)
        worst = max(worst, float(np.abs(got - 2 * x).max()))
        facts.add(tuple(answer.as_numpy("FACTS").tolist()))
        client.unregister_cuda_shared_memory("x")
        cudashm.destroy_shared_memory_region(region)
    return {"max_error": worst, "input_is_cpu, computed_on_gpu": sorted(facts), "p50_ms": sorted(times)[len(times) // 2] * 1000}


def make_on_gpu(address, model, rounds=30, rows=65536):
    """Only the output is large, and its place lies in CUDA shared memory."""
    import numpy as np
    import tritonclient.grpc as grpc
    import tritonclient.utils.cuda_shared_memory as cudashm

    client = grpc.InferenceServerClient(address["grpc"])
    size = 256 * rows
    region = cudashm.create_shared_memory_region("y", size, 0)
    client.register_cuda_shared_memory("y", cudashm.get_raw_handle(region), 0, size)
    count = grpc.InferInput("ROWS", [1], "INT32")
    count.set_data_from_numpy(np.array([rows], np.int32))
    out = grpc.InferRequestedOutput("Y")
    out.set_shared_memory("y", size)
    times = []
    for _ in range(rounds):
        cudashm.set_shared_memory_region(region, [np.zeros(64 * rows, np.float32)])
        begin = time.perf_counter()
        client.infer(model, [count], outputs=[out])
        times.append(time.perf_counter() - begin)
        got = cudashm.get_contents_as_numpy(region, np.float32, [64 * rows])
        if not np.array_equal(got, np.arange(64 * rows, dtype=np.float32)):
            raise RuntimeError("the region has other numbers than the model made")
    client.unregister_cuda_shared_memory("y")
    cudashm.destroy_shared_memory_region(region)
    return {"mib": size >> 20, "rounds": rounds, "p50_ms": sorted(times)[rounds // 2] * 1000, "best_ms": min(times) * 1000}


def memory_after(address, model, rounds):
    """What regions that came and went leave on the GPU, when the worker has closed the last."""
    first = gpu_memory_mib()
    told = ask_on_gpu(address, model, rounds)
    time.sleep(4)
    return {**told, "rounds": rounds, "gpu_mib": [first, gpu_memory_mib()]}


def many(address, model, threads=8, each=20):
    worst, failures = [], []

    def client():
        try:
            worst.extend(ask(address, model, 1 + i % 5)["max_error"] for i in range(each))
        except Exception as error:
            failures.append(str(error))

    workers = [threading.Thread(target=client) for _ in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise RuntimeError(failures[0])
    return {"requests": len(worst), "max_error": max(worst), "per_second": len(worst) / (time.perf_counter() - begin)}


def call_with_gpu_tensors(options, address, model):
    import numpy as np
    import torch
    import tritonclient.grpc as grpc

    image = np.random.default_rng(5).random((2, 3, options.size, options.size)).astype(np.float32)
    one = grpc.InferInput("IMAGE", list(image.shape), "FP32")
    one.set_data_from_numpy(image)
    got = grpc.InferenceServerClient(address["grpc"]).infer("caller", [one]).as_numpy("SCORES")
    with torch.inference_mode():
        expected = model(torch.from_numpy(image).cuda().half()).float().cpu().numpy()
    return {"max_error": float(np.abs(got - expected).max())}


def main():
    options = parse()
    require(options, ["numpy", "torch", "tritonclient"])
    report = Report(options)
    folder = tempfile.mkdtemp(prefix="galatea-python-gpu-")
    try:
        model = make_model(options, make_repository(options, folder))
        with serving(options, folder, options.log or os.path.join(folder, "server.log")) as address:
            for name in ("dlpack", "dlpack_forced", "dlpack_compiled", "network"):
                report.step(name, lambda name=name: [ask(address, name, rows) for rows in (1, 2, 3)])
            report.step("dlpack_twice", lambda: many(address, "dlpack_twice"))
            if not options.cpu:
                for name in ("dlpack", "dlpack_forced", "dlpack_twice", "network"):
                    report.step(name + " in CUDA shared memory", lambda name=name: ask_on_gpu(address, name, 20))
                for name in ("dlpack", "dlpack_forced", "network"):
                    report.step(name + " with 16 MiB in CUDA shared memory", lambda name=name: ask_on_gpu(address, name, 12, 65536))
                for name in ("maker", "maker_elsewhere") * 2:
                    report.step(name + ", output in CUDA shared memory", lambda name=name: make_on_gpu(address, name))
                report.step("regions that come and go", lambda: memory_after(address, "dlpack", 300))
                report.step("caller", lambda: call_with_gpu_tensors(options, address, model))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
