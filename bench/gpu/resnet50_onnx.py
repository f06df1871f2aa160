"""python3 bench/gpu/resnet50_onnx.py: ResNet-50 in half precision as ONNX on an NVIDIA GPU, through the server and through ONNX Runtime alone, in
one run. What it shows, each with its figures: images per second over shared memory, CUDA shared memory, gRPC and HTTP; the time
of a single image; answers beside PyTorch's; a model that runs out of memory beside another; 10,000 registrations of CUDA regions.

Needs a Python with torch, onnx, onnxruntime-gpu, tritonclient and cuda-python, and a Node: --node FILE, else `node` on the PATH. The
weights are random. Ends with JSON, also in --json FILE. What fails is written down and the rest goes on."""
import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

from gpu_bench import Report, Utilisation, call, executions, gpu_memory_mib, memory_of_models, perf, require, root, serving, within


def parse():
    return parse_with(lambda parser: None)


def parse_with(add):
    """The flags that all of these programs have, and those that `add` adds."""
    parser = argparse.ArgumentParser()
    add(parser)
    parser.add_argument("--node", default="node")
    parser.add_argument("--json", default="")
    parser.add_argument("--seconds", type=float, default=3, help="of one measurement")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--model", default="", help="a file made earlier with --make")
    parser.add_argument("--make", default="", help="only make the model, here")
    parser.add_argument("--only", default="", help="only steps whose names have one of these words (a|b) in them")
    parser.add_argument("--perf-analyzer", default="", help="NVIDIA's perf_analyzer, for loads beside those of galatea perf")
    parser.add_argument("--log", default="", help="where the log of the server goes")
    parser.add_argument("--cpu", action="store_true", help="try the script out where there is no GPU")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="append", default=[], help="a flag more for the server")
    parser.add_argument("--option", action="append", default=[], help="key=value of the accelerator cuda")
    return parser.parse_args()


# The model


def make_model(options, path):
    import torch

    sys.path.insert(0, os.path.join(root, "examples", "resnet50"))
    from resnet50 import make

    torch.manual_seed(7)
    model = make(options.width).eval()
    kind = torch.float32 if options.cpu else torch.float16
    model = model.to(kind)
    image = torch.rand(1, 3, options.size, options.size).to(kind)
    names = {"input_names": ["INPUT__0"], "output_names": ["OUTPUT__0"]}
    axes = {"INPUT__0": {0: "batch"}, "OUTPUT__0": {0: "batch"}}
    if not options.cpu:
        model, image = model.cuda(), image.cuda()
    torch.onnx.export(model, image, path, dynamic_axes=axes, opset_version=17, dynamo=False, **names)
    return model


def make_repository(options, model_file, folder):
    repository = os.path.join(folder, "models")
    name = "FP32" if options.cpu else "FP16"
    tensors = 'input { name: "INPUT__0" data_type: TYPE_%s dims: [ 3, %d, %d ] }\n' % (name, options.size, options.size)
    tensors += 'output { name: "OUTPUT__0" data_type: TYPE_%s dims: [ 1000 ] }\n' % name
    batching = "max_batch_size: %d\ndynamic_batching { max_queue_delay_microseconds: 500 }\n" % options.batch
    group = "instance_group { kind: %s }\n" % ("KIND_CPU" if options.cpu else "KIND_GPU")
    parameters = "".join('parameters { key: "%s" value: "%s" }' % tuple(each.split("=", 1)) for each in options.option)
    cuda = 'optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" %s } } }\n' % parameters
    small = 'optimization { execution_accelerators { gpu_execution_accelerator { name: "cuda" parameters { key: "gpu_mem_limit" value: "150000000" } } } }\n'
    auto = "" if options.cpu else 'instance_group { count: 1 }\n'
    models = {
        "resnet50": 'platform: "onnxruntime_onnx"\n' + batching + tensors + group + (cuda if options.option else ""),
        "resnet50_auto": auto,
        "starved": 'platform: "onnxruntime_onnx"\nmax_batch_size: 256\n' + tensors + group + small,
    }
    for model, config in models.items():
        version = os.path.join(repository, model, "1")
        os.makedirs(version)
        shutil.copy(model_file, os.path.join(version, "model.onnx"))
        with open(os.path.join(repository, model, "config.pbtxt"), "w") as file:
            file.write(config)
    return repository


# ONNX Runtime alone: in a process of its own, whose memory is gone with it.


