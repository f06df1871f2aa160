"""What a handler returned → responses, with the texts and codes of TorchServe's worker."""
import io
import json
import sys
import traceback

import triton_python_backend_utils as pb_utils


# What most handlers say of an answer.
_plain_head = json.dumps({"status": 200, "phrase": "", "contentType": "", "headers": {}}).encode()


# Of the text of a handler's error: the server tells no more of it, and its end has the status.
_most_error_chars = 4096


class HandlerFailure(Exception):
    def __init__(self, text, status):
        super().__init__(text)
        self.text = text[:_most_error_chars]
        # As TorchServe: a handler that says 413 means that there is no room. What is no status of an error is an error of the handler.
        self.status = {413: 507}.get(status, status if 400 <= status <= 599 else 500)
        client_mistake = 400 <= self.status < 500
        self.code = pb_utils.TritonError.INVALID_ARG if client_mistake else pb_utils.TritonError.INTERNAL


class Answers:
    def __init__(self, context, rows, counts, senders, is_batching):
        self._context = context
        self._rows = rows
        self._counts = counts
        self._senders = senders
        self._is_batching = is_batching

    def run(self, handle, processor):
        context = self._context
        context.request_ids = {index: row.id for index, row in enumerate(self._rows)}
        context.request_processor = [processor(row.headers) for row in self._rows]
        context.cl_socket = self
        try:
            result = handle([row.fields for row in self._rows], context)
        except MemoryError:
            traceback.print_exc()
            raise HandlerFailure("Out of resources", 507) from None
        except BaseException as error:  # a handler that calls sys.exit() fails like any other
            traceback.print_exc()
            code = getattr(error, "error_code", None)
            if type(error).__name__ == "PredictionException" and isinstance(code, int):
                raise HandlerFailure("" if error.message is None else str(error.message), code) from None
            if "CUDA" in str(error):
                raise HandlerFailure("Out of resources", 507) from None
            raise HandlerFailure("Prediction failed", 503) from None
        if not isinstance(result, list):
            raise HandlerFailure("Invalid model predict output", 503)
        if len(result) != len(self._rows):
            raise HandlerFailure("number of batch response mismatched", 503)
        return [encoded(value) for value in result]

    def responses(self, bodies):
        """One response for each request of the batch."""
        responses = []
        at = 0
        for count in self._counts:
            rows = range(at, at + count)
            heads = [self._head(row) for row in rows]
            responses.append(self._response([bodies[row] for row in rows], heads))
            at += count
        return responses

    def _head(self, row):
        context = self._context
        status, phrase = context.get_response_status(row)
        headers = context.get_response_headers(row)
        if not (phrase or headers) and (status or 200) == 200:
            return _plain_head
        headers = dict(headers)
        # TorchServe marks answers in pieces with this header; here the end of the request tells it.
        headers.pop("ts_stream_next", None)
        content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
        if not (phrase or content_type or headers) and (status or 200) == 200:
            return _plain_head
        head = {"status": status or 200, "phrase": phrase or "", "contentType": content_type or "", "headers": headers}
        return json.dumps(head).encode()

    def _response(self, bodies, heads):
        shape = (len(bodies), 1) if self._is_batching else (1,)
        tensors = [("prediction", bodies), ("response", heads)]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor.from_elements(name, shape, values) for name, values in tensors]
        )

    def send_part(self, values):
        """`send_intermediate_predict_response` of a handler: a piece of every answer."""
        if self._senders is None:
            raise RuntimeError(
                "the handler answers in pieces, and the configuration of the model does not say so: "
                "add model_transaction_policy { decoupled: true } to config.pbtxt"
            )
        bodies = [encoded(value) for value in values]
        for sender, response in zip(self._senders, self.responses(bodies)):
            sender.send(response)


def encoded(value):
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        buffer = io.BytesIO()
        torch.save(value, buffer)
        return buffer.getvalue()
    try:
        return _indented(value).encode("utf-8")
    except TypeError:
        traceback.print_exc()
        raise HandlerFailure("Unsupported model output data type.", 503) from None


_scalars = frozenset((str, int, float, bool, type(None)))
_flat = json.JSONEncoder(separators=(",\n  ", ": "))


def _indented(value):
    """`json.dumps(value, indent=2)`, which Python's slow encoder does. The fast one does what has nothing nested."""
    kind = type(value)
    if kind in (list, dict) and value and all(type(item) in _scalars for item in (value.values() if kind is dict else value)):
        text = _flat.encode(value)
        return "%s\n  %s\n%s" % (text[0], text[1:-1], text[-1])
    return json.dumps(value, indent=2)
