"""How long a metric of a model lives."""
import unittest
from unittest import mock

from galatea_worker import metrics
from galatea_worker.context import context
from galatea_worker.errors import TritonModelException
from galatea_worker.frames import METRIC_OPERATION

REMOVE = METRIC_OPERATION.pack(3, 0.0)


class Channel:
    def __init__(self):
        self.frames = []

    def send_if_free(self, frame):
        self.frames.append(bytes(frame))


class FamilyTest(unittest.TestCase):
    def setUp(self):
        self.channel = Channel()
        for change in (
            mock.patch.object(metrics, "ask", lambda name, arguments: 7),
            mock.patch.object(metrics, "tell_metric", lambda *arguments: None),
            mock.patch.object(context, "channel", self.channel),
        ):
            change.start()
            self.addCleanup(change.stop)

    def make(self, kind=metrics.GAUGE):
        return metrics.MetricFamily("orders", "Orders taken", kind)

    def removed(self):
        return [frame for frame in self.channel.frames if REMOVE in frame]

    def test_a_metric_keeps_its_family(self):
        metric = self.make().Metric(labels={})
        metric.set(5)
        self.assertEqual(metric.value(), 7)
        self.assertEqual(self.removed(), [])
        del metric
        self.assertEqual(len(self.removed()), 1)

    def test_with_the_rules_of_triton_a_metric_ends_with_its_family(self):
        context.follows_triton = True
        self.addCleanup(setattr, context, "follows_triton", False)
        family = self.make()
        kept = family.Metric(labels={})
        kept.set(5)
        histogram = self.make(metrics.HISTOGRAM).Metric(labels={}, buckets=[1])
        del family
        self.assertEqual(len(self.removed()), 2)
        text = "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
        for use in (lambda: kept.set(1), lambda: kept.increment(1), kept.value, lambda: histogram.observe(1)):
            with self.assertRaises(TritonModelException) as caught:
                use()
            self.assertEqual(str(caught.exception), text)
        del kept, histogram
        self.assertEqual(len(self.removed()), 2)


if __name__ == "__main__":
    unittest.main()