def bare(options):
    import numpy as np
    import onnxruntime as ort

    with contextlib.suppress(Exception):
        ort.preload_dlls()
    # What the server sets by itself.
    cuda = {"prefer_nhwc": "1", "cudnn_conv_algo_search": "HEURISTIC"}
    cuda.update(each.split("=", 1) for each in options.option)
    providers = ["CPUExecutionProvider"] if options.cpu else [("CUDAExecutionProvider", cuda)]
    session = ort.InferenceSession(options.model, providers=providers)
    kind = np.float32 if options.cpu else np.float16
    result = {"onnxruntime": ort.__version__, "providers": session.get_providers()}
    device = "cpu" if options.cpu else "cuda"
    for rows in (1, 8, options.batch):
        image = np.random.default_rng(1).random((rows, 3, options.size, options.size)).astype(kind)
        on_device = ort.OrtValue.ortvalue_from_numpy(image, device, 0)
        binding = session.io_binding()
        binding.bind_ortvalue_input("INPUT__0", on_device)
        binding.bind_output("OUTPUT__0", device, 0)

        def rate(step):
            for _ in range(20):
                step()
            started, count = time.perf_counter(), 0
            while time.perf_counter() - started < min(2, options.seconds):
                step()
                count += 1
            return count * rows / (time.perf_counter() - started)

        result["batch %d" % rows] = {
            "on_device": rate(lambda: session.run_with_iobinding(binding)),
            "with_copies": rate(lambda: session.run(None, {"INPUT__0": image})),
        }
    print(json.dumps(result))


def run_bare(options, model_file):
    command = [sys.executable, os.path.abspath(__file__), "--bare", "--model", model_file, "--seconds", str(options.seconds)]
    command += ["--size", str(options.size), "--batch", str(options.batch)] + (["--cpu"] if options.cpu else [])
    command += ["--option=" + each for each in options.option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=within(120))
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-1500:])
    return json.loads(done.stdout.splitlines()[-1])


# CUDA shared memory, with Triton's own client


