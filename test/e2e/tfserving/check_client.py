"""Drives a server with tensorflow-serving-api as its users do: every RPC, every encoding of a TensorProto."""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import wrappers_pb2
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

address, models = sys.argv[1], sys.argv[2]
channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
control = model_service_pb2_grpc.ModelServiceStub(channel)


def spec(message, name, version=None, label=None, signature=""):
    message.name = name
    message.signature_name = signature
    if version is not None:
        message.version.CopyFrom(wrappers_pb2.Int64Value(value=version))
    if label is not None:
        message.version_label = label


def predict(name, inputs, outputs=(), **more):
    request = predict_pb2.PredictRequest()
    spec(request.model_spec, name, **more)
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value))
    request.output_filter.extend(outputs)
    return predictions.Predict(request, timeout=60)


def refused(code, text, act):
    try:
        act()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert text in error.details(), error.details()
    else:
        raise AssertionError("not refused: %s" % text)


INVALID = grpc.StatusCode.INVALID_ARGUMENT
row = np.arange(16, dtype=np.int32).reshape(1, 16)

# Predict, its answer's spec, a version, a choice of outputs.
answer = predict("simple", {"INPUT0": row, "INPUT1": row})
assert (tf.make_ndarray(answer.outputs["OUTPUT0"]) == row + row).all()
assert (answer.model_spec.name, answer.model_spec.version.value) == ("simple", 1)
assert answer.model_spec.signature_name == "serving_default"
assert len(answer.outputs["OUTPUT0"].int_val) == 16 and not answer.outputs["OUTPUT0"].tensor_content
answer = predict("simple", {"INPUT0": row, "INPUT1": -row}, ["OUTPUT1"], version=1, signature="serving_default")
assert list(answer.outputs) == ["OUTPUT1"]
assert (tf.make_ndarray(answer.outputs["OUTPUT1"]) == row + row).all()

# Every type, as raw content and as a typed list, whole and filled from one element.
arrays = {
    "bool": [True, False],
    "int8": [-128, 127],
    "int16": [-32768, 32767],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "uint8": [0, 255],
    "uint16": [0, 65535],
    "uint32": [0, 2**32 - 1],
    "uint64": [0, 2**64 - 1],
    "fp16": [0.5, -2.0],
    "bf16": [0.5, -2.0],
    "fp32": [0.25, float("inf")],
    "fp64": [0.1, -1e300],
}
numpy_types = {"fp16": np.float16, "bf16": tf.bfloat16.as_numpy_dtype, "fp32": np.float32, "fp64": np.float64}
for kind, values in arrays.items():
    array = np.array([values], dtype=numpy_types.get(kind, kind))
    model = "identity_%s" % kind
    whole = tf.make_tensor_proto(array)
    typed = tensor_pb2.TensorProto(dtype=whole.dtype, tensor_shape=whole.tensor_shape)
    field = {"fp16": "half_val", "bf16": "half_val", "fp32": "float_val", "fp64": "double_val", "int64": "int64_val",
             "bool": "bool_val", "uint32": "uint32_val", "uint64": "uint64_val"}.get(kind, "int_val")
    flat = array.reshape(-1)
    getattr(typed, field).extend(flat.view(np.uint16).tolist() if field == "half_val" else flat.tolist())
    content = tensor_pb2.TensorProto(dtype=whole.dtype, tensor_shape=whole.tensor_shape, tensor_content=array.tobytes())
    for proto in (whole, typed, content):
        got = tf.make_ndarray(predict(model, {"INPUT0": proto}).outputs["OUTPUT0"])
        assert got.dtype == array.dtype and (got == array).all(), (kind, got, array)
    one = tensor_pb2.TensorProto(dtype=whole.dtype)
    one.tensor_shape.CopyFrom(tf.TensorShape([1, 5]).as_proto())
    getattr(one, field).append(getattr(typed, field)[0])
    got = tf.make_ndarray(predict(model, {"INPUT0": one}).outputs["OUTPUT0"])
    assert got.shape == (1, 5) and (got == array[0, 0]).all(), (kind, got)
# A tensor that leaves out dimensions of one is answered in its own shape.
one = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[2.0])
got = predict("identity_fp32", {"INPUT0": one}).outputs["OUTPUT0"]
assert list(got.float_val) == [2.0] and not got.tensor_shape.dim, got
texts = np.array([[b"a", b"", b"\xff\x00"]], dtype=object)
assert (tf.make_ndarray(predict("identity_bytes", {"INPUT0": texts}).outputs["OUTPUT0"]) == texts).all()

