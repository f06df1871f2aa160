"""Custom metrics: families and series that live in the server."""
import enum

from . import frames
from .calls import ask, tell_metric
from .context import context
from .errors import TritonModelException



class MetricKind(enum.IntEnum):
    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


COUNTER, GAUGE, HISTOGRAM = MetricKind
_KINDS = ["counter", "gauge", "histogram"]
_INCREMENT, _SET, _OBSERVE, _REMOVE = 0, 1, 2, 3


def _fail(what, message):
    raise TritonModelException(
        "%s: Failed to process the request for model '%s', message: %s" % (what, context.instance_name, message)
    )


class Metric:
    """One series of a family. It disappears from the server's metrics when this object does."""

    def __init__(self, family, labels, buckets):
        self._family = family
        self._kind = family._kind
        self._id = 0
        labels = {} if labels is None else labels
        if not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric: labels must be a dictionary of strings.")
        for key, value in labels.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TritonModelException("Failed to create metric: keys and values of labels must be strings.")
        if self._kind == HISTOGRAM and buckets is None:
            raise TritonModelException("Must be set for histogram metric.")
        if self._kind != HISTOGRAM and buckets is not None:
            raise TritonModelException("Unexpected buckets found.")
        try:
            self._id = ask(
                "createMetric",
                {
                    "family": family._name,
                    "labels": labels,
                    "buckets": None if buckets is None else [float(bound) for bound in buckets],
                },
            )
        except TritonModelException as error:
            _fail("Error when creating Metric", error)

    def increment(self, value):
        if self._kind == COUNTER and value < 0:
            _fail(
                "Failed to increment metric value",
                "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.",
            )
        if self._kind == HISTOGRAM:
            _fail("Failed to increment metric value", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment")
        tell_metric(self._id, _INCREMENT, float(value))

    def set(self, value):
        if self._kind != GAUGE:
            _fail(
                "Failed to set metric value",
                "TRITONSERVER_METRIC_KIND_%s does not support Set" % _KINDS[self._kind].upper(),
            )
        tell_metric(self._id, _SET, float(value))

    def observe(self, value):
        if self._kind != HISTOGRAM:
            _fail(
                "Failed to observe metric value",
                "TRITONSERVER_METRIC_KIND_%s does not support Observe" % _KINDS[self._kind].upper(),
            )
        tell_metric(self._id, _OBSERVE, float(value))

    def value(self):
        if self._kind == HISTOGRAM:
            _fail("Failed to get metric value", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value")
        return float(ask("metricValue", {"metric": self._id}))

    def __del__(self):
        if self._id and context.channel is not None:
            context.channel.send_if_free(
                frames.simple_frame(frames.METRIC, self._id, frames.METRIC_OPERATION.pack(_REMOVE, 0.0))
            )


class MetricFamily:
    COUNTER = COUNTER
    GAUGE = GAUGE
    HISTOGRAM = HISTOGRAM

    def __init__(self, name, description, kind):
        self._name = name
        if kind not in (COUNTER, GAUGE, HISTOGRAM):
            raise TypeError(
                "MetricFamily(): incompatible arguments: kind must be MetricFamily.COUNTER, GAUGE or HISTOGRAM, got %r"
                % (kind,)
            )
        self._kind = int(kind)
        try:
            ask("createFamily", {"name": name, "description": description, "kind": _KINDS[self._kind]})
        except TritonModelException as error:
            _fail("Error when creating MetricFamily", error)

    def Metric(self, labels=None, buckets=None):
        return Metric(self, labels, buckets)