def cuda_clients(options, address, model, rows, threads, protocol, rate=None):
    import numpy as np
    import tritonclient.utils.cuda_shared_memory as cudashm

    module = __import__("tritonclient." + protocol, fromlist=["x"])
    image = np.random.default_rng(2).random((rows, 3, options.size, options.size)).astype(np.float16)
    times, failures = [], []
    started = threading.Barrier(threads + 1)
    ends = [0.0]

    def client(number):
        try:
            triton = module.InferenceServerClient(address[protocol])
            names = ["in%d" % number, "out%d" % number]
            source = cudashm.create_shared_memory_region(names[0], image.nbytes, 0)
            target = cudashm.create_shared_memory_region(names[1], rows * 2000, 0)
            cudashm.set_shared_memory_region(source, [image])
            triton.register_cuda_shared_memory(names[0], cudashm.get_raw_handle(source), 0, image.nbytes)
            triton.register_cuda_shared_memory(names[1], cudashm.get_raw_handle(target), 0, rows * 2000)
            one = module.InferInput("INPUT__0", list(image.shape), "FP16")
            one.set_shared_memory(names[0], image.nbytes)
            out = module.InferRequestedOutput("OUTPUT__0")
            out.set_shared_memory(names[1], rows * 2000)
            for _ in range(5):
                triton.infer(model, [one], outputs=[out])
            started.wait()
            mine = []
            due = time.perf_counter() + (number / rate if rate else 0)
            while time.perf_counter() < ends[0]:
                if rate:
                    time.sleep(max(0, due - time.perf_counter()))
                # From when the request was due: a server that is behind is not given time for it.
                begin = due if rate else time.perf_counter()
                due += threads / rate if rate else 0
                triton.infer(model, [one], outputs=[out])
                mine.append(time.perf_counter() - begin)
            times.extend(mine)
            answer = cudashm.get_contents_as_numpy(target, np.float16, [rows, 1000])
            if not np.isfinite(answer).all() or not answer.any():
                failures.append("the answer is empty")
            for name in names:
                triton.unregister_cuda_shared_memory(name)
            for region in (source, target):
                cudashm.destroy_shared_memory_region(region)
        except Exception as error:
            failures.append(repr(error))
            started.abort()

    before = executions(address["http"], model)
    workers = [threading.Thread(target=client, args=(number,)) for number in range(threads)]
    with Utilisation() as usage:
        for worker in workers:
            worker.start()
        ends[0] = time.perf_counter() + 60
        with contextlib.suppress(threading.BrokenBarrierError):
            started.wait(30)
        begin = time.perf_counter()
        ends[0] = begin + options.seconds
        for worker in workers:
            worker.join(within(60))
        seconds = time.perf_counter() - begin
    if failures:
        raise RuntimeError("; ".join(failures[:3]))
    after = executions(address["http"], model)
    count = max(1, after[1] - before[1])
    times.sort()
    return {
        "rows": rows, "threads": threads, "protocol": protocol, "images_per_second": len(times) * rows / seconds,
        "p50_ms": times[len(times) // 2] * 1000, "p99_ms": times[int(len(times) * 0.99)] * 1000,
        "images_per_execution": (after[0] - before[0]) / count, **usage.figures,
    }


def cuda_regions(options, address, count):
    """Registers and unregisters; hostile handles in between. The server's memory before and after."""
    import tritonclient.grpc as grpc
    import tritonclient.http as http
    import tritonclient.utils.cuda_shared_memory as cudashm

    clients = [grpc.InferenceServerClient(address["grpc"]), http.InferenceServerClient(address["http"])]
    region = cudashm.create_shared_memory_region("r", 1 << 20, 0)
    handle = cudashm.get_raw_handle(region)
    refusals = []
    for bad in ((b"QUJD" * 16, 0, 8), (b"A" * 85 + b"A==", 0, 8), (handle, 7, 8), (handle, 0, 1 << 40), (handle, 0, 0)):
        for client in clients:
            try:
                client.register_cuda_shared_memory("bad", *bad)
                refusals.append("accepted " + repr(bad)[:60])
            except Exception as error:
                refusals.append(str(error)[:160])

    def memory():
        with open("/proc/%d/status" % address["pid"]) as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024

    def rounds(number):
        for i in range(number):
            client = clients[i % 2]
            client.register_cuda_shared_memory("r", handle, 0, 1 << 20)
            client.unregister_cuda_shared_memory("r")

    rounds(500)
    first = (memory(), gpu_memory_mib())
    started = time.perf_counter()
    rounds(count)
    seconds = time.perf_counter() - started
    last = (memory(), gpu_memory_mib())
    status = clients[0].get_cuda_shared_memory_status(as_json=True)
    return {"count": count, "per_second": count / seconds, "rss_mib": [first[0], last[0]], "gpu_mib": [first[1], last[1]], "left": status, "refusals": refusals}


def client_dies(options, address):
    """A client that ends without a word leaves its region for some seconds."""
    code = """
import sys, os, tritonclient.grpc as grpc, tritonclient.utils.cuda_shared_memory as cudashm
client = grpc.InferenceServerClient(sys.argv[1])
region = cudashm.create_shared_memory_region('dead', 1 << 20, 0)
client.register_cuda_shared_memory('dead', cudashm.get_raw_handle(region), 0, 1 << 20)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, address["grpc"]], timeout=within(60))
    listed = lambda: call(address["http"], "/v2/cudasharedmemory/status")[1]
    before, begin = listed(), time.monotonic()
    while listed() and time.monotonic() - begin < 15:
        time.sleep(0.2)
    return {"left": before, "seconds": time.monotonic() - begin, "after": listed()}


# Answers


def right_answers(options, address, model, count=240):
    import numpy as np
    import torch
    import tritonclient.grpc as grpc
    from concurrent.futures import ThreadPoolExecutor

    client = grpc.InferenceServerClient(address["grpc"])
    images = np.random.default_rng(3).random((count, 3, options.size, options.size)).astype(np.float32 if options.cpu else np.float16)

    def ask(i):
        one = grpc.InferInput("INPUT__0", [1, *images.shape[1:]], "FP32" if options.cpu else "FP16")
        one.set_data_from_numpy(images[i : i + 1])
        return client.infer(model_name(model), [one]).as_numpy("OUTPUT__0")[0]

    model_name = lambda _: "resnet50"
    with ThreadPoolExecutor(32) as pool:
        answers = np.stack(list(pool.map(ask, range(count))))
    with torch.inference_mode():
        device = "cpu" if options.cpu else "cuda"
        expected = np.concatenate([model(torch.from_numpy(images[i : i + 24]).to(device)).float().cpu().numpy() for i in range(0, count, 24)])
    error = np.abs(answers.astype(np.float32) - expected)
    same = float((answers.argmax(1) == expected.argmax(1)).mean())
    return {"asked": count, "max_error": float(error.max()), "largest_value": float(np.abs(expected).max()), "same_class": same}


def cuda_answers(options, address, model):
    """The same image through CUDA shared memory, for the model on the GPU, with a region that holds two tensors."""
    import numpy as np
    import torch
    import tritonclient.http as http
    import tritonclient.utils.cuda_shared_memory as cudashm

    client = http.InferenceServerClient(address["http"])
    images = np.random.default_rng(4).random((3, 3, options.size, options.size)).astype(np.float16)
    region = cudashm.create_shared_memory_region("mixed", images.nbytes + 3 * 2000, 0)
    cudashm.set_shared_memory_region(region, [images])
    client.register_cuda_shared_memory("mixed", cudashm.get_raw_handle(region), 0, images.nbytes + 3 * 2000)
    one = http.InferInput("INPUT__0", list(images.shape), "FP16")
    one.set_shared_memory("mixed", images.nbytes)
    out = http.InferRequestedOutput("OUTPUT__0", binary_data=True)
    out.set_shared_memory("mixed", 3 * 2000, offset=images.nbytes)
    client.infer("resnet50", [one], outputs=[out])
    whole = cudashm.get_contents_as_numpy(region, np.float16, [(images.nbytes + 6000) // 2])
    plain = client.infer("resnet50", [one]).as_numpy("OUTPUT__0")
    client.unregister_cuda_shared_memory("mixed")
    with torch.inference_mode():
        expected = model(torch.from_numpy(images).cuda()).float().cpu().numpy()
    got = whole[images.size :].reshape(3, 1000)
    return {"max_error_in_region": float(np.abs(got - expected).max()), "max_error_in_answer": float(np.abs(plain - expected).max())}


def starved(options, address):
    """A model that runs out of memory fails alone: the other model's p99 before and meanwhile."""
    import numpy as np
    import tritonclient.grpc as grpc

    client = grpc.InferenceServerClient(address["grpc"])
    # In CUDA shared memory: the host has nothing to do with the large requests.
    import tritonclient.utils.cuda_shared_memory as cudashm

    image = np.zeros((200, 3, options.size, options.size), np.float16)
    region = cudashm.create_shared_memory_region("large", image.nbytes, 0)
    cudashm.set_shared_memory_region(region, [image])
    client.register_cuda_shared_memory("large", cudashm.get_raw_handle(region), 0, image.nbytes)
    one = grpc.InferInput("INPUT__0", list(image.shape), "FP16")
    one.set_shared_memory("large", image.nbytes)
    told = []
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            try:
                client.infer("starved", [one])
                told.append("answered")
            except Exception as error:
                told.append(str(error)[:400])
            time.sleep(0.02)

    # Whole batches: a batch of another size would make cuDNN plan its kernels, which takes longer than anything that is measured here.
    load = ("resnet50", options.batch, 2, "grpc", True)
    alone = perf(options, address, *load)
    thread = threading.Thread(target=ask)
    thread.start()
    beside = perf(options, address, *load)
    stop.set()
    thread.join(60)
    small = grpc.InferInput("INPUT__0", [1, 3, options.size, options.size], "FP16")
    small.set_data_from_numpy(image[:1])
    client.infer("starved", [small])
    client.unregister_cuda_shared_memory("large")
    return {"p99_alone_ms": alone["p99_ms"], "p99_beside_ms": beside["p99_ms"], "ratio": beside["p99_ms"] / alone["p99_ms"], "told": sorted(set(told))[:3], "times": len(told), "then": "answers"}


# The run


def placement(address):
    group = call(address["http"], "/v2/models/resnet50/config")[1]["instance_group"][0]
    auto = call(address["http"], "/v2/models/resnet50_auto/config")[1]["instance_group"][0]
    extensions = call(address["http"], "/v2")[1]["extensions"]
    pick = lambda each: {key: each[key] for key in ("kind", "count", "gpus")}
    return {"resnet50": pick(group), "auto": pick(auto), "advertised": "cuda_shared_memory" in extensions}


def warm(options, address, batch):
    """Each size of a batch once: cuDNN chooses its kernels then. `model_warmup` does the same before a server is ready."""
    import numpy as np
    import tritonclient.grpc as grpc

    client = grpc.InferenceServerClient(address["grpc"])
    image = np.zeros((batch, 3, options.size, options.size), np.float32 if options.cpu else np.float16)
    times = []
    # With fused convolutions a size takes 7 s.
    sizes = (1, batch) if options.option else range(1, batch + 1)
    for rows in sizes:
        one = grpc.InferInput("INPUT__0", [rows, *image.shape[1:]], "FP32" if options.cpu else "FP16")
        one.set_data_from_numpy(image[:rows])
        for model in ("resnet50", "resnet50_auto") if rows == 1 else ("resnet50",):
            begin = time.perf_counter()
            client.infer(model, [one])
            times.append(time.perf_counter() - begin)
    return {"sizes": len(sizes), "seconds": sum(times), "longest_ms": max(times) * 1000}


def metrics(address):
    time.sleep(3)
    with urllib.request.urlopen("http://%s/metrics" % address["metrics"], timeout=10) as response:
        text = response.read().decode()
    ours = {line.split("{")[0]: float(line.split()[-1]) for line in text.splitlines() if line.startswith(("nv_gpu_", "nv_energy"))}
    query = "utilization.gpu,memory.used,memory.total,power.draw,power.limit"
    smi = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout.strip()
    return {"ours": ours, "nvidia_smi": dict(zip(query.split(","), smi.split(", ")))}


def main():
    options = parse()
    if options.bare:
        bare(options)
        return 0
    if options.make:
        make_model(options, options.make)
        return 0
    require(options, ["numpy", "onnxruntime", "torch", "tritonclient"])
    report = Report(options)
    with report.folder() as folder:
        model_file = options.model or os.path.join(folder, "model.onnx")
        started = time.monotonic()
        model = make_model(options, model_file)
        print("model made (%.0f s)" % (time.monotonic() - started), flush=True)
        report.step("bare", lambda: run_bare(options, model_file))
        repository = make_repository(options, model_file, folder)
        measure(options, report, model, repository, options.log or os.path.join(folder, "server.log"))
    return report.finish()


def measure(options, report, model, repository, log):
    batch = options.batch
    with serving(options, repository, log) as address:
        report.step("placement", lambda: placement(address))
        report.step("memory of models", lambda: memory_of_models(address))
        report.step("warm", lambda: warm(options, address, batch))
        report.step("answers", lambda: right_answers(options, address, model))
        step = lambda name, *load, **more: report.step(name, lambda: perf(options, address, "resnet50", *load, **more))
        report.step("one image", lambda: perf(options, address, "resnet50_auto", 1, 1, "grpc", True))
        shm = step("shm full", batch, 4, "grpc", True)
        step("shm full more", batch, 8, "grpc", True)
        step("shm quarters", max(1, batch // 4), 16, "grpc", True)
        step("shm single", 1, 2 * batch, "grpc", True, processes=2)
        grpc = step("grpc full", batch, 2, "grpc", False, processes=4)
        http = step("http full", batch, 2, "http", False, processes=4)
        for name, peak, protocol, region in (("shm", shm, "grpc", True), ("grpc", grpc, "grpc", False), ("http", http, "http", False)):
            if not peak:
                continue
            rate = 0.8 * peak["images_per_second"] / batch
            step(name + " at 80%", batch, 1, protocol, region, rate=rate)
            step(name + " at 80% poisson", batch, 1, protocol, region, rate=rate, distribution="poisson")
            if options.perf_analyzer:
                step(name + " at 80% perf_analyzer", batch, 1, protocol, region, rate=rate, tool=options.perf_analyzer)
            if not region:
                # Programs that do not know of each other may send at the same moment.
                step(name + " at 80% from 4 programs", batch, 1, protocol, region, processes=4, rate=rate)
        if not options.cpu:
            report.step("cuda answers", lambda: cuda_answers(options, address, model))
            cuda = report.step("cuda shm full", lambda: cuda_clients(options, address, "resnet50", batch, 4, "grpc"))
            if cuda:
                rate = 0.8 * cuda["images_per_second"] / batch
                report.step("cuda shm at 80%", lambda: cuda_clients(options, address, "resnet50", batch, 4, "grpc", rate))
            report.step("cuda shm more", lambda: cuda_clients(options, address, "resnet50", batch, 8, "grpc"))
            report.step("cuda shm http", lambda: cuda_clients(options, address, "resnet50", batch, 4, "http"))
            report.step("cuda shm quarters", lambda: cuda_clients(options, address, "resnet50", max(1, batch // 4), 16, "grpc"))
            report.step("metrics", lambda: metrics(address))
            report.step("starved", lambda: starved(options, address))
            report.step("dead client", lambda: client_dies(options, address))
            report.step("regions", lambda: cuda_regions(options, address, 10_000))


if __name__ == "__main__":
    sys.exit(main())
