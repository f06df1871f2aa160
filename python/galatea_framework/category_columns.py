"""Columns of boosters that were trained on a DataFrame with categories. A booster computes with the numbers of categories; a
DataFrame has the categories themselves, and so has a request with one input for each column."""
import numpy as np

from .description import TensorDescription
from .source import InputError, ModelError


class CategoryColumns:
    def __init__(self, names, categories, number_type, refuses_unknown=False):
        """`names` of all columns or None; `categories` are lists by position, in the order of their numbers."""
        self.names = names
        self.categories = categories
        self._number_type = number_type
        self._refuses_unknown = refuses_unknown
        self._numbers = {
            position: {_key(value): number for number, value in enumerate(values)} for position, values in categories.items()
        }

    def described(self, count):
        if not self.categories or self.names is None:
            return [TensorDescription("input", self._number_type, [-1, int(count)])]
        return [TensorDescription(name, self._type_of(position), [-1]) for position, name in enumerate(self.names)]

    def _type_of(self, position):
        return "TYPE_STRING" if self._is_text(position) else self._number_type

    def _is_text(self, position):
        return any(isinstance(value, str) for value in self.categories.get(position, ()))

    def reader(self, source, inputs):
        """A function: arrays by input → the matrix of features. Inputs with the names of the columns are those columns, and
        have categories; any other inputs are the matrix as it is, with the numbers of categories."""
        order = [tensor["name"] for tensor in inputs]
        is_by_column = self.names is not None and len(order) > 1 and sorted(order) == sorted(self.names)
        if is_by_column or (self.names == order and self.categories):
            order = self.names
        for tensor in inputs:
            position = self.names.index(tensor["name"]) if is_by_column or order is self.names else -1
            is_text = tensor["data_type"] == "TYPE_STRING"
            if is_text != self._is_text(position):
                raise ModelError(self._complaint(source, tensor, is_text))
        if order is not self.names:
            return lambda given: _matrix([given[name] for name in order])
        return lambda given: _matrix([self._coded(position, name, given[name]) for position, name in enumerate(order)])

    def _complaint(self, source, tensor, is_text):
        if not is_text:
            text = "the booster was trained on the categories of a DataFrame there: write data_type: TYPE_STRING"
        elif not self.categories:
            text = "the booster has no categories of strings: it takes numbers"
        else:
            columns = [name for position, name in enumerate(self.names) if self._is_text(position)]
            text = "strings are taken by the columns %s: give every column an input of its own (galatea init writes them)" % (
                ", ".join(columns) or "of no name"
            )
        return "input '%s' of model '%s' is %s, and %s" % (tensor["name"], source.name, tensor["data_type"], text)

    def _coded(self, position, name, array):
        if position not in self._numbers:
            return array
        numbers = self._numbers[position]
        coded = np.empty(array.shape, np.float64)
        for index, value in enumerate(array.flat):
            key = _key(value)
            if key not in numbers and self._refuses_unknown and not _is_missing(key):
                known = ", ".join(str(one) for one in self.categories[position][:20])
                raise InputError("input '%s': '%s' is no category of the model, which knows %s" % (name, key, known))
            coded.flat[index] = numbers.get(key, np.nan)
        return coded


def _matrix(arrays):
    columns = [array.reshape(array.shape[0], -1) for array in arrays]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def _key(value):
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else float(value)


def _is_missing(key):
    return key == "" or key != key
