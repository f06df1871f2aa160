"""tritonclient.http and http.aio over TLS: `python http_tls_client.py HOST:PORT,FOLDER`, ca.crt, client.crt, client.key there."""

import asyncio
import json
import pathlib
import ssl
import sys
import unittest
import urllib.request

import tritonclient.http as http
import tritonclient.http.aio as aio
from models import simple_inputs

import report

ADDRESS, FOLDER = sys.argv[1].split(",")
CA, CERTIFICATE, KEY = (str(pathlib.Path(FOLDER) / name) for name in ("ca.crt", "client.crt", "client.key"))


class Tls(unittest.TestCase):
    def test_sync(self):
        """TLS: tritonclient.http with a certificate is served"""
        options = {"ca_certs": CA, "certfile": CERTIFICATE, "keyfile": KEY}
        with http.InferenceServerClient(ADDRESS, ssl=True, ssl_options=options) as client:
            self.assertTrue(client.is_server_ready())
            inputs, total, _ = simple_inputs(http)
            self.assertEqual(client.infer("simple", inputs).as_numpy("OUTPUT0").tolist(), total.tolist())

    def test_aio(self):
        """TLS: tritonclient.http.aio with a certificate is served"""

        async def infer():
            context = ssl.create_default_context(cafile=CA)
            context.load_cert_chain(CERTIFICATE, KEY)
            async with aio.InferenceServerClient(ADDRESS, ssl=True, ssl_context=context) as client:
                inputs, total, _ = simple_inputs(http)
                return (await client.infer("simple", inputs)).as_numpy("OUTPUT0").tolist(), total.tolist()

        got, expected = asyncio.run(infer())
        self.assertEqual(got, expected)

    def test_generate(self):
        """TLS: generate and generate_stream answer"""
        context = ssl.create_default_context(cafile=CA)
        context.load_cert_chain(CERTIFICATE, KEY)
        body = json.dumps({"INPUT0": list(range(16)), "INPUT1": [1] * 16}).encode()
        for path, start in (("generate", ""), ("generate_stream", "data: ")):
            request = urllib.request.Request(f"https://{ADDRESS}/v2/models/simple/{path}", body)
            with urllib.request.urlopen(request, context=context) as answer:
                text = answer.read().decode()
            self.assertTrue(text.startswith(start), text)
            self.assertEqual(json.loads(text[len(start) :])["OUTPUT0"], list(range(1, 17)))

    def test_without_certificate(self):
        """TLS: a client without a certificate is not served"""
        context = ssl.create_default_context(cafile=CA)
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"https://{ADDRESS}/v2/health/live", context=context)


report.run()
