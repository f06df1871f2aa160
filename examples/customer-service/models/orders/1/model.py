"""Looks orders up in SQLite. The connection is opened once for each instance, and closed when the model is unloaded."""
import os
import re
import sqlite3

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "orders.sqlite")
        # Read only: a wrong path is an error here, and makes no empty database.
        self.database = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        self.metrics = pb_utils.MetricFamily(
            name="orders_connections_opened", description="Connections opened", kind=pb_utils.MetricFamily.COUNTER
        )
        self.opened = self.metrics.Metric(labels={"instance": args["model_instance_name"]})
        self.opened.increment(1)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        answers = [[self.about(row[0].decode("utf-8", "replace")).encode()] for row in texts]
        return pb_utils.InferenceResponse([pb_utils.Tensor("ANSWER", np.array(answers, dtype=object))])

    def about(self, text):
        number = re.search(r"\d{4,9}", text)
        if number is None:
            return "Which order? Please write its number."
        found = self.database.execute("select state from orders where number = ?", (int(number.group()),)).fetchone()
        return "Order %s %s." % (number.group(), "is not known to us" if found is None else found[0])

    def finalize(self):
        self.database.close()
