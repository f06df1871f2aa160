"""Counts its requests and the sizes of its inputs, on the server's metrics page."""
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        labels = {"model": args["model_name"], "version": args["model_version"]}
        requests = pb_utils.MetricFamily(
            name="example_requests", description="Requests executed", kind=pb_utils.MetricFamily.COUNTER
        )
        largest = pb_utils.MetricFamily(
            name="example_largest_input", description="Elements of the largest input", kind=pb_utils.MetricFamily.GAUGE
        )
        sizes = pb_utils.MetricFamily(
            name="example_input_elements", description="Elements per input", kind=pb_utils.MetricFamily.HISTOGRAM
        )
        # A series exists as long as its object does, and in Triton as long as its family's, so keep both.
        self.families = [requests, largest, sizes]
        self.requests = requests.Metric(labels=labels)
        self.largest = largest.Metric(labels=labels)
        self.sizes = sizes.Metric(labels=labels, buckets=[1, 10, 100, 1000])

    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            self.requests.increment(1)
            self.sizes.observe(values.size)
            if values.size > self.largest.value():
                self.largest.set(values.size)
            count = np.array([int(self.requests.value())], np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("REQUESTS", count)]))
        return responses
