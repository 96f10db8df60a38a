/* Operators of com.microsoft and ai.onnx.ml: renamed, or lowered to standard ones. */
#include <string.h>

#include "import/onnx/reader.h"

#define EVER     9999
#define MS       "com.microsoft"
#define ML       "ai.onnx.ml"
#define TRAINING "ai.onnx.preview.training"

const struct op_row rows_microsoft[] = {
    {MS, "QLinearAdd", 1, EVER, OP_QLinearAdd, NULL},
    {MS, "QLinearMul", 1, EVER, OP_QLinearMul, NULL},
    {MS, "QLinearSigmoid", 1, EVER, OP_QLinearSigmoid, NULL},
    {MS, "QLinearLeakyRelu", 1, EVER, OP_QLinearLeakyRelu, NULL},
    {MS, "QLinearConcat", 1, EVER, OP_QLinearConcat, NULL},
    {MS, "QLinearAveragePool", 1, EVER, OP_QLinearAveragePool, NULL},
    {MS, "QLinearGlobalAveragePool", 1, EVER, OP_QLinearGlobalAveragePool, NULL},
    {MS, "QLinearSoftmax", 1, EVER, OP_QLinearSoftmax, NULL},
    {MS, "QGemm", 1, EVER, OP_QGemm, NULL},
    {MS, "MatMulNBits", 1, EVER, OP_MatMulNBits, NULL},
    {ML, "ArrayFeatureExtractor", 1, EVER, OP_ArrayFeatureExtractor, NULL},
    {ML, "Binarizer", 1, EVER, OP_Binarizer, NULL},
    {ML, "FeatureVectorizer", 1, EVER, OP_FeatureVectorizer, NULL},
    {ML, "Imputer", 1, EVER, OP_Imputer, NULL},
    {ML, "LabelEncoder", 1, EVER, OP_LabelEncoder, NULL},
    {ML, "LinearClassifier", 1, EVER, OP_LinearClassifier, NULL},
    {ML, "LinearRegressor", 1, EVER, OP_LinearRegressor, NULL},
    {ML, "Normalizer", 1, EVER, OP_Normalizer, NULL},
    {ML, "OneHotEncoder", 1, EVER, OP_OneHotEncoder, NULL},
    {ML, "Scaler", 1, EVER, OP_Scaler, NULL},
    {ML, "TreeEnsemble", 1, EVER, OP_TreeEnsemble, NULL},
    {ML, "TreeEnsembleClassifier", 1, EVER, OP_TreeEnsembleClassifier, NULL},
    {ML, "TreeEnsembleRegressor", 1, EVER, OP_TreeEnsembleRegressor, NULL},
    {TRAINING, "Adagrad", 1, EVER, OP_Adagrad, NULL},
    {TRAINING, "Adam", 1, EVER, OP_Adam, NULL},
    {TRAINING, "Momentum", 1, EVER, OP_Momentum, NULL},
    {"", NULL, 0, 0, OP_NONE, NULL},
};
