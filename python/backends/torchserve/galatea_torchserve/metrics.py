"""`context.metrics` of a handler. Counters and gauges become metrics of the server, under the names that the handler gave."""
import re

import triton_python_backend_utils as pb_utils

# The most families that one model may make: a handler that puts a request id into a name must not fill the memory.
most_families = 256


class Metrics:
    def __init__(self, model_name):
        self._model_name = model_name
        self._families = {}
        self.request_ids = None
        self.cache = {}

    def add_counter(self, name, value, idx=None, dimensions=None, metric_type=None):
        self._add(name, "counter", value, dimensions)

    def add_time(self, name, value, idx=None, unit="ms", dimensions=None, metric_type=None):
        self._add(name, "gauge", value, dimensions)

    def add_size(self, name, value, idx=None, unit="MB", dimensions=None, metric_type=None):
        self._add(name, "gauge", value, dimensions)

    def add_percent(self, name, value, idx=None, dimensions=None, metric_type=None):
        self._add(name, "gauge", value, dimensions)

    def add_error(self, name, value, dimensions=None, metric_type=None):
        return None

    def add_metric(self, name, value, unit="", idx=None, dimensions=None, metric_type="counter"):
        kind = str(getattr(metric_type, "value", metric_type)).lower()
        self._add(name, "counter" if kind == "counter" else "gauge", value, dimensions)

    def add_metric_to_cache(self, metric_name, unit="", dimension_names=None, metric_type="counter"):
        metrics = self

        class Cached:
            def add_or_update(self, value, dimension_values=(), request_id=""):
                metrics.add_metric(metric_name, value, metric_type=metric_type)

        self.cache[metric_name] = Cached()
        return self.cache[metric_name]

    def get_metric(self, metric_name, metric_type=None):
        return self.cache.get(metric_name) or self.add_metric_to_cache(metric_name, metric_type=metric_type or "counter")

    def set_request_ids(self, request_ids):
        self.request_ids = request_ids

    def _add(self, name, kind, value, dimensions):
        key = re.sub(r"[^a-zA-Z0-9_:]", "_", name)
        labels = {each.name: str(each.value) for each in dimensions or [] if hasattr(each, "value")}
        metric = self._metric(key, kind, {"ModelName": self._model_name, **labels})
        if metric is None:
            return
        if kind == "counter":
            metric.increment(float(value))
        else:
            metric.set(float(value))

    def _metric(self, name, kind, labels):
        key = (name, tuple(sorted(labels.items())))
        if key not in self._families and len(self._families) < most_families:
            kinds = pb_utils.MetricFamily
            family = pb_utils.MetricFamily(
                name=name, description="Metric of a handler", kind=kinds.COUNTER if kind == "counter" else kinds.GAUGE
            )
            self._families[key] = (family, family.Metric(labels=labels))
        entry = self._families.get(key)
        return None if entry is None else entry[1]
