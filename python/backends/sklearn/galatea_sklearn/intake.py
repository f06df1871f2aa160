"""What an estimator takes, as inputs of the protocol, and inputs of requests as the rows that it takes."""
import numpy as np

from galatea_framework import ModelError, TensorDescription

from .evidence import Evidence, columns_of

_TYPES = {"string": "TYPE_STRING", "bool": "TYPE_BOOL", "integer": "TYPE_INT64"}


class Intake:
    """`is_flat`: the estimator takes a list of values and no table. `names` are those of the columns of the DataFrame that
    it was fitted on, or None; `pandas` makes such a DataFrame. `columns` is the Evidence by position."""

    def __init__(self, estimator):
        self.count = getattr(estimator, "n_features_in_", None)
        names = getattr(estimator, "feature_names_in_", None)
        self.names = None if names is None else [str(name) for name in names]
        self.pandas = None if names is None else _pandas()
        if type(estimator).__name__ in ("LabelEncoder", "LabelBinarizer"):
            self.is_flat = True
            self.columns = {0: columns_of(_Categories(estimator), [0])[0]}
        else:
            self.columns = columns_of(estimator, list(range(self.count or 1)))
            self.is_flat = self.count is None and any(one.is_text for one in self.columns.values())
        if self.pandas is None and not self.is_flat:
            # In a table without names every column counts, those that nothing looks at as well.
            self.columns = {position: self.columns.get(position) or Evidence() for position in range(self.count or 1)}

    def described(self):
        """One input where all columns are of one type, else one for each column that the estimator looks at."""
        types = {position: self.type_of(position) for position in sorted(self.columns)}
        if self.is_flat:
            return [TensorDescription("input", types[0], [-1])]
        if self.count is None:
            return [TensorDescription("input", types[0], [-1, -1])]
        if len(types) == self.count and len(set(types.values())) == 1:
            return [TensorDescription("input", types[0], [-1, self.count])]
        return [TensorDescription(self.name_of(position), kind, [-1]) for position, kind in types.items()]

    def name_of(self, position):
        """scikit-learn's own names for columns without one are x0, x1 and so on."""
        return self.names[position] if self.names is not None else "x%d" % position

    def type_of(self, position):
        evidence = self.columns[position]
        if evidence.kind != "number":
            return _TYPES[evidence.kind]
        # One number that needs float64 makes all of them float64, so that they can be one input.
        numbers = [one for one in self.columns.values() if one.kind == "number"]
        return "TYPE_FP32" if all(one.is_float32 for one in numbers) else "TYPE_FP64"

    def sample(self, number):
        """Two rows that the estimator should know, with `number` in columns of numbers."""
        columns = {}
        for position, evidence in self.columns.items():
            usual = {"string": "a", "bool": False, "integer": 0}.get(evidence.kind, number)
            value = evidence.examples[0] if evidence.examples else usual
            kind = {"string": object, "bool": bool, "integer": np.int64}.get(evidence.kind)
            columns[position] = np.array([value, value], dtype=kind or np.asarray(number).dtype)
        if self.is_flat:
            return list(columns[0])
        return self.frame(columns) if self.pandas is not None else self.table(columns)

    def table(self, columns):
        ordered = [columns[position] for position in sorted(columns)]
        if any(column.dtype == np.object_ for column in ordered):
            ordered = [column.astype(object) for column in ordered]
        return np.stack(ordered, axis=1)

    def frame(self, columns):
        series = {
            self.names[position]: self.pandas.Series(column, dtype=column.dtype)
            for position, column in sorted(columns.items())
        }
        return self.pandas.DataFrame(series)


class _Categories:
    """A label encoder in the form of an encoder of tables."""

    def __init__(self, encoder):
        self.categories_ = [encoder.classes_]


