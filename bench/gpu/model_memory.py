"""python3 bench/gpu/model_memory.py: `--model-memory-limit` of a GPU. What loads take is measured, for an ONNX and a Python model; models that find no room
push out those used longest ago; one that is larger than the limit is refused. Takes the options of resnet50_onnx.py, and needs no client library. With --cpu the
memory of the host stands in for that of the GPU."""
import os
import sys

import batch_sizes
import gpu_bench
from resnet50_onnx import make_model, parse

holder = '''
import torch
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.held = torch.zeros(1 << 30, dtype=torch.uint8, device="DEVICE")

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(each, "X").as_numpy())]) for each in requests]
'''


def make_repository(options, model_file, folder):
    floats, kind, device = ("FP32", "KIND_CPU", "cpu") if options.cpu else ("FP16", "KIND_GPU", "cuda")
    tensors = 'input { name: "INPUT__0" data_type: TYPE_%s dims: [ 3, %d, %d ] }\n' % (floats, options.size, options.size)
    tensors += 'output { name: "OUTPUT__0" data_type: TYPE_%s dims: [ 1000 ] }\n' % floats
    lazy = 'instance_group { kind: %s count: 1 }\nparameters { key: "lazy" value: { string_value: "true" } }\n' % kind
    for name in ("a", "b", "c"):
        os.makedirs(os.path.join(folder, name, "1"))
        gpu_bench.put(model_file, os.path.join(folder, name, "1"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w") as file:
            file.write('platform: "onnxruntime_onnx"\nmax_batch_size: 8\n' + tensors + lazy)
    os.makedirs(os.path.join(folder, "holder", "1"))
    with open(os.path.join(folder, "holder", "1", "model.py"), "w") as file:
        file.write(holder.replace("DEVICE", device))
    with open(os.path.join(folder, "holder", "config.pbtxt"), "w") as file:
        file.write('backend: "python"\ninput { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }\n' + lazy)


def use(options, address, model):
    if model == "holder":
        body = {"inputs": [{"name": "X", "shape": [1], "datatype": "INT32", "data": [1]}]}
        status, answer = gpu_bench.call(address["http"], "/v2/models/holder/infer", body)
        if status != 200:
            raise RuntimeError(str(answer))
    else:
        batch_sizes.infer(options, address, model, batch_sizes.images_of(options, 1, 1))


def loaded(address):
    return [each["name"] for each in gpu_bench.call(address["http"], "/v2/repository/index", {})[1] if each.get("state") == "READY"]


def first_look(options, address):
    """What each kind takes; the Python model holds 1 GiB, beside the context of its process."""
    for model in ("a", "b", "holder"):
        use(options, address, model)
    return {**gpu_bench.memory_of_models(address), "nvidia_smi_mib": gpu_bench.gpu_memory_mib()}


def in_turn(options, address):
    """Room for two: the one used longest ago makes room for the third."""
    seen = []
    for model in ("a", "b", "a", "c", "b"):
        use(options, address, model)
        seen.append([model, loaded(address)])
    return {"used, then loaded": seen, "right": [each[1] for each in seen] == [["a"], ["a", "b"], ["a", "b"], ["a", "c"], ["b", "c"]]}


def refusal(options, address):
    try:
        use(options, address, "a")
        return {"told": "answered"}
    except Exception as error:
        return {"told": error.read().decode()[:400] if hasattr(error, "read") else str(error)[:400]}


def main():
    options = parse()
    gpu_bench.require(options, ["numpy", "onnx", "torch"])
    report = gpu_bench.Report(options)
    with report.folder() as folder:
        model_file = options.model or os.path.join(folder, "model.onnx")
        if not options.model:
            make_model(options, model_file)
        log = options.log or os.path.join(folder, "server.log")
        repository = os.path.join(folder, "models")
        make_repository(options, model_file, repository)
        place = "" if options.cpu else "0:"
        serve = lambda limit, number: gpu_bench.serving(options, repository, "%s.%d" % (log, number), ["--model-memory-limit=" + place + limit])
        with serve("60GiB", 1) as address:
            found = report.step("measured", lambda: first_look(options, address))
        if found:
            two = sum(int(found[name][0]["byte_size"]) for name in ("a", "b"))
            with serve(str(two * 6 // 5), 2) as address:
                report.step("in turn", lambda: in_turn(options, address))
        with serve("4096" if options.cpu else "1MiB", 3) as address:
            report.step("refused", lambda: refusal(options, address))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
