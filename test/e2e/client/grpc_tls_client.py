"""tritonclient.grpc over TLS: `python grpc_tls_client.py HOST:PORT,FOLDER` with ca.crt, client.crt and client.key there."""

import asyncio
import pathlib
import sys
import unittest

import grpc
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from grpc_models import simple_inputs

import report

ADDRESS, FOLDER = sys.argv[1].split(",")
FILES = {name: str(pathlib.Path(FOLDER) / name) for name in ("ca.crt", "client.crt", "client.key")}


class Tls(unittest.TestCase):
    def test_mutual(self):
        """TLS: a client with a certificate is served"""
        with triton.InferenceServerClient(
            ADDRESS,
            ssl=True,
            root_certificates=FILES["ca.crt"],
            certificate_chain=FILES["client.crt"],
            private_key=FILES["client.key"],
        ) as client:
            inputs, total, _ = simple_inputs(triton)
            self.assertEqual(client.infer("simple", inputs).as_numpy("OUTPUT0").tolist(), total.tolist())

    def test_aio(self):
        """TLS: and so is an asynchronous one"""

        async def ask():
            async with triton_aio.InferenceServerClient(
                ADDRESS,
                ssl=True,
                root_certificates=FILES["ca.crt"],
                certificate_chain=FILES["client.crt"],
                private_key=FILES["client.key"],
            ) as client:
                inputs, total, _ = simple_inputs(triton_aio)
                result = await client.infer("simple", inputs, compression_algorithm="gzip")
                self.assertEqual(result.as_numpy("OUTPUT0").tolist(), total.tolist())

        asyncio.run(ask())

    def test_without_certificate(self):
        """TLS: a client without a certificate, and one without TLS, are not"""
        with open(FILES["ca.crt"], "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        raw = lambda data: data
        for channel in (grpc.secure_channel(ADDRESS, credentials), grpc.insecure_channel(ADDRESS)):
            with channel, self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary("/inference.GRPCInferenceService/ServerLive", raw, raw)(b"", timeout=10)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


report.run()
