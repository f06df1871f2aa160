"""`context.metrics` of a handler. Counters and gauges become metrics of the server, under the names that the handler gave."""
import importlib
import re
import sys

import triton_python_backend_utils as pb_utils

# The most families that one model may make: a handler that puts a request id into a name must not fill the memory.
most_families = 256
_units_of_time = ("ms", "s")
_units_of_size = ("MB", "kB", "GB", "B")


class Metrics:
    def __init__(self, model_name):
        self.model_name = model_name
        self._families = {}
        self.request_ids = None
        self.cache = {}

    def add_counter(self, name, value, idx=None, dimensions=None):
        self._add(name, "counter", value, dimensions)

    def add_time(self, name, value, idx=None, unit="ms", dimensions=None, metric_type="gauge"):
        if unit not in _units_of_time:
            raise _error_of("MetricsCacheValueError", ValueError)("the unit for a timed metric should be one of ['ms', 's']")
        self._add(name, metric_type, value, dimensions)

    def add_size(self, name, value, idx=None, unit="MB", dimensions=None, metric_type="gauge"):
        if unit not in _units_of_size:
            raise ValueError("The unit for size based metric is one of ['MB','kB', 'GB', 'B']")
        self._add(name, metric_type, value, dimensions)

    def add_percent(self, name, value, idx=None, dimensions=None, metric_type="gauge"):
        self._add(name, metric_type, value, dimensions)

    def add_error(self, name, value, dimensions=None):
        self._add(name, "counter", value, dimensions, "Error")

    def add_metric(self, name, value, unit="", idx=None, dimensions=None, metric_type="counter"):
        self._add(name, metric_type, value, dimensions)

    def add_metric_to_cache(self, metric_name, unit="", dimension_names=None, metric_type="counter"):
        metric = CachedMetric(self, metric_name, unit, dimension_names or [], metric_type)
        self.cache[(metric_name, _kind_of(metric_type))] = metric
        return metric

    def get_metric(self, metric_name, metric_type="counter"):
        metric = self.cache.get((metric_name, _kind_of(metric_type)))
        if metric is None:
            raise _error_of("MetricsCacheKeyError", KeyError)("Metric of type %s and name %s is not there" % (metric_type, metric_name))
        return metric

    def set_request_ids(self, request_ids):
        self.request_ids = request_ids

    def _add(self, name, kind, value, dimensions, level="Model"):
        labels = {each.name: str(each.value) for each in dimensions or [] if hasattr(each, "value")}
        named = {} if level == "Error" else {"ModelName": self.model_name}
        self.put(name, kind, value, {**named, "Level": level, **labels})

    def put(self, name, kind, value, labels):
        kind = _kind_of(kind)
        metric = self._metric(re.sub(r"[^a-zA-Z0-9_:]", "_", name), kind, labels)
        if metric is None or (kind == "counter" and value < 0):
            return
        if kind == "counter":
            metric.increment(float(value))
        else:
            metric.set(float(value))

    def _metric(self, name, kind, labels):
        key = (name, kind, tuple(sorted(labels.items())))
        if key not in self._families and len(self._families) < most_families:
            kinds = pb_utils.MetricFamily
            family = pb_utils.MetricFamily(
                name=name, description="Metric of a handler", kind=kinds.COUNTER if kind == "counter" else kinds.GAUGE
            )
            self._families[key] = (family, family.Metric(labels=labels))
        entry = self._families.get(key)
        return None if entry is None else entry[1]


class CachedMetric:
    """A metric that a handler keeps: the names of its dimensions are said once, their values each time."""

    def __init__(self, metrics, metric_name, unit, dimension_names, metric_type):
        self._metrics = metrics
        self.metric_name = metric_name
        self.unit = unit
        self.dimension_names = dimension_names
        self.metric_type = metric_type

    def add_or_update(self, value, dimension_values=(), request_id=""):
        # As in TorchServe, values that the names do not fit are told in the log and count nothing.
        if dimension_values is None or len(dimension_values) != len(self.dimension_names):
            text = "[METRICS]Dimension values: %s should correspond to Dimension names: %s" % (dimension_values, self.dimension_names)
            print(text, file=sys.stderr)
            return
        labels = dict(zip(self.dimension_names, map(str, dimension_values)))
        self._metrics.put(self.metric_name, self.metric_type, value, labels)

    def update(self, value, request_id="", dimensions=()):
        self.dimension_names = [each.name for each in dimensions]
        self.add_or_update(value, [each.value for each in dimensions], request_id)


def _kind_of(metric_type):
    """Of a text or of TorchServe's enumeration. What is observed is shown as it was last."""
    return "counter" if str(getattr(metric_type, "value", metric_type)).lower() == "counter" else "gauge"


def _error_of(name, other):
    """TorchServe's class, or ours in its place; an old TorchServe has none."""
    try:
        return getattr(importlib.import_module("ts.metrics.metric_cache_errors"), name, other)
    except ImportError:
        return other
