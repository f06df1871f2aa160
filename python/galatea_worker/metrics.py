"""Custom metrics: families and series that live in the server."""
import enum
import weakref

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
        # Triton removes the series of a family together with the family's object: models must keep both.
        self._family = None if context.follows_triton else family
        self._has_ended = False
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
        self._check_family()
        if self._kind == COUNTER and value < 0:
            _fail(
                "Failed to increment metric value",
                "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.",
            )
        if self._kind == HISTOGRAM:
            _fail("Failed to increment metric value", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment")
        tell_metric(self._id, _INCREMENT, float(value))

    def set(self, value):
        self._check_family()
        if self._kind != GAUGE:
            _fail(
                "Failed to set metric value",
                "TRITONSERVER_METRIC_KIND_%s does not support Set" % _KINDS[self._kind].upper(),
            )
        tell_metric(self._id, _SET, float(value))

    def observe(self, value):
        self._check_family()
        if self._kind != HISTOGRAM:
            _fail(
                "Failed to observe metric value",
                "TRITONSERVER_METRIC_KIND_%s does not support Observe" % _KINDS[self._kind].upper(),
            )
        tell_metric(self._id, _OBSERVE, float(value))

    def value(self):
        self._check_family()
        if self._kind == HISTOGRAM:
            _fail("Failed to get metric value", "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value")
        return float(ask("metricValue", {"metric": self._id}))

    def _check_family(self):
        if self._has_ended:
            raise TritonModelException(
                "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
            )

    def __del__(self):
        if not self._has_ended:
            self._end()

    def _end(self):
        self._has_ended = True
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
        self._metrics = weakref.WeakSet()
        try:
            ask("createFamily", {"name": name, "description": description, "kind": _KINDS[self._kind]})
        except TritonModelException as error:
            _fail("Error when creating MetricFamily", error)

    def Metric(self, labels=None, buckets=None):
        metric = Metric(self, labels, buckets)
        self._metrics.add(metric)
        return metric

    def __del__(self):
        # Without Triton's rule no metric is left here: each holds its family.
        for metric in getattr(self, "_metrics", ()):
            metric._end()
