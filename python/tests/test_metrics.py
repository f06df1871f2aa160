"""How long a metric of a model lives."""
import itertools
import threading
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

    def test_a_series_stays_while_its_family_does(self):
        family = self.make()
        family.Metric(labels={"shop": "north"}).increment(1)
        kept = family.Metric(labels={"shop": "south"})
        self.assertEqual(self.removed(), [])
        del family
        self.assertEqual(self.removed(), [])
        del kept
        self.assertEqual(len(self.removed()), 2)

    def test_equal_labels_are_one_series_that_is_made_once(self):
        asked = []
        with mock.patch.object(metrics, "ask", lambda name, arguments: asked.append((name, arguments)) or 7):
            family = self.make()
            for _ in range(3):
                family.Metric(labels={"shop": "north", "street": "1"}).increment(1)
                family.Metric(labels={"street": "1", "shop": "north"}).increment(1)
        self.assertEqual([name for name, _ in asked], ["createFamily", "createMetric"])

    def test_threads_that_make_a_series_at_the_same_time_leave_none_behind(self):
        both, numbers, changed = threading.Barrier(2), itertools.count(1), []

        def ask(name, arguments):
            if name == "createMetric":
                both.wait(10)
            return next(numbers)

        with (
            mock.patch.object(metrics, "ask", ask),
            mock.patch.object(metrics, "tell_metric", lambda id, *change: changed.append(id)),
        ):
            family = self.make()

            def count():
                family.Metric(labels={"shop": "north"}).increment(1)

            threads = [threading.Thread(target=count) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(set(changed)), 1)
            self.assertEqual(len(self.removed()), 1)
            del family, count
        self.assertEqual(len(self.removed()), 2)

    def test_an_infinite_last_bound_of_a_histogram_is_the_bucket_that_it_has_anyway(self):
        asked = []
        with mock.patch.object(metrics, "ask", lambda name, arguments: asked.append(arguments) or 7):
            self.make(metrics.HISTOGRAM).Metric(buckets=[1, 5, float("inf")])
            self.assertEqual(asked[1]["buckets"], [1.0, 5.0])
            for buckets in ([float("nan")], [float("-inf"), 1], [float("inf"), float("inf")]):
                with self.assertRaises(TritonModelException):
                    self.make(metrics.HISTOGRAM).Metric(buckets=buckets)

    def test_the_value_of_a_metric_may_be_infinite_or_no_number(self):
        for text in ("Infinity", "-Infinity", "NaN"):
            with mock.patch.object(metrics, "ask", lambda name, arguments: text if name == "metricValue" else 7):
                self.assertEqual(str(self.make().Metric().value()), str(float(text)))

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
