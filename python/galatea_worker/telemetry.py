"""Libraries that report to their makers are kept from it. For ONNX Runtime the server sets a variable."""
import sys


def switch_telemetry_off():
    # OpenVINO sends an event to Google Analytics with each import, and has no variable against it. Without this module
    # OpenVINO uses a stand-in of its own that does nothing.
    sys.modules.setdefault("openvino_telemetry", None)