class RowReader:
    """Makes rows of the inputs that a configuration names: a list, an array or a DataFrame."""

    def __init__(self, source, intake, inputs):
        self._intake = intake
        # Set when the estimator was found to refuse float64.
        self.is_single = False
        if intake.is_flat and len(inputs) > 1:
            raise ModelError("model '%s' has %d inputs, and its estimator takes one list of values" % (source.name, len(inputs)))
        self._plan = self._planned(source, inputs)
        self._check_count(source, inputs)
        for tensor, (_, positions) in zip(inputs, self._plan):
            for position in positions:
                self._check_type(source, tensor, position)

    def _planned(self, source, inputs):
        """The name of each input with the positions of its columns. A column that no input is called by belongs to the inputs
        without a column's name, in their order."""
        intake = self._intake
        known = {intake.name_of(position): position for position in range(intake.count or 1)}
        widths = [width_of(source, tensor) for tensor in inputs]
        is_named = [tensor["name"] in known and width in (1, -1) for tensor, width in zip(inputs, widths)]
        taken = [known[tensor["name"]] for tensor, named in zip(inputs, is_named) if named]
        free = [position for position in range(intake.count or 1) if position not in taken]
        plan = []
        for tensor, width, named in zip(inputs, widths, is_named):
            size = len(free) if width < 0 else width
            plan.append((tensor["name"], [known[tensor["name"]]] if named else free[:size]))
            free = free if named else free[size:]
        return plan

    def _check_count(self, source, inputs):
        intake = self._intake
        if intake.is_flat or intake.count is None:
            return
        given = [position for _, positions in self._plan for position in positions]
        missing = [intake.name_of(position) for position in sorted(intake.columns) if position not in given]
        widths = [width_of(source, tensor) for tensor in inputs]
        if not missing and (-1 in widths or sum(widths) == len(given)):
            return
        known = " (%s)" % ", ".join(intake.names) if intake.names else ""
        found = "lack %s" % ", ".join(missing) if intake.names and missing else "have %d" % sum(widths)
        raise ModelError(
            "model '%s' was fitted on %d columns%s, and the inputs in its configuration %s"
            % (source.name, intake.count, known, found)
        )

    def _check_type(self, source, tensor, position):
        evidence = self._intake.columns.get(position)
        if evidence is None or not evidence.is_sure:
            return
        is_string = tensor["data_type"] == "TYPE_STRING"
        if is_string == (evidence.kind == "string"):
            return
        raise ModelError(
            "input '%s' of model '%s' is %s, and %s was fitted on %s there%s: write data_type: %s"
            % (
                tensor["name"],
                source.name,
                tensor["data_type"],
                evidence.by,
                "strings" if evidence.kind == "string" else "numbers",
                "" if self._intake.is_flat else " (column '%s')" % self._intake.name_of(position),
                self._intake.type_of(position),
            )
        )

    def rows(self, inputs):
        columns = {}
        tables = []
        for name, positions in self._plan:
            table = inputs[name].reshape(inputs[name].shape[0], -1)
            table = self._texts(table, positions) if table.dtype == np.object_ else self._numbers(table)
            tables.append(table)
            columns.update(zip(positions, table.T))
        if self._intake.is_flat:
            return list(tables[0][:, 0]) if tables[0].dtype == np.object_ else tables[0][:, 0]
        # A table of another width than the estimator's goes to the estimator as it is, which says what is wrong with it.
        is_whole = all(len(positions) == table.shape[1] for (_, positions), table in zip(self._plan, tables))
        if is_whole and self._intake.pandas is not None:
            return self._intake.frame(columns)
        if len(tables) == 1:
            return tables[0]
        return self._intake.table(columns) if is_whole else np.concatenate(tables, axis=1)

    def _texts(self, table, positions):
        decoded = np.empty(table.shape, object)
        for index in range(table.shape[1]):
            evidence = self._intake.columns.get(positions[index] if index < len(positions) else index)
            # The protocol has no missing string: the empty one stands for it, where the estimator knows missing values.
            empty = "" if evidence is None or not evidence.missing or "" in evidence.examples else evidence.missing[0]
            decoded[:, index] = [_text(one) or empty for one in table[:, index]]
        return decoded

    def _numbers(self, table):
        """Never narrower than what the estimator was fitted on: 0.7 as float32 lies on the other side of a limit of 0.7."""
        if table.dtype.kind != "f":
            return table
        numbers = [one for one in self._intake.columns.values() if one.kind == "number"]
        if self.is_single:
            return table.astype(np.float32, copy=False)
        is_float32 = bool(numbers) and all(one.is_float32 for one in numbers)
        return table.astype(np.float32 if is_float32 and table.itemsize < 8 else np.float64, copy=False)


def width_of(source, tensor):
    """How many columns an input has; -1 when its dims leave that open."""
    shape = tensor.get("reshape", {}).get("shape", tensor["dims"])
    row = list(shape) if source.is_batching else list(shape)[1:]
    return -1 if any(size < 0 for size in row) else int(np.prod(row, dtype=np.int64))


def _text(item):
    return item.decode() if isinstance(item, bytes) else str(item)


def _pandas():
    try:
        import pandas
    except ModuleNotFoundError:
        return None
    return pandas
