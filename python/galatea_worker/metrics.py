"""Custom metrics: families and series that live in the server."""
import math

from . import frames
from .arguments import text_argument
from .calls import ask, tell_metric
from .context import context
from .errors import TritonModelException
from .named_code import NamedCode


class MetricKind(NamedCode):
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


class _Series:
    """The series of a family in the server. They stay as long as the family or a metric of it does, as in Triton: a model may
    ask its family for a metric each time that it counts."""

    def __init__(self, family):
        self._family = family
        self._ids = {}
        self.has_ended = False

    def id_of(self, labels, buckets):
        key = frozenset(labels.items())
        id = self._ids.get(key)
        if id is None:
            made = ask("createMetric", {"family": self._family, "labels": labels, "buckets": buckets})
            # Another thread may have asked, too. A lock around the question could keep its answer from being read.
            id = self._ids.setdefault(key, made)
            if id != made:
                self._remove(made)
        return id

    def end(self):
        self.has_ended = True
        ids, self._ids = self._ids, {}
        for id in ids.values():
            self._remove(id)

    def _remove(self, id):
        if context.channel is not None:
            context.channel.send_if_free(
                frames.simple_frame(frames.METRIC, id, frames.METRIC_OPERATION.pack(_REMOVE, 0.0))
            )

    def __del__(self):
        self.end()


def _bounds(buckets):
    """JSON has no infinity. Every histogram has the bucket +Inf anyway, so as a last bound it is left out."""
    bounds = [float(bound) for bound in buckets]
    if bounds and bounds[-1] == math.inf:
        bounds.pop()
    if not all(map(math.isfinite, bounds)):
        raise TritonModelException("Failed to create metric: buckets must be finite, found %s." % bounds)
    return bounds


class Metric:
    """One series of a family. Two of the same labels are the same series."""

    def __init__(self, family, labels, buckets):
        self._series = family._series
        self._kind = family._kind
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
            self._id = self._series.id_of(labels, None if buckets is None else _bounds(buckets))
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
        if self._series.has_ended:
            raise TritonModelException(
                "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
            )


class MetricFamily:
    COUNTER = COUNTER
    GAUGE = GAUGE
    HISTOGRAM = HISTOGRAM

    def __init__(self, name, description, kind):
        name = text_argument("MetricFamily", "name", name)
        description = text_argument("MetricFamily", "description", description)
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
        self._series = _Series(name)

    def Metric(self, labels=None, buckets=None):
        return Metric(self, labels, buckets)

    def __del__(self):
        # Triton removes the series of a family together with the family's object: models must keep both.
        series = getattr(self, "_series", None)
        if context.follows_triton and series is not None:
            series.end()