# A large tensor, in and out.
large = np.arange(3_000_000, dtype=np.float32).reshape(1, -1)
assert (tf.make_ndarray(predict("identity_fp32", {"INPUT0": large}).outputs["OUTPUT0"]) == large).all()
large = np.arange(1_000_000, dtype=np.int64).reshape(1, -1)
typed = tensor_pb2.TensorProto(dtype=types_pb2.DT_INT64, int64_val=large.reshape(-1))
typed.tensor_shape.CopyFrom(tf.TensorShape(large.shape).as_proto())
assert (tf.make_ndarray(predict("identity_int64", {"INPUT0": typed}).outputs["OUTPUT0"]) == large).all()

# What is refused, in TensorFlow Serving's words.
refused(grpc.StatusCode.NOT_FOUND, "Servable not found for request: Latest(nobody)", lambda: predict("nobody", {}))
refused(grpc.StatusCode.NOT_FOUND, "Servable not found for request: Specific(simple, 7)", lambda: predict("simple", {}, version=7))
refused(INVALID, "Unrecognized servable version label: canary", lambda: predict("simple", {}, label="canary"))
refused(INVALID, "ModelSpec has no name specified.", lambda: predict("", {}))
for rpc, empty in (
    (predictions.Predict, predict_pb2.PredictRequest()),
    (predictions.Classify, classification_pb2.ClassificationRequest()),
    (predictions.Regress, regression_pb2.RegressionRequest()),
    (predictions.GetModelMetadata, get_model_metadata_pb2.GetModelMetadataRequest()),
    (control.GetModelStatus, get_model_status_pb2.GetModelStatusRequest()),
):
    refused(INVALID, "Missing ModelSpec", lambda: rpc(empty))
refused(INVALID, "ModelSpec has no name specified.", lambda: predictions.MultiInference(inference_pb2.MultiInferenceRequest()))
refused(grpc.StatusCode.NOT_FOUND, ("Servable not found for request: Latest(" + "n" * 1024)[:1024] + "...TRUNCATED", lambda: predict("n" * 2000, {}))
for version in (0, -5, 2**63 - 1, -(2**63)):
    refused(grpc.StatusCode.NOT_FOUND, "Specific(simple, %d)" % version, lambda: predict("simple", {}, version=version))
refused(grpc.StatusCode.FAILED_PRECONDITION, 'Serving signature key "x" not found.', lambda: predict("simple", {}, signature="x"))
refused(INVALID, "input size does not match signature: 1!=2 len({INPUT0}) != len({INPUT0,INPUT1}). Sent extra: {}. Missing but required: {INPUT1}.",
        lambda: predict("simple", {"INPUT0": row}))
refused(INVALID, "input tensor alias not found in signature: INPUT1. Inputs expected to be in the set {INPUT0,INPUT1}.",
        lambda: predict("simple", {"INPUT0": row, "OTHER": row}))
refused(INVALID, "output tensor alias not found in signature: X Outputs expected to be in the set {OUTPUT0,OUTPUT1}.",
        lambda: predict("simple", {"INPUT0": row, "INPUT1": row}, ["X"]))
refused(INVALID, "duplicate output tensor alias: OUTPUT0",
        lambda: predict("simple", {"INPUT0": row, "INPUT1": row}, ["OUTPUT0", "OUTPUT0"]))
short = tensor_pb2.TensorProto(dtype=types_pb2.DT_INT32, tensor_content=b"1234")
short.tensor_shape.CopyFrom(tf.TensorShape([1, 16]).as_proto())
refused(INVALID, "tensor parsing error: INPUT0", lambda: predict("simple", {"INPUT0": short, "INPUT1": row}))
huge = tensor_pb2.TensorProto(dtype=types_pb2.DT_INT32, int_val=[1])
huge.tensor_shape.CopyFrom(tf.TensorShape([2**40, 2**40]).as_proto())
refused(INVALID, "tensor parsing error: INPUT0", lambda: predict("simple", {"INPUT0": huge, "INPUT1": row}))
refused(INVALID, "", lambda: predict("simple", {"INPUT0": row.astype(np.float32), "INPUT1": row}))

# Classify, Regress, MultiInference: features become inputs, labels name classes.
def example(**features):
    lists = {name: tf.train.Feature(float_list=tf.train.FloatList(value=value)) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=lists))


