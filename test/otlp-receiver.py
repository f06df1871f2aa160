"""An OTLP receiver on OpenTelemetry's own protos: HTTP and gRPC on ports of the system's choice.

Prints one JSON line with the ports, then one for every export that arrived. `--fail` answers 503 to HTTP.
"""
import base64
import json
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

lock = threading.Lock()
is_failing = "--fail" in sys.argv


def tell(value):
    with lock:
        print(json.dumps(value), flush=True)


def parsed(body):
    return as_json(trace_service_pb2.ExportTraceServiceRequest.FromString(body))


def as_json(message):
    """With ids in hexadecimal digits, as OTLP's own JSON has them."""
    export = MessageToDict(message)
    for of_resource in export.get("resourceSpans", []):
        for of_scope in of_resource.get("scopeSpans", []):
            for span in of_scope.get("spans", []):
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = base64.b64decode(span.get(key, "")).hex()
    return export


def told(protocol, export, headers):
    tell({"protocol": protocol, "headers": headers, "export": export})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if is_failing:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            tell({"protocol": "http", "refused": len(body)})
            return
        export = json.loads(body) if "json" in self.headers["Content-Type"] else parsed(body)
        answer = trace_service_pb2.ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        told("http", export, {"path": self.path, "type": self.headers["Content-Type"]})

    def log_message(self, *args):
        pass


class Service(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        told("grpc", as_json(request), dict(context.invocation_metadata()))
        return trace_service_pb2.ExportTraceServiceResponse()


http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
grpc_server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), grpc_server)
grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
grpc_server.start()
tell({"http": http_server.server_address[1], "grpc": grpc_port})
threading.Thread(target=http_server.serve_forever, daemon=True).start()
# The test closes our stdin, or ends itself: either ends us.
sys.stdin.read()
