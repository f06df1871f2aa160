"""What the benches of this folder share: a server with its addresses, loads with the figures of nvidia-smi, and the report of a run."""
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
launcher = os.path.join(root, "bin", "galatea.js")
deadline = time.monotonic() + float(os.environ.get("SECONDS_OF_RUN", "560"))


def within(seconds):
    left = deadline - time.monotonic()
    if left < 5:
        raise TimeoutError("the time of the whole run is used up")
    return min(seconds, left)


def require(options, packages=(), files=()):
    """Ends a run that cannot end well, before its first step, with what to do."""
    if not options.cpu and not has_gpu():
        sys.exit("this bench needs an NVIDIA GPU, and nvidia-smi shows none here; --cpu tries the script out without one")
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        names = ["onnxruntime-gpu[cuda,cudnn]" if name == "onnxruntime" and not options.cpu else name for name in missing]
        sys.exit("this bench needs %s: run '%s -m pip install %s'" % (", ".join(missing), sys.executable, " ".join(names)))
    for flag in files:
        if not os.path.exists(getattr(options, flag)):
            sys.exit("--%s must name what is there, got '%s'" % (flag, getattr(options, flag)))


def has_gpu():
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and "GPU 0" in listed.stdout


# The server


@contextlib.contextmanager
def serving(options, repository, log_path, more=()):
    command = [options.node, launcher, "serve", "--model-repository=" + repository, "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    command += ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1"]
    command += ["--exit-on-error=false", "--exit-timeout-secs=5", "--allow-client-shared-memory=true", "--log-verbose=1"]
    command += ["--python=" + sys.executable, "--pinned-memory-pool-byte-size=%d" % (1 << 30), *options.serve, *more]
    with open(log_path, "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=root, start_new_session=True)
    try:
        address = wait_until_started(server, log_path, within(120))
        address["pid"] = server.pid
        yield address
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def wait_until_started(server, log_path, limit):
    until = time.monotonic() + limit
    patterns = {
        "http": r"Started HTTPService at (?:http://)?([^\s\"]+:\d+)",
        "grpc": r"Started GRPCInferenceService at ([^\s\"]+:\d+)",
        "metrics": r"Started Metrics Service at (?:http://)?([^\s\"]+:\d+)",
    }
    while time.monotonic() < until and server.poll() is None:
        with open(log_path) as log:
            text = log.read()
        found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
        if all(found.values()):
            return {name: match.group(1) for name, match in found.items()}
        time.sleep(0.1)
    with open(log_path) as log:
        raise RuntimeError("the server did not start:\n" + log.read()[-3000:])


def call(address, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen("http://%s%s" % (address, path), data, timeout=within(60)) as response:
            return response.status, json.loads(response.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def executions(address, model):
    stats = call(address, "/v2/models/%s/stats" % model)[1]["model_stats"][0]
    parts = ("compute_input", "compute_infer", "compute_output")
    times = {part: sum(batch[part]["ns"] for batch in stats["batch_stats"]) / 1e6 for part in parts}
    return stats["inference_count"], stats["execution_count"], times


class Utilisation:
    """What nvidia-smi says while something runs."""

    def __enter__(self):
        query = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used,power.draw", "--format=csv,noheader,nounits", "--loop-ms=200"]
        try:
            self.process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        except OSError:
            self.process = None
        return self

    def __exit__(self, *_):
        self.figures = {}
        if self.process is None:
            return
        self.process.terminate()
        lines = [line.split(",") for line in self.process.stdout.read().splitlines() if line.count(",") == 2]
        busy = sorted(float(line[0]) for line in lines[2:-1])
        if busy:
            middle = busy[len(busy) // 2]
            self.figures = {"gpu_percent_median": middle, "gpu_percent_max": busy[-1], "samples": len(busy)}


def perf(options, address, model, rows, concurrency, protocol, shared_memory, processes=1, rate=None, distribution="constant", tool=""):
    """`tool` is NVIDIA's perf_analyzer, which takes the same flags; "" is `galatea perf`."""
    before = executions(address["http"], model)
    command = [tool] if tool else [options.node, launcher, "perf"]
    command += ["-m", model, "-i", protocol, "-u", address[protocol], "-b", str(rows)]
    load = ["--concurrency-range", str(concurrency)]
    if rate is not None:
        load = ["--request-rate-range", str(max(1, int(rate / processes))), "--request-distribution", distribution]
    # At a rate the first windows do not count: the generator of the load is compiled in them.
    windows = ["-r", "3", "-s", "25"] if rate is None else ["-r", "8", "-s", "15", "--warmup-request-count", "50"]
    command += load + ["-p", str(int(options.seconds * 1000)), *windows]
    if shared_memory:
        command += ["--shared-memory", "system", "--output-shared-memory-size", str(rows * 4000)]
    with Utilisation() as usage:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=root) for _ in range(processes)]
        try:
            texts = [process.communicate(timeout=within(60))[0] for process in started]
        finally:
            for process in started:
                process.kill()
    rates = [re.search(r"Throughput: ([\d.]+) infer/sec", text) for text in texts]
    if None in rates:
        raise RuntimeError("galatea perf: " + texts[0][-1500:])
    find = lambda name: max(int(re.search(name + r" latency: (\d+) usec", text).group(1)) / 1000 for text in texts)
    after = executions(address["http"], model)
    count = max(1, after[1] - before[1])
    return {
        "rows": rows, "concurrency": concurrency * processes, "protocol": protocol, "shared_memory": shared_memory,
        "images_per_second": sum(float(rate.group(1)) for rate in rates),
        "p50_ms": find("p50"), "p99_ms": find("p99"),
        "images_per_execution": (after[0] - before[0]) / count,
        "ms_per_execution": {part: round((after[2][part] - before[2][part]) / count, 2) for part in after[2]},
        **usage.figures,
    }


def gpu_memory_mib():
    """None where there is no GPU."""
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    except OSError:
        return None
    return float(text.split()[0])


def put(file, folder):
    """The model file into a version folder; the folder may be on another disk."""
    target = os.path.join(folder, "model.onnx")
    try:
        os.link(file, target)
    except OSError:
        shutil.copy(file, target)


def memory_of_models(address):
    """What the load of each model took of the GPU, beside what nvidia-smi says of the whole."""
    models = call(address["http"], "/v2/models/stats")[1]["model_stats"]
    return {each["name"]: each["memory_usage"] for each in models}


class Report:
    def __init__(self, options):
        self.options = options
        self.result = {"steps": {}, "failures": {}}

    def step(self, name, action):
        if self.options.only and not any(word in name for word in self.options.only.split("|")):
            return None
        started = time.monotonic()
        try:
            value = action()
            self.result["steps"][name] = value
            print("%-28s %s  (%.0f s)" % (name, json.dumps(value, default=str)[:900], time.monotonic() - started), flush=True)
            return value
        except Exception as error:
            self.result["failures"][name] = "%s: %s" % (type(error).__name__, error)
            print("%-28s FAILED %s" % (name, self.result["failures"][name][:1500]), flush=True)
            return None

    @contextlib.contextmanager
    def folder(self):
        """For the length of the run. What ends the run before its last step is one of its failures."""
        folder = tempfile.mkdtemp(prefix="galatea-gpu-")
        try:
            yield folder
        except Exception as error:
            self.result["failures"]["server"] = str(error)
            print("server FAILED %s" % error, flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def finish(self):
        """Writes the file that was asked for; the exit status of the program."""
        if self.options.json:
            with open(self.options.json, "w") as file:
                json.dump(self.result, file, indent=2, default=str)
        return 1 if self.result["failures"] else 0
