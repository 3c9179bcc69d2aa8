"""Run models without torch: export a model as ONNX graphs, and translate with onnxruntime."""
