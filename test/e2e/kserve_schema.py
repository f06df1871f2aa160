"""Checks resources of KServe (JSON on stdin) against the models of KServe's own package and of Kubernetes' client, strictly.

Prints one line per finding: a field that the models do not know, a value of another type, a required field that is missing.
"""

import importlib
import importlib.util
import json
import os
import re
import sys
import types

# The package itself would import a whole server; only its models are wanted.
place = importlib.util.find_spec("kserve").submodule_search_locations[0]
for name, folder in (("kserve", place), ("kserve.models", os.path.join(place, "models"))):
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module

plain = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}
roots = {
    "ClusterServingRuntime": "V1alpha1ClusterServingRuntime",
    "ServingRuntime": "V1alpha1ServingRuntime",
    "InferenceService": "V1beta1InferenceService",
}


def class_of(name):
    file = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    for package in ("kserve.models", "kubernetes.client.models"):
        try:
            return getattr(importlib.import_module(f"{package}.{file}"), name)
        except ImportError:
            pass
    return None


def findings(value, kind, at):
    listed = re.fullmatch(r"[Ll]ist\[(.+)\]", kind)
    mapped = re.fullmatch(r"[Dd]ict[(\[]str, (.+)[)\]]", kind)
    if listed:
        if not isinstance(value, list):
            return [f"{at}: expected a list"]
        return [f for i, one in enumerate(value) for f in findings(one, listed[1], f"{at}[{i}]")]
    if mapped:
        if not isinstance(value, dict):
            return [f"{at}: expected a map"]
        return [f for key, one in value.items() for f in findings(one, mapped[1], f"{at}.{key}")]
    if kind in plain:
        fits = isinstance(value, plain[kind]) and (kind == "bool") == isinstance(value, bool)
        return [] if fits or kind == "object" else [f"{at}: expected {kind}, got {value!r}"]
    model = class_of(kind)
    if model is None:
        return [f"{at}: neither package has the type {kind}"]
    if not isinstance(value, dict):
        return [f"{at}: expected an object ({kind})"]
    names = {theirs: own for own, theirs in model.attribute_map.items()}
    found = [f"{at}.{key}: {kind} has no such field" for key in value if key not in names]
    given = {names[key]: one for key, one in value.items() if key in names}
    try:
        model(**given)
    except ValueError as error:
        found.append(f"{at}: {error}")
    for own, one in given.items():
        found += findings(one, model.openapi_types[own], f"{at}.{model.attribute_map[own]}")
    return found


for resource in json.load(sys.stdin):
    root = roots.get(resource.get("kind"), "")
    for one in findings(resource, root, f"{resource.get('kind')}"):
        print(one)
