"""The encoders around encoders, by the engine that computes."""

from retrokit.core.registry import Entry, Param
from retrokit.encoders import CHUNKS

_PARAMS = (
    Param("encoder", required=True, help="encoder whose transformer it computes; options need quotes"),
    Param("dtype", "fp32", choices=("fp32", "int8"), help="type of the weights and activations"),
    *CHUNKS,
)
OPENVINO = Entry(
    "openvino",
    "another encoder, whose transformer OpenVINO computes on the CPU",
    "retrokit.extensions.graphs.encoder:openvino",
    _PARAMS,
    positional="encoder",
    extra="openvino",
    modules=("openvino", "nncf"),
)
ONNX = Entry(
    "onnx",
    "another encoder, whose transformer ONNX Runtime computes on the CPU",
    "retrokit.extensions.graphs.encoder:onnx",
    _PARAMS,
    positional="encoder",
    extra="onnx",
    modules=("onnxruntime", "onnx"),
)
