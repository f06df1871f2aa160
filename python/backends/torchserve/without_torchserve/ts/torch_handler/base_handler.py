"""The contract of TorchServe's BaseHandler: initialize, preprocess, inference, postprocess, handle."""
import importlib.util
import os
import time

import torch

from ..utils.util import list_classes_from_module, load_label_mapping


class BaseHandler:
    def __init__(self):
        self.model = None
        self.mapping = None
        self.device = None
        self.initialized = False
        self.context = None
        self.manifest = None
        self.model_pt_path = None
        self.map_location = None
        self.explain = False
        self.target = 0

    def initialize(self, context):
        self.context = context
        self.manifest = context.manifest
        self.model_yaml_config = context.model_yaml_config
        properties = context.system_properties
        has_gpu = torch.cuda.is_available() and properties.get("gpu_id") is not None
        self.map_location = "cuda" if has_gpu else "cpu"
        self.device = torch.device("cuda:%s" % properties["gpu_id"] if has_gpu else "cpu")
        folder = properties["model_dir"]
        model = self.manifest["model"]
        serialized = model.get("serializedFile")
        self.model_pt_path = os.path.join(folder, serialized) if serialized else None
        if model.get("modelFile"):
            self.model = self._load_pickled_model(folder, model["modelFile"], self.model_pt_path)
            self.model.to(self.device)
        elif self.model_pt_path is not None and self.model_pt_path.endswith(".pt"):
            self.model = torch.jit.load(self.model_pt_path, map_location=self.device)
        else:
            raise RuntimeError("No model weights could be loaded")
        self.model.eval()
        self.mapping = load_label_mapping(os.path.join(folder, "index_to_name.json"))
        self.initialized = True

    def _load_pickled_model(self, model_dir, model_file, model_pt_path):
        path = os.path.join(model_dir, model_file)
        if not os.path.isfile(path):
            raise RuntimeError("Missing the model.py file")
        spec = importlib.util.spec_from_file_location(model_file.split(".")[0], path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        classes = list_classes_from_module(module)
        if len(classes) != 1:
            raise ValueError("Expected only one class as model definition. %s" % classes)
        model = classes[0]()
        if model_pt_path:
            model.load_state_dict(torch.load(model_pt_path, map_location=self.device))
        return model

    def preprocess(self, data):
        return torch.as_tensor(data, device=self.device)

    def inference(self, data, *args, **kwargs):
        with torch.inference_mode():
            return self.model(data.to(self.device), *args, **kwargs)

    def postprocess(self, data):
        return data.tolist()

    def handle(self, data, context):
        start = time.time()
        self.context = context
        is_explain = context.get_request_header(0, "explain") == "True"
        prepared = self.preprocess(data)
        if is_explain:
            output = self.explain_handle(prepared, data)
        else:
            output = self.postprocess(self.inference(prepared))
        context.metrics.add_time("HandlerTime", round((time.time() - start) * 1000, 2))
        return output

    def explain_handle(self, data_preprocess, raw_data):
        self.explain = True
        row = raw_data[0]
        inputs, target = None, 0
        if isinstance(row, dict):
            inputs = row.get("data") or row.get("body")
            target = row.get("target") or 0
        return self.get_insights(data_preprocess, inputs, target)

    def get_insights(self, tensor_data, raw_data, target):
        raise NotImplementedError("the handler has no get_insights: it gives no explanations")
