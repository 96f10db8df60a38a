/* Operators of com.microsoft and ai.onnx.ml: renamed, or lowered to standard ones. */
#include <string.h>

#include "import/onnx/ml.h"

#define EVER     9999
#define MS       "com.microsoft"
#define ML       "ai.onnx.ml"
#define TRAINING "ai.onnx.preview.training"

const struct op_row rows_microsoft[] = {
    UP_SAME(MS, QLinearAdd, 1, EVER, OP_QLinearAdd),
    UP_SAME(MS, QLinearMul, 1, EVER, OP_QLinearMul),
    UP_SAME(MS, QLinearSigmoid, 1, EVER, OP_QLinearSigmoid),
    UP_SAME(MS, QLinearLeakyRelu, 1, EVER, OP_QLinearLeakyRelu),
    UP_SAME(MS, QLinearConcat, 1, EVER, OP_QLinearConcat),
    UP_SAME(MS, MoE, 1, EVER, OP_MoE),
    UP_SAME(MS, MatMulNBits, 1, EVER, OP_MatMulNBits),
    UP_SAME(MS, Tokenizer, 1, EVER, OP_Tokenizer),
    UP_ROW(ML, ArrayFeatureExtractor, 1, EVER, OP_NONE, up_array_feature_extractor),
    UP_ROW(ML, Binarizer, 1, EVER, OP_NONE, up_binarizer),
    UP_ROW(ML, CastMap, 1, EVER, OP_NONE, up_cast_map),
    UP_ROW(ML, CategoryMapper, 1, EVER, OP_NONE, up_category_mapper),
    UP_ROW(ML, DictVectorizer, 1, EVER, OP_NONE, up_dict_vectorizer),
    UP_ROW(ML, FeatureVectorizer, 1, EVER, OP_NONE, up_feature_vectorizer),
    UP_ROW(ML, Imputer, 1, EVER, OP_NONE, up_imputer),
    UP_ROW(ML, LabelEncoder, 1, EVER, OP_NONE, up_label_encoder),
    UP_ROW(ML, LinearClassifier, 1, EVER, OP_NONE, up_linear_classifier),
    UP_ROW(ML, LinearRegressor, 1, EVER, OP_NONE, up_linear_regressor),
    UP_ROW(ML, Normalizer, 1, EVER, OP_NONE, up_normalizer),
    UP_ROW(ML, OneHotEncoder, 1, EVER, OP_NONE, up_one_hot_encoder),
    UP_ROW(ML, SVMClassifier, 1, EVER, OP_NONE, up_svm_classifier),
    UP_SAME(ML, SVMRegressor, 1, EVER, OP_SVMRegressor),
    UP_ROW(ML, Scaler, 1, EVER, OP_NONE, up_scaler),
    UP_ROW(ML, TreeEnsemble, 1, EVER, OP_NONE, up_tree_ensemble),
    UP_ROW(ML, TreeEnsembleClassifier, 1, EVER, OP_NONE, up_tree_classifier),
    UP_ROW(ML, TreeEnsembleRegressor, 1, EVER, OP_NONE, up_tree_regressor),
    UP_ROW(ML, ZipMap, 1, EVER, OP_NONE, up_zip_map),
    UP_SAME(TRAINING, Adagrad, 1, EVER, OP_Adagrad),
    UP_SAME(TRAINING, Adam, 1, EVER, OP_Adam),
    UP_SAME(TRAINING, Momentum, 1, EVER, OP_Momentum),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
