"""Transformers that another engine computes, on the CPU: OpenVINO or ONNX Runtime, in fp32 or in 8 bits."""

from retrokit.core.registry import Extension

EXTENSION = Extension(
    "graphs",
    "Compute transformers with OpenVINO or ONNX Runtime, in fp32 or in 8 bits.",
    entries={
        "retrokit.encoders": {
            "openvino": "retrokit.extensions.graphs.entries:OPENVINO",
            "onnx": "retrokit.extensions.graphs.entries:ONNX",
        }
    },
)
__getattr__ = EXTENSION.attribute
