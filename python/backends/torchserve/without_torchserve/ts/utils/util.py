import inspect
import itertools
import json
import os


class PredictionException(Exception):
    def __init__(self, message, error_code=500):
        self.message = message
        self.error_code = error_code
        super().__init__(message)

    def __str__(self):
        return f"{self.message} : {self.error_code}"


def list_classes_from_module(module, parent_class=None):
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    if parent_class is None:
        return classes
    return [each for each in classes if issubclass(each, parent_class)]


def load_label_mapping(mapping_file_path):
    if not os.path.isfile(mapping_file_path):
        return None
    with open(mapping_file_path, encoding="utf-8") as file:
        mapping = json.load(file)
    if not isinstance(mapping, dict):
        raise Exception('index_to_name mapping should be in "class":"label" json format')
    mapping = mapping.get("object_type_names", mapping)
    return {key: value[-1] if isinstance(value, list) else value for key, value in mapping.items()}


def map_class_to_label(probs, mapping=None, lbl_classes=None):
    if not isinstance(probs, list):
        raise Exception("Convert classes to list before doing mapping")
    if mapping is not None and not isinstance(mapping, dict):
        raise Exception("Mapping must be a dict")
    if lbl_classes is None:
        lbl_classes = itertools.repeat(range(len(probs[0])), len(probs))
    return [
        {(mapping[str(label)] if mapping is not None else str(label)): prob for label, prob in zip(*row)}
        for row in zip(lbl_classes, probs)
    ]
