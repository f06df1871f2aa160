"""NVIDIA's clients with credentials: `python access_client.py 'HTTP GRPC KEY OPERATOR_KEY'`."""

import sys
import unittest

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.grpc.auth import BasicAuth as GrpcBasicAuth
from tritonclient.http.auth import BasicAuth as HttpBasicAuth
from tritonclient.utils import InferenceServerException

import report

HTTP, GRPC, KEY, OPERATOR = sys.argv[1].split(" ")
KEY_ID, SECRET = KEY[4:14], KEY[15:]


def inputs_of(module):
    tensor = module.InferInput("INPUT0", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.zeros([1, 1], np.float32))
    return [tensor]


class Access(unittest.TestCase):
    def outcome(self, call):
        try:
            call()
            return "OK"
        except InferenceServerException as reason:
            return reason.status() or reason.message()

    def test_headers(self):
        """headers= over HTTP and gRPC: Bearer and x-api-key"""
        for module, address in ((http, HTTP), (grpc, GRPC)):
            client = module.InferenceServerClient(address)
            for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
                client.infer("vision-a", inputs_of(module), headers=headers)
            refused = self.outcome(lambda: client.infer("secret", inputs_of(module), headers={"x-api-key": KEY}))
            self.assertIn(refused, ("403", "StatusCode.PERMISSION_DENIED"))
            nobody = self.outcome(lambda: client.infer("vision-a", inputs_of(module)))
            self.assertIn(nobody, ("401", "StatusCode.UNAUTHENTICATED"))
            self.assertTrue(client.is_server_ready())
            client.close()

    def test_basic_auth(self):
        """the BasicAuth plug-in over HTTP and gRPC"""
        for module, address, plugin in ((http, HTTP, HttpBasicAuth), (grpc, GRPC, GrpcBasicAuth)):
            client = module.InferenceServerClient(address)
            client.register_plugin(plugin(KEY_ID, SECRET))
            client.infer("vision-a", inputs_of(module))
            self.assertEqual([entry["name"] for entry in self.index(client)], ["vision-a"])
            client.unregister_plugin()
            client.register_plugin(plugin("me", OPERATOR))
            client.infer("secret", inputs_of(module))
            self.assertEqual({entry["name"] for entry in self.index(client)}, {"vision-a", "secret"})
            client.close()

    def test_stream(self):
        """a stream of gRPC: each request is compared with the rights of its caller"""
        client = grpc.InferenceServerClient(GRPC)
        answers = []
        client.start_stream(lambda result, error: answers.append(error), headers={"authorization": f"Bearer {KEY}"})
        client.async_stream_infer("vision-a", inputs_of(grpc))
        client.async_stream_infer("secret", inputs_of(grpc))
        client.stop_stream()
        self.assertEqual(answers[0], None)
        self.assertIn("may not use 'inference' of model 'secret'", str(answers[1]))
        client.close()

    def index(self, client):
        index = client.get_model_repository_index()
        return index if isinstance(index, list) else [{"name": entry.name} for entry in index.models]


if __name__ == "__main__":
    report.run()
