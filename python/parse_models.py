"""Reads paths of Python files from stdin, one per line, and answers each with one line of JSON. Parses and runs nothing."""

import ast
import importlib.util
import json
import os
import sys


def facts_of(path):
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except SyntaxError as error:
        return {"error": "%s: %s" % (type(error).__name__, error.msg), "line": error.lineno, "column": error.offset}
    except (ValueError, OSError, RecursionError) as error:
        return {"error": "%s: %s" % (type(error).__name__, error), "line": None, "column": None}
    is_absent, methods = model_of(tree)
    missing = missing_modules(tree, [os.path.dirname(path), os.path.dirname(os.path.dirname(path))])
    return {"error": None, "isAbsent": is_absent, "methods": methods, "missing": missing}


def model_of(tree):
    """Whether the class TritonPythonModel is missing, and the names of its methods; None where the text does not tell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            methods = [part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
            # Anything may come from a base class, a decorator or an assignment.
            is_plain = not node.bases and not node.decorator_list and not node.keywords
            others = [part for part in node.body if isinstance(part, ast.Assign)]
            return False, methods if is_plain and not others else None
    # The name may be imported or assigned.
    for node in ast.walk(tree):
        if isinstance(node, (ast.ImportFrom, ast.Import)):
            if any((alias.asname or alias.name) in ("TritonPythonModel", "*") for alias in node.names):
                return False, None
        if isinstance(node, ast.Name) and node.id in ("TritonPythonModel", "globals", "setattr", "exec"):
            return False, None
    return True, None


def missing_modules(tree, folders):
    """Modules that the file imports without a condition and that this Python does not find. Only looks for the files."""
    names = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module)
    path = list(sys.path)
    sys.path[:] = folders + path
    try:
        return [name for name in dict.fromkeys(name.split(".")[0] for name in names) if not is_found(name)]
    finally:
        sys.path[:] = path


def is_found(name):
    # A module that only the worker has.
    if name == "c_python_backend_utils":
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


for line in sys.stdin:
    print(json.dumps(facts_of(line.rstrip("\n"))), flush=True)
