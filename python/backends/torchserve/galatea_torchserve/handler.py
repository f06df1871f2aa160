"""Finds the handler of an archive and starts it, as TorchServe's model loader does."""
import importlib
import importlib.util
import json
import os
import sys

from .metrics import Metrics

_without_torchserve = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "without_torchserve")
built_in_names = ("image_classifier", "image_segmenter", "object_detector", "text_classifier")


def read_settings(folder):
    """What the front end knows of this version beside its manifest."""
    path = os.path.join(folder, "MAR-INF", "galatea.json")
    known = {"handler": "", "serviceEnvelope": "", "decodesInput": True, "batchSize": 1, "modelYamlConfig": {}}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known.update(json.load(file))
    return known


def load_handler(name, folder, settings, gpu):
    """→ what to call for a batch, its context, and the class that holds the headers of one request."""
    # The repository may be named by a path from where the server started.
    folder = os.path.abspath(folder)
    sys.path.insert(0, folder)
    # As TorchServe's worker: a handler opens the files of its archive by their names alone.
    os.chdir(folder)
    has_torchserve = importlib.util.find_spec("ts") is not None
    if not has_torchserve:
        sys.path.append(_without_torchserve)
    from ts.context import Context, RequestProcessor

    _let_pieces_through()
    manifest = _manifest_of(folder)
    yaml_config = settings["modelYamlConfig"]
    handler = settings["handler"] or manifest["model"]["handler"]
    context = Context(name, folder, manifest, settings["batchSize"], gpu, "0.12.0", True, Metrics(name), yaml_config)
    module, function_name = _module_of(handler, has_torchserve)
    entry, start = _entry_of(module, function_name or "handle")
    if settings["serviceEnvelope"]:
        entry = _wrapped(entry, settings["serviceEnvelope"])
    # A function is called once without data, so that it loads its model.
    context.request_processor = [RequestProcessor({})]
    start(context)
    return entry, context, RequestProcessor


def _manifest_of(folder):
    """None for an archive without one, as in TorchServe."""
    try:
        with open(os.path.join(folder, "MAR-INF", "MANIFEST.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def _module_of(handler, has_torchserve):
    file, _, function_name = handler.partition(":")
    plain = os.path.basename(file[:-3] if file.endswith(".py") else file)
    try:
        return importlib.import_module(plain), function_name
    except ModuleNotFoundError as error:
        if error.name != plain:
            raise
    if plain in built_in_names and not has_torchserve:
        raise ModuleNotFoundError(
            "the handler '%s' is one of TorchServe's own: '%s -m pip install torchserve torch torchvision captum' installs it there, "
            "without its server" % (plain, sys.executable)
        )
    name = "ts.torch_handler." + plain
    try:
        return importlib.import_module(name), ""
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            "the archive has no handler '%s', and TorchServe has none of that name: the manifest names a .py file of the archive" % file
        ) from None


def _entry_of(module, function_name):
    if hasattr(module, function_name):
        function = getattr(module, function_name)
        return function, lambda context: function(None, context)
    from ts.utils.util import list_classes_from_module

    classes = list_classes_from_module(module)
    if len(classes) != 1:
        raise ValueError("Expected only one class in custom service code or a function entry point %s" % classes)
    service = classes[0]()
    if not hasattr(service, "handle"):
        raise ValueError("Expect handle method in class %s" % classes[0].__name__)
    return service.handle, service.initialize


def _wrapped(entry, envelope):
    module = importlib.import_module("ts.torch_handler.request_envelope." + envelope)
    from ts.utils.util import list_classes_from_module

    return list_classes_from_module(module)[0](entry).handle


def _let_pieces_through():
    """The function of TorchServe writes to its own socket. Its context carries the answers here."""

    def send(ret, req_id_map=None, message="", code=200, context=None):
        context.cl_socket.send_part(ret)

    for name in ("ts.protocol.otf_message_handler", "ts.handler_utils.utils"):
        try:
            importlib.import_module(name).send_intermediate_predict_response = send
        except ImportError:
            # An older TorchServe has one of the two.
            continue