request = classification_pb2.ClassificationRequest()
spec(request.model_spec, "digits")
request.input.example_list.examples.extend([example(pixels=[0.0] * 64)] * 3)
result = predictions.Classify(request)
assert len(result.result.classifications) == 3
classes = result.result.classifications[0].classes
assert [one.label for one in classes][:2] == ["zero", "one"] and abs(sum(one.score for one in classes) - 1) < 1e-5
request = regression_pb2.RegressionRequest()
spec(request.model_spec, "identity_fp32")
request.input.example_list_with_context.context.CopyFrom(example(INPUT0=[0.5]))
request.input.example_list_with_context.examples.extend([example(), example(INPUT0=[2.5])])
assert [one.value for one in predictions.Regress(request).result.regressions] == [0.5, 2.5]
request.model_spec.signature_name = "other"
refused(INVALID, "No signature was found with the name: other", lambda: predictions.Regress(request))
request = regression_pb2.RegressionRequest()
spec(request.model_spec, "identity_fp32")
refused(INVALID, "Input is empty.", lambda: predictions.Regress(request))
request = inference_pb2.MultiInferenceRequest()
task = request.tasks.add(method_name="tensorflow/serving/regress")
spec(task.model_spec, "identity_fp32")
request.input.example_list.examples.extend([example(INPUT0=[1.5])])
assert predictions.MultiInference(request).results[0].regression_result.regressions[0].value == 1.5
request.tasks.add(method_name="tensorflow/serving/classify").model_spec.name = "identity_fp32"
refused(INVALID, "Duplicate evaluation of signature: serving_default", lambda: predictions.MultiInference(request))
request.tasks[1].model_spec.name = "simple"
refused(INVALID, "All ModelSpecs in a MultiInferenceRequest must access the same model name.", lambda: predictions.MultiInference(request))
request.tasks[0].model_spec.name = "nobody"
refused(grpc.StatusCode.NOT_FOUND, "Latest(nobody)", lambda: predictions.MultiInference(request))

# Metadata and status.
request = get_model_metadata_pb2.GetModelMetadataRequest()
spec(request.model_spec, "simple")
refused(INVALID, "must specify at least one metadata_field", lambda: predictions.GetModelMetadata(request))
request.metadata_field.append("signature_def")
request.metadata_field.append("other")
refused(INVALID, "Metadata field other is not supported", lambda: predictions.GetModelMetadata(request))
request.metadata_field.pop()
metadata = predictions.GetModelMetadata(request)
signatures = get_model_metadata_pb2.SignatureDefMap()
assert metadata.metadata["signature_def"].Unpack(signatures)
default = signatures.signature_def["serving_default"]
assert default.inputs["INPUT0"].dtype == types_pb2.DT_INT32 and default.method_name == "tensorflow/serving/predict"
assert [dim.size for dim in default.inputs["INPUT0"].tensor_shape.dim] == [-1, 16]
request = get_model_status_pb2.GetModelStatusRequest()
spec(request.model_spec, "simple")
status = control.GetModelStatus(request).model_version_status
assert [(one.version, one.state, one.status.error_code) for one in status] == [(1, 30, 0)], status
request.model_spec.version_label = "any"
assert control.GetModelStatus(request).model_version_status == status
request.model_spec.name = "nobody"
refused(grpc.StatusCode.NOT_FOUND, "Could not find any versions of model nobody", lambda: control.GetModelStatus(request))

# Another set of models: a label, two versions, and what is gone.
def reload(*configs):
    request = model_management_pb2.ReloadConfigRequest()
    for config in configs:
        request.config.model_config_list.config.add(**config)
    return control.HandleReloadConfigRequest(request, timeout=60)


first = {"name": "mine", "base_path": models + "/versioned", "version_labels": {"stable": 1}}
first["model_version_policy"] = {"all": {}}
assert reload(first).status.error_code == 0
assert predict("mine", {"X": np.array([[1.0]], np.float32)}, label="stable").model_spec.version.value == 1
assert predict("mine", {"X": np.array([[1.0]], np.float32)}).model_spec.version.value == 2
request = get_model_status_pb2.GetModelStatusRequest()
spec(request.model_spec, "mine")
assert [one.version for one in control.GetModelStatus(request).model_version_status] == [2, 1]
refused(INVALID, "Illegal to list model mine multiple times in config list", lambda: reload(first, first))
refused(INVALID, "Expected model mine to have an absolute path or URI; got base_path()=here", lambda: reload({"name": "mine", "base_path": "here"}))
refused(grpc.StatusCode.UNKNOWN, "1 model(s) did not become available: {{{name: gone} due to error: ", lambda: reload(first, {"name": "gone", "base_path": "/nowhere"}))
assert reload({"name": "other", "base_path": models + "/versioned"}).status.error_code == 0
refused(grpc.StatusCode.NOT_FOUND, "Latest(mine)", lambda: predict("mine", {"X": np.array([[1.0]], np.float32)}))
assert predict("other", {"X": np.array([[1.0]], np.float32)}).model_spec.version.value == 2
refused(INVALID, "Only ModelConfigList", lambda: control.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest()))
print("all is well")
