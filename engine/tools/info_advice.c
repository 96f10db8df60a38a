#include <stddef.h>
#include <string.h>

#include "tools/info_refused.h"

/* The first row that fits: `where` is a part of the operator's name ("" = any). */
static const struct {
    const char *format, *where, *advice;
} rows[] = {
    {"tflite", "custom FlexTensorList",
     "the converter kept TensorFlow's lists: convert without SELECT_TF_OPS and with "
     "_experimental_lower_tensor_list_ops "
     "True, recurrent layers with a fixed batch size (keras.Input(shape, batch_size=1)) or unroll=True"},
    {"tflite", "custom Flex",
     "the converter kept an operator of TensorFlow (SELECT_TF_OPS): write the model so that "
     "TFLITE_BUILTINS alone are enough, with a fixed batch size and standard layers"},
    {"tflite", "custom ",
     "an operator of the application whose meaning is not in the file: leave it out of the "
     "exported model and do its work in the client, or use built-in operators instead"},
    {"tflite", "STABLEHLO_",
     "the converter left StableHLO in the file: convert with a newer converter, which lowers it "
     "to built-in operators"},
    {"tflite", "of complex numbers",
     "take the parts apart before it (tf.math.real, tf.math.imag) and compute with floats"},
    {"tflite", "of integers", "convert without full integer quantisation: float, float16 or dynamic range"},
    {"tflite", "", "convert with a newer converter, or with other layers in its place"},
    {"onnx", "com.microsoft",
     "ONNX Runtime's optimizer wrote it: take the model from before the optimisation, or save it "
     "with a lower optimization level (ORT_ENABLE_BASIC)"},
    {"onnx", "com.ms.internal",
     "ONNX Runtime's optimizer wrote it for one machine: save the optimised model with "
     "ORT_ENABLE_EXTENDED or lower, or take the model from before"},
    {"onnx", "aten::",
     "the exporter of PyTorch had no form for it: export with torch.onnx.export(..., dynamo=True) or a "
     "higher opset_version, and not with ONNX_ATEN_FALLBACK"},
    {"onnx", "ATen(",
     "the exporter of PyTorch had no form for it: export with torch.onnx.export(..., dynamo=True) or a "
     "higher opset_version, and not with ONNX_ATEN_FALLBACK"},
    {"onnx", "prim::", "the exporter of PyTorch had no form for it: export with torch.onnx.export(..., dynamo=True)"},
    {"onnx", "ai.onnx.contrib",
     "an operator of onnxruntime-extensions: export the model without its pre- and "
     "postprocessing, and do that in the client"},
    {"onnx", "torchvision::",
     "the older exporter of PyTorch has no form for it: export with torch.onnx.export(..., dynamo=True, "
     "opset_version=19), or do this step in the client"},
    {"onnx", "_TRT",
     "a plugin of TensorRT: export without it (for detectors without end-to-end suppression of boxes), or with "
     "NonMaxSuppression of ONNX"},
    {"onnx", "TRT::",
     "a plugin of TensorRT: export without it (for detectors without end-to-end suppression of boxes), or with "
     "NonMaxSuppression of ONNX"},
    {"onnx", "mmdeploy",
     "an operator of OpenMMLab's own runtimes: export for plain ONNX Runtime without custom operators, with opset 16 "
     "or higher"},
    {"onnx", "paddle",
     "paddle2onnx left an operator of Paddle: convert with a higher --opset_version, without custom operators"},
    {"onnx", "mxnet",
     "the exporter of MXNet left an operator of its own: export with mx2onnx of MXNet 1.9 and dynamic=False, or leave "
     "that layer out"},
    {"onnx", "training", "a graph for training: export the model in evaluation mode"},
    {"onnx", "::",
     "an operator of an extension, not of ONNX: export without the extension, or with its operators as "
     "functions of the model"},
    {"onnx", "",
     "not an operator of ONNX as this build knows it (engine/OPS.md): a leftover of the exporter, which a "
     "higher opset avoids (tf2onnx --opset 18, opset_version=18), or of a newer opset than that, which a lower one "
     "avoids"},
    {"tfjs", "",
     "convert with a newer tensorflowjs_converter for inference (a SavedModel or a Keras model, "
     "--output_format=tfjs_graph_model), which writes layers as basic operators"},
};

const char *info_advice(const char *format, const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].format, format) == 0 && strstr(op, rows[i].where) != NULL) {
            return rows[i].advice;
        }
    }
    return "convert the model with a newer exporter";
}
