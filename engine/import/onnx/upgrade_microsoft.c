/* Operators of com.microsoft and ai.onnx.ml: renamed, or lowered to standard ones. */
#include <string.h>

#include "import/onnx/ml.h"

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
    {MS, "Tokenizer", 1, EVER, OP_Tokenizer, NULL},
    {ML, "ArrayFeatureExtractor", 1, EVER, OP_NONE, up_array_feature_extractor},
    {ML, "Binarizer", 1, EVER, OP_NONE, up_binarizer},
    {ML, "CastMap", 1, EVER, OP_NONE, up_map_values},
    {ML, "CategoryMapper", 1, EVER, OP_NONE, up_category_mapper},
    {ML, "DictVectorizer", 1, EVER, OP_NONE, up_map_values},
    {ML, "FeatureVectorizer", 1, EVER, OP_NONE, up_feature_vectorizer},
    {ML, "Imputer", 1, EVER, OP_NONE, up_imputer},
    {ML, "LabelEncoder", 1, EVER, OP_NONE, up_label_encoder},
    {ML, "LinearClassifier", 1, EVER, OP_NONE, up_linear_classifier},
    {ML, "LinearRegressor", 1, EVER, OP_NONE, up_linear_regressor},
    {ML, "Normalizer", 1, EVER, OP_NONE, up_normalizer},
    {ML, "OneHotEncoder", 1, EVER, OP_NONE, up_one_hot_encoder},
    {ML, "SVMClassifier", 1, EVER, OP_NONE, up_svm_classifier},
    {ML, "SVMRegressor", 1, EVER, OP_SVMRegressor, NULL},
    {ML, "Scaler", 1, EVER, OP_NONE, up_scaler},
    {ML, "TreeEnsemble", 1, EVER, OP_NONE, up_tree_ensemble},
    {ML, "TreeEnsembleClassifier", 1, EVER, OP_NONE, up_tree_classifier},
    {ML, "TreeEnsembleRegressor", 1, EVER, OP_NONE, up_tree_regressor},
    {ML, "ZipMap", 1, EVER, OP_NONE, up_zip_map},
    {TRAINING, "Adagrad", 1, EVER, OP_Adagrad, NULL},
    {TRAINING, "Adam", 1, EVER, OP_Adam, NULL},
    {TRAINING, "Momentum", 1, EVER, OP_Momentum, NULL},
    {"", NULL, 0, 0, OP_NONE, NULL},
};
