"""What the checks of the gRPC clients share."""

import numpy as np


def tensor(client, name, data_type, array):
    return client.InferInput(name, list(array.shape), data_type).set_data_from_numpy(array)


def simple_inputs(client, rows=1):
    first = np.arange(16 * rows, dtype=np.int32).reshape(rows, 16)
    second = np.full((rows, 16), 3, np.int32)
    inputs = [tensor(client, "INPUT0", "INT32", first), tensor(client, "INPUT1", "INT32", second)]
    return inputs, first + second, first - second


def count(client, number):
    return [tensor(client, "COUNT", "INT32", np.array([number], np.int32))]
