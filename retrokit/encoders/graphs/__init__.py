"""Transformers that another engine computes, on the CPU: OpenVINO or ONNX Runtime, in fp32 or in 8 bits."""
