"""Asks model `m` over every way of tritonclient until its input ends, and prints what it saw as one JSON object."""

import json
import queue
import sys
import threading
import time

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

http_url, grpc_url = sys.argv[1:3]
stop = threading.Event()
seen = {"answers": {}, "failures": []}
lock = threading.Lock()


def note(way, number=None, failure=None):
    with lock:
        if failure is not None:
            seen["failures"].append(f"{way}: {failure}")
        else:
            answers = seen["answers"].setdefault(way, {})
            answers[str(number)] = answers.get(str(number), 0) + 1


def inputs_of(client):
    tensor = client.InferInput("X", [1], "INT32")
    tensor.set_data_from_numpy(np.zeros(1, np.int32))
    return [tensor]


def unary(way, module, url):
    client = module.InferenceServerClient(url)
    inputs = inputs_of(module)
    while not stop.is_set():
        try:
            note(way, number=int(client.infer("m", inputs).as_numpy("Y")[0]))
        except Exception as failure:
            note(way, failure=failure)
        time.sleep(0.002)
    client.close()


def stream():
    client = grpcclient.InferenceServerClient(grpc_url)
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    inputs = inputs_of(grpcclient)
    while not stop.is_set():
        client.async_stream_infer("m", inputs)
        result, error = answers.get(timeout=60)
        if error is not None:
            note("stream", failure=error)
        else:
            note("stream", number=int(result.as_numpy("Y")[0]))
        time.sleep(0.002)
    client.stop_stream()
    client.close()


lanes = [
    threading.Thread(target=unary, args=("http", httpclient, http_url)),
    threading.Thread(target=unary, args=("http", httpclient, http_url)),
    threading.Thread(target=unary, args=("grpc", grpcclient, grpc_url)),
    threading.Thread(target=unary, args=("grpc", grpcclient, grpc_url)),
    threading.Thread(target=stream),
]
for lane in lanes:
    lane.start()
print("running", flush=True)
sys.stdin.read()
stop.set()
for lane in lanes:
    lane.join()
print(json.dumps(seen), flush=True)
