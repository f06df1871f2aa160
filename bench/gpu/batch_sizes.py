"""python3 bench/gpu/batch_sizes.py: what batches of changing sizes cost on a GPU, and what CUDA graphs and filled batches change. One
ResNet-50 is served three ways: as it is, with `optimization { cuda { graphs: true } }`, and filled up to one size. Then loads of 80 % of the peak over shared memory, gRPC and HTTP, from one and from four programs, because four that do not know of each other
send at the same moment now and then; and what is held for clients that send more than the server can take.

Takes the same options as resnet50_onnx.py, and needs no client library."""
import json
import os
import sys
import threading
import time
import urllib.request

import gpu_bench
import resnet50_onnx as resnet

ways = {
    "plain": "",
    "graphs": "optimization { cuda { graphs: true } }\n",
    "filled": 'parameters { key: "gpu_batch_sizes" value: { string_value: "32" } }\n',
}


def make_repository(options, model_file, folder):
    repository = os.path.join(folder, "models")
    name = "FP32" if options.cpu else "FP16"
    for way, more in ways.items():
        version = os.path.join(repository, way, "1")
        os.makedirs(version)
        gpu_bench.put(model_file, version)
        with open(os.path.join(repository, way, "config.pbtxt"), "w") as file:
            file.write('platform: "onnxruntime_onnx"\nmax_batch_size: %d\ndynamic_batching { max_queue_delay_microseconds: 500 }\n' % options.batch)
            file.write('input { name: "INPUT__0" data_type: TYPE_%s dims: [ 3, %d, %d ] }\n' % (name, options.size, options.size))
            file.write('output { name: "OUTPUT__0" data_type: TYPE_%s dims: [ 1000 ] }\n' % name)
            file.write("instance_group { kind: %s }\n%s" % ("KIND_CPU" if options.cpu else "KIND_GPU", more))
    return repository


def infer(options, address, model, images):
    """One request over HTTP, with binary tensors."""
    import numpy as np

    kind = "FP32" if options.cpu else "FP16"
    header = json.dumps({
        "inputs": [{"name": "INPUT__0", "shape": list(images.shape), "datatype": kind, "parameters": {"binary_data_size": images.nbytes}}],
        "outputs": [{"name": "OUTPUT__0", "parameters": {"binary_data": True}}],
    }).encode()
    request = urllib.request.Request("http://%s/v2/models/%s/infer" % (address["http"], model), header + images.tobytes())
    request.add_header("Inference-Header-Content-Length", str(len(header)))
    with urllib.request.urlopen(request, timeout=gpu_bench.within(60)) as response:
        length = int(response.headers["Inference-Header-Content-Length"])
        return np.frombuffer(response.read()[length:], images.dtype).reshape(len(images), 1000)


def images_of(options, rows, seed):
    import numpy as np

    return np.random.default_rng(seed).random((rows, 3, options.size, options.size)).astype(np.float32 if options.cpu else np.float16)


def warm(options, address, model, sizes):
    """Two at once, so that both instances see each size."""
    began, failures = time.monotonic(), []

    def ask(some):
        try:
            infer(options, address, model, some)
        except Exception as error:
            failures.append(repr(error))

    for rows in sizes:
        some = images_of(options, rows, rows)
        for _ in range(3):
            threads = [threading.Thread(target=ask, args=(some,)) for _ in range(2)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        if failures:
            raise RuntimeError("%d of 6 requests of %d images: %s" % (len(failures), rows, failures[0]))
    return {"seconds": time.monotonic() - began}


def answers(options, address, model):
    """Each size twice with other images: a graph that reads old memory would answer the first ones again."""
    import numpy as np

    worst = 0.0
    sizes = [rows for rows in (1, 2, 3, 5, 8, 13) if rows < options.batch] + [options.batch]
    for seed in (1, 2):
        for rows in sizes:
            images = images_of(options, rows, seed * 100 + rows)
            told = [infer(options, address, each, images).astype(np.float64) for each in ("plain", model)]
            worst = max(worst, float(np.abs(told[0] - told[1]).max()))
    return {"asked": 2 * len(sizes), "max_difference_from_plain": worst}


def metric(address, name):
    with urllib.request.urlopen("http://%s/metrics" % address["metrics"], timeout=gpu_bench.within(10)) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((name + "{", name + " ")))


def backlog(options, address, protocol, rate):
    """More than the server can take, from two programs, and what is held for them meanwhile; then a load of 80 % again, which must be as good as one that came first."""
    held, over = [], threading.Event()

    def watch():
        while not over.wait(0.1):
            try:
                held.append(metric(address, "galatea_client_memory_bytes"))
            except OSError:
                pass

    watcher = threading.Thread(target=watch)
    watcher.start()
    told = {"at 130%": None, "at 80% again": None}
    for name, share in zip(told, (1.3, 0.8)):
        try:
            told[name] = gpu_bench.perf(options, address, "graphs", options.batch, 1, protocol, False, processes=2, rate=share * rate)
        except Exception as error:
            told[name] = str(error)[-400:]
    over.set()
    watcher.join()
    names = ("galatea_client_memory_limit_bytes", "galatea_client_memory_refused_total")
    return {"held_most": max(held), "held_last": held[-1], **{name: metric(address, name) for name in names}, **told}


def measure(options, report, repository, log):
    batch = options.batch
    with gpu_bench.serving(options, repository, log) as address:
        perf = lambda name, *load, **more: report.step(name, lambda: gpu_bench.perf(options, address, *load, **more))
        report.step("memory", lambda: gpu_bench.memory_of_models(address))
        powers = [size for size in (1, 2, 4, 8, 16, 32) if size < batch] + [batch]
        for way, sizes in {"plain": (1, batch), "graphs": powers, "filled": (batch,)}.items():
            report.step("warm " + way, lambda: warm(options, address, way, sizes))
        for way in ("graphs", "filled"):
            report.step("answers " + way, lambda: answers(options, address, way))
        for way in ("plain", "graphs"):
            perf("one image " + way, way, 1, 1, "grpc", True)
        for way in ("graphs", "filled", "plain"):
            perf("single " + way, way, 1, 2 * batch, "grpc", True)
        for way in ("graphs", "plain"):
            perf("quarters " + way, way, max(1, batch // 4), 16, "grpc", True)
            perf("full " + way, way, batch, 4, "grpc", True)
        loads = (("shared memory", "grpc", True, 1, 8), ("grpc", "grpc", False, 4, 2), ("http", "http", False, 4, 2))
        for name, protocol, region, programs, at_once in loads:
            peak = perf("%s peak" % name, "graphs", batch, at_once, protocol, region, processes=programs)
            for processes in (1, 2, 4) if peak else ():
                rate = 0.8 * peak["images_per_second"] / batch
                perf("%s at 80%%, %d programs" % (name, processes), "graphs", batch, 1, protocol, region, processes=processes, rate=rate)
            if peak and not region:
                report.step("%s backlog" % name, lambda: backlog(options, address, protocol, peak["images_per_second"] / batch))


def main():
    options = resnet.parse()
    gpu_bench.require(options, ["numpy", "onnxruntime", *([] if options.model else ["torch"])])
    report = gpu_bench.Report(options)
    with report.folder() as folder:
        model_file = options.model or os.path.join(folder, "model.onnx")
        if not options.model:
            resnet.make_model(options, model_file)
        report.step("bare", lambda: resnet.run_bare(options, model_file))
        repository = make_repository(options, model_file, folder)
        measure(options, report, repository, options.log or os.path.join(folder, "server.log"))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
