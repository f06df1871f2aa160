"""Tensors of a request → what a TorchServe handler gets: fields by name, and headers."""
import json
import uuid

import triton_python_backend_utils as pb_utils


_parse = json.JSONDecoder().decode


class Row:
    __slots__ = ("id", "fields", "headers")

    def __init__(self, id, fields, headers):
        self.id = id
        self.fields = fields
        self.headers = headers


def read_rows(request, decodes):
    """`data` has the bytes of all fields; `request` has JSON about them. Without `request` the bytes are one field, `body`."""
    bodies = pb_utils.get_input_tensor_by_name(request, "data").elements()
    described = pb_utils.get_input_tensor_by_name(request, "request")
    if described is None:
        id = request.request_id() or str(uuid.uuid4())
        return [Row(id, {"body": bytearray(body)}, {}) for body in bodies]
    return [_read_row(body, _parse(str(text, "utf-8")), decodes) for body, text in zip(bodies, described.elements())]


def _read_row(body, described, decodes):
    fields = {}
    headers = {}
    at = 0
    for name, content_type, length in described["fields"]:
        fields[name] = _value(bytearray(body[at : at + length]), content_type, decodes)
        headers[name] = {"content-type": content_type}
        at += length
    headers.update(described["headers"])
    return Row(described["id"], fields, headers)


def _value(value, content_type, decodes):
    """As TorchServe's worker decodes: what cannot be decoded goes on as bytes."""
    if decodes:
        try:
            if content_type == "application/json":
                return _parse(value.decode("utf-8"))
            if content_type.startswith("text"):
                return value.decode("utf-8")
        except (ValueError, RecursionError):
            return value
    return value
