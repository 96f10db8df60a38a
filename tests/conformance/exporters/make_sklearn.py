#!/usr/bin/env python3
"""scikit-learn, XGBoost and LightGBM models through skl2onnx and onnxmltools, with ONNX Runtime's answers.

    make_sklearn.py OUT [SEED]

In a venv: pip install skl2onnx onnxmltools xgboost lightgbm onnxruntime scikit-learn. Every case goes below OUT; skl2onnx.tar.xz and onnxmltools.tar.xz beside this
file get the small ones when no SEED is given. Another SEED makes other data, and so models that nobody has looked at.
"""

import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from skl2onnx import convert_sklearn, update_registered_converter
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from skl2onnx.common.shape_calculator import (
    calculate_linear_classifier_output_shapes,
    calculate_linear_regressor_output_shapes,
)

import sklearn.base
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import make_classification, make_multilabel_classification, make_regression
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor, kernels
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn import cluster, cross_decomposition, decomposition, discriminant_analysis, ensemble, feature_extraction
from sklearn import feature_selection, kernel_approximation, kernel_ridge, linear_model, mixture, naive_bayes
from sklearn import neighbors, neural_network, preprocessing, random_projection, svm, tree

from case import Cases

SMALL = 60000  # bytes of a case that is kept
WIDTH = 8
warnings.filterwarnings("ignore")
onnxruntime.set_default_logger_severity(3)


def answers(model, feeds):
    """Maps become tables: a row per sample, a column per key, in the order of the node's own list of keys."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    out = []
    for value in session.run(None, feeds):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = np.array([[row[k] for k in row] for row in value], dtype=np.float32)
        elif isinstance(value, list):
            raise ValueError("an output is a sequence")
        out.append(value.astype(np.str_).astype(object) if value.dtype.kind in "OU" else value)
    return out


class Maker:
    def __init__(self, root, seed):
        self.skl, self.tools = Cases(root, "skl2onnx"), Cases(root, "onnxmltools")
        self.seed, self.made, self.refused = seed, 0, []
        self.random = np.random.RandomState(seed)

    def keep(self, cases, family, name, convert, feeds):
        try:
            model = convert()
            model = model if isinstance(model, onnx.ModelProto) else model[0]
            data = model.SerializeToString()
            sets = [(list(one.values()), answers(data, one)) for one in feeds]
            cases.onnx(family, name, data, sets)
            self.made += 1
        except Exception as e:  # the exporter or its runtime cannot: that is no case
            self.refused.append("%s/%s: %s" % (family, name, str(e).split("\n")[0][:150]))

    def estimator(self, family, name, est, x, y=None, options=None, types=None, cases=None, feeds=None, fit=None):
        """One fitted estimator on float features (or types); two data sets: several rows, one row."""
        try:
            est = sklearn.base.clone(est)
            if "random_state" in est.get_params():
                est.set_params(random_state=self.seed)
            est.fit(*( [x] if y is None else [x, y]), **(fit or {}))
        except Exception as e:
            self.refused.append("%s/%s: fit: %s" % (family, name, str(e).split("\n")[0][:150]))
            return None
        types = types or [("X", FloatTensorType([None, x.shape[1]]))]
        if feeds is None:
            rows = np.asarray(x)[-17:].astype(np.float32)
            feeds = [{"X": rows}, {"X": rows[:1]}]
        opts = {id(est): options} if options else None

        def convert():
            return convert_sklearn(est, initial_types=types, options=opts, target_opset={"": 21, "ai.onnx.ml": 3})

        self.keep(cases or self.skl, family, name, convert, feeds)
        return est


def data(seed):
    binary = make_classification(200, WIDTH, n_informative=5, random_state=seed)
    three = make_classification(240, WIDTH, n_informative=6, n_classes=3, random_state=seed + 1)
    one = make_regression(200, WIDTH, noise=3.0, random_state=seed + 2)
    two = make_regression(200, WIDTH, n_targets=2, noise=3.0, random_state=seed + 3)
    return [(x.astype(np.float32), y) for x, y in (binary, three, one, two)]


CLASSIFIERS = {
    "trees": {
        "tree": tree.DecisionTreeClassifier(max_depth=5),
        "tree_full": tree.DecisionTreeClassifier(),
        "extra_tree": tree.ExtraTreeClassifier(max_depth=6),
        "forest": ensemble.RandomForestClassifier(12, max_depth=5),
        "extra_trees": ensemble.ExtraTreesClassifier(11, max_depth=4),
        "bagging": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=3), 6),
        "adaboost": ensemble.AdaBoostClassifier(n_estimators=8),
    },
    "boosting": {
        "gradient": ensemble.GradientBoostingClassifier(n_estimators=12, max_depth=3),
        "gradient_exponential": ensemble.GradientBoostingClassifier(n_estimators=8, init="zero"),
        "hist": ensemble.HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=8),
    },
    "linear": {
        "logistic": linear_model.LogisticRegression(max_iter=300),
        "logistic_l1": linear_model.LogisticRegression(penalty="l1", solver="liblinear"),
        "logistic_cv": linear_model.LogisticRegressionCV(max_iter=200, cv=3),
        "ridge": linear_model.RidgeClassifier(),
        "ridge_cv": linear_model.RidgeClassifierCV(),
        "sgd_hinge": linear_model.SGDClassifier(),
        "sgd_log": linear_model.SGDClassifier(loss="log_loss"),
        "sgd_huber": linear_model.SGDClassifier(loss="modified_huber"),
        "perceptron": linear_model.Perceptron(),
        "passive_aggressive": linear_model.PassiveAggressiveClassifier(),
        "linear_svc": svm.LinearSVC(),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
        "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
    },
    "svm": {
        "svc_rbf": svm.SVC(),
        "svc_rbf_prob": svm.SVC(probability=True),
        "svc_linear": svm.SVC(kernel="linear"),
        "svc_poly_prob": svm.SVC(kernel="poly", degree=2, coef0=1.0, probability=True),
        "svc_sigmoid": svm.SVC(kernel="sigmoid", gamma=0.05),
        "nusvc": svm.NuSVC(nu=0.3),
        "nusvc_prob": svm.NuSVC(nu=0.3, probability=True),
        "svc_ovo": svm.SVC(decision_function_shape="ovo"),
    },
    "neighbours": {
        "knn": neighbors.KNeighborsClassifier(3),
        "knn_distance": neighbors.KNeighborsClassifier(5, weights="distance"),
        "knn_manhattan": neighbors.KNeighborsClassifier(4, metric="manhattan"),
        "radius": neighbors.RadiusNeighborsClassifier(30.0),
        "centroid": neighbors.NearestCentroid(),
        "nca_knn": make_pipeline(neighbors.NeighborhoodComponentsAnalysis(3, max_iter=8), neighbors.KNeighborsClassifier(3)),
    },
    "bayes": {
        "gaussian": naive_bayes.GaussianNB(),
        "bernoulli": naive_bayes.BernoulliNB(),
        "multinomial": make_pipeline(preprocessing.MinMaxScaler(), naive_bayes.MultinomialNB()),
        "complement": make_pipeline(preprocessing.MinMaxScaler(), naive_bayes.ComplementNB()),
    },
    "neural": {"mlp": neural_network.MLPClassifier((9, 5), max_iter=60), "mlp_tanh": neural_network.MLPClassifier((7,), activation="tanh", max_iter=40)},
    "gaussian": {"gpc": GaussianProcessClassifier(kernels.RBF(2.0), max_iter_predict=10)},
    "meta": {
        "ovr": OneVsRestClassifier(LogisticRegression(max_iter=200)),
        "ovo": OneVsOneClassifier(LogisticRegression(max_iter=200)),
        "code": OutputCodeClassifier(LogisticRegression(max_iter=200), random_state=3),
        "calibrated": CalibratedClassifierCV(SGDClassifier(), cv=2),
        "calibrated_isotonic": CalibratedClassifierCV(SGDClassifier(), method="isotonic", cv=2),
        "voting": ensemble.VotingClassifier([("a", LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], voting="soft"),
        "voting_hard": ensemble.VotingClassifier([("a", LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))]),
        "stacking": ensemble.StackingClassifier([("a", LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=2),
    },
}

REGRESSORS = {
    "trees": {
        "tree_reg": tree.DecisionTreeRegressor(max_depth=5),
        "extra_tree_reg": tree.ExtraTreeRegressor(max_depth=5),
        "forest_reg": ensemble.RandomForestRegressor(12, max_depth=5),
        "extra_trees_reg": ensemble.ExtraTreesRegressor(9, max_depth=5),
        "bagging_reg": ensemble.BaggingRegressor(tree.DecisionTreeRegressor(max_depth=3), 5),
        "adaboost_reg": ensemble.AdaBoostRegressor(n_estimators=5),
    },
    "boosting": {
        "gradient_reg": ensemble.GradientBoostingRegressor(n_estimators=12, max_depth=3),
        "gradient_huber": ensemble.GradientBoostingRegressor(n_estimators=9, loss="huber"),
        "hist_reg": ensemble.HistGradientBoostingRegressor(max_iter=12, max_leaf_nodes=8),
        "hist_poisson": ensemble.HistGradientBoostingRegressor(max_iter=6, loss="quantile", quantile=0.4),
    },
    "linear": {
        name: getattr(linear_model, cls)()
        for name, cls in (
            ("linear", "LinearRegression"), ("ridge_reg", "Ridge"), ("ridge_reg_cv", "RidgeCV"), ("lasso", "Lasso"), ("lasso_cv", "LassoCV"), ("elastic", "ElasticNet"),
            ("elastic_cv", "ElasticNetCV"), ("lars", "Lars"), ("lars_cv", "LarsCV"), ("lasso_lars", "LassoLars"), ("lasso_lars_ic", "LassoLarsIC"), ("omp", "OrthogonalMatchingPursuit"),
            ("bayes_ridge", "BayesianRidge"), ("ard", "ARDRegression"), ("huber", "HuberRegressor"), ("theil", "TheilSenRegressor"), ("ransac", "RANSACRegressor"), ("sgd_reg", "SGDRegressor"),
            ("pa_reg", "PassiveAggressiveRegressor"), ("quantile", "QuantileRegressor"), ("tweedie", "TweedieRegressor"),
        )
    },
    "svm": {
        "svr_rbf": svm.SVR(), "svr_linear": svm.SVR(kernel="linear"), "svr_poly": svm.SVR(kernel="poly", degree=2), "svr_sigmoid": svm.SVR(kernel="sigmoid", gamma=0.02),
        "nusvr": svm.NuSVR(), "linear_svr": svm.LinearSVR(), "kernel_ridge": kernel_ridge.KernelRidge(),
    },
    "neighbours": {"knn_reg": neighbors.KNeighborsRegressor(3), "knn_reg_distance": neighbors.KNeighborsRegressor(4, weights="distance"), "radius_reg": neighbors.RadiusNeighborsRegressor(30.0)},
    "neural": {"mlp_reg": neural_network.MLPRegressor((8,), max_iter=60)},
    "gaussian": {
        "gpr": GaussianProcessRegressor(kernels.RBF(2.0) + kernels.WhiteKernel(0.5)),
        "gpr_matern": GaussianProcessRegressor(kernels.ConstantKernel(2.0) * kernels.Matern(2.0, nu=1.5), alpha=0.5),
        "gpr_rational": GaussianProcessRegressor(kernels.RationalQuadratic(2.0), alpha=0.5),
        "gpr_sine": GaussianProcessRegressor(kernels.ExpSineSquared(2.0, 3.0), alpha=0.5),
        "gpr_dot": GaussianProcessRegressor(kernels.DotProduct(1.0), alpha=0.5),
    },
    "meta": {
        "voting_reg": ensemble.VotingRegressor([("a", Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))]),
        "stacking_reg": ensemble.StackingRegressor([("a", Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))], cv=2),
        "target": TransformedTargetRegressor(Ridge()),
        "pls": cross_decomposition.PLSRegression(2),
    },
}

TRANSFORMERS = {
    "scaling": {
        "standard": preprocessing.StandardScaler(), "minmax": preprocessing.MinMaxScaler(), "minmax_clip": preprocessing.MinMaxScaler(clip=True), "maxabs": preprocessing.MaxAbsScaler(),
        "robust": preprocessing.RobustScaler(), "normalizer_l2": preprocessing.Normalizer(), "normalizer_l1": preprocessing.Normalizer("l1"), "normalizer_max": preprocessing.Normalizer("max"),
        "binarizer": preprocessing.Binarizer(threshold=0.3), "power": preprocessing.PowerTransformer(), "quantile": preprocessing.QuantileTransformer(n_quantiles=20),
        "bins": preprocessing.KBinsDiscretizer(4, encode="ordinal"), "bins_onehot": preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), "poly": preprocessing.PolynomialFeatures(2),
        "poly_interaction": preprocessing.PolynomialFeatures(3, interaction_only=True), "spline": preprocessing.SplineTransformer(), "log": preprocessing.FunctionTransformer(),
    },
    "decomposition": {
        "pca": decomposition.PCA(3), "pca_whiten": decomposition.PCA(3, whiten=True), "incremental": decomposition.IncrementalPCA(3), "svd": decomposition.TruncatedSVD(3),
        "kernel_pca": decomposition.KernelPCA(3, kernel="rbf"), "ica": decomposition.FastICA(3), "factor": decomposition.FactorAnalysis(2), "nystroem": kernel_approximation.Nystroem(n_components=6),
        "rbf_sampler": kernel_approximation.RBFSampler(n_components=6), "random": random_projection.GaussianRandomProjection(3), "nca": neighbors.NeighborhoodComponentsAnalysis(3, max_iter=8),
        "neighbours": neighbors.KNeighborsTransformer(n_neighbors=3), "nmf": make_pipeline(preprocessing.MinMaxScaler(), decomposition.NMF(2)),
    },
    "clustering": {
        "kmeans": cluster.KMeans(3, n_init=2), "minibatch": cluster.MiniBatchKMeans(3, n_init=2), "bisecting": cluster.BisectingKMeans(3), "mixture": mixture.GaussianMixture(3),
        "mixture_diag": mixture.GaussianMixture(3, covariance_type="diag"), "mixture_tied": mixture.GaussianMixture(2, covariance_type="tied"), "mixture_spherical": mixture.GaussianMixture(2, covariance_type="spherical"),
        "mixture_bayes": mixture.BayesianGaussianMixture(n_components=2),
    },
    "outliers": {
        "isolation": ensemble.IsolationForest(n_estimators=10), "one_class": svm.OneClassSVM(), "one_class_poly": svm.OneClassSVM(kernel="poly", degree=2), "sgd_one_class": linear_model.SGDOneClassSVM(),
        "lof": neighbors.LocalOutlierFactor(5, novelty=True),
    },
    "selection": {
        "variance": feature_selection.VarianceThreshold(0.2), "kbest": feature_selection.SelectKBest(k=3), "percentile": feature_selection.SelectPercentile(percentile=40), "from_model": feature_selection.SelectFromModel(Ridge()),
        "rfe": feature_selection.RFE(Ridge(), n_features_to_select=3), "fdr": feature_selection.SelectFdr(), "fpr": feature_selection.SelectFpr(), "fwe": feature_selection.SelectFwe(),
    },
    "impute": {"mean": SimpleImputer(), "median": SimpleImputer(strategy="median"), "constant": SimpleImputer(strategy="constant", fill_value=-2.5), "knn": KNNImputer(n_neighbors=2)},
}


def numeric(m):
    binary, three, one, two = data(m.seed)
    words = np.array(["low", "middle", "high"])
    for family, group in CLASSIFIERS.items():
        for name, est in group.items():
            for tag, (x, y) in (("2", binary), ("3", three)):
                m.estimator(family, "%s_%s" % (name, tag), est, x, y)
                m.estimator(family, "%s_%s_plain" % (name, tag), est, x, y, {"zipmap": False})
            m.estimator(family, "%s_text" % name, est, three[0], words[three[1]])
            m.estimator(family, "%s_text_columns" % name, est, binary[0], words[binary[1]], {"zipmap": "columns"})
            m.estimator(family, "%s_raw" % name, est, three[0], three[1] + 4, {"zipmap": False, "raw_scores": True})
    for family, group in REGRESSORS.items():
        for name, est in group.items():
            m.estimator(family, name, est, *one)
            m.estimator(family, name + "_multi", est, *two)
    for family, group in TRANSFORMERS.items():
        for name, est in group.items():
            x = binary[0].copy()
            if family == "impute":
                x[self_mask(m, x.shape)] = np.nan
            m.estimator(family, name, est, x, binary[1])
    m.estimator("trees", "path", tree.DecisionTreeClassifier(max_depth=3), *three, {"zipmap": False, "decision_leaf": True, "decision_path": True})
    x, y = make_multilabel_classification(150, WIDTH, n_classes=3, random_state=m.seed)
    x = x.astype(np.float32)
    for name, est in {
        "forest": ensemble.RandomForestClassifier(5, max_depth=4), "tree": tree.DecisionTreeClassifier(max_depth=4), "chain": ClassifierChain(LogisticRegression()), "multi": MultiOutputClassifier(LogisticRegression()),
        "ovr": OneVsRestClassifier(LogisticRegression()), "knn": neighbors.KNeighborsClassifier(3), "mlp": neural_network.MLPClassifier((6,), max_iter=30),
    }.items():
        m.estimator("multilabel", name, est, x, y, {"zipmap": False})
    m.estimator("multilabel", "reg_multi", MultiOutputRegressor(ensemble.GradientBoostingRegressor(n_estimators=4)), *two)
    m.estimator("multilabel", "reg_chain", RegressorChain(Ridge()), *two)
    for name, est in (("tree", tree.DecisionTreeRegressor(max_depth=6)), ("forest", ensemble.RandomForestRegressor(8)), ("gpr", GaussianProcessRegressor(kernels.RBF(2.0), alpha=0.5)), ("ridge", Ridge())):
        rows = one[0][-9:].astype(np.float64)
        m.estimator("double", name, est, *one, types=[("X", DoubleTensorType([None, WIDTH]))], feeds=[{"X": rows}])
    for name, est in (("forest", ensemble.RandomForestClassifier(8, max_depth=4)), ("logistic", LogisticRegression()), ("hist", ensemble.HistGradientBoostingClassifier(max_iter=5)), ("svc", svm.SVC())):
        whole = np.round(three[0] * 3)
        rows = whole[-9:].astype(np.int64)
        m.estimator("integers", name, est, whole, three[1], types=[("X", Int64TensorType([None, WIDTH]))], feeds=[{"X": rows}])
        rows = three[0][-9:].astype(np.float64)
        m.estimator("double", name + "_classes", est, *three, types=[("X", DoubleTensorType([None, WIDTH]))], feeds=[{"X": rows}])
    for name, est in (("hist", ensemble.HistGradientBoostingClassifier(max_iter=9)), ("hist_3", ensemble.HistGradientBoostingClassifier(max_iter=5)), ("pipeline", make_pipeline(SimpleImputer(), ensemble.RandomForestClassifier(6)))):
        x, y = (three if name.endswith("3") else binary)[0].copy(), (three if name.endswith("3") else binary)[1]
        x[self_mask(m, x.shape)] = np.nan
        m.estimator("missing", name, est, x, y)


def self_mask(m, shape):
    return m.random.uniform(size=shape) < 0.1


def tables(m):
    """Columns of texts and numbers through column transformers."""
    n = 150
    colour = m.random.choice(["red", "green", "blue"], n).reshape(-1, 1)
    size = m.random.choice(["S", "M", "L", "XL"], n).reshape(-1, 1)
    numbers = m.random.normal(size=(n, 3)).astype(np.float32)
    years = m.random.randint(0, 6, (n, 1)).astype(np.int64)
    y = ((numbers[:, 0] > 0) ^ (colour[:, 0] == "red")).astype(np.int64)
    texts = np.hstack([colour, size])

    def feeds(**columns):
        return [{k: v[:11] for k, v in columns.items()}, {k: v[:1] for k, v in columns.items()}]

    for name, est in {
        "onehot": preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore"), "onehot_drop": preprocessing.OneHotEncoder(sparse_output=False, drop="first"),
        "onehot_sparse": preprocessing.OneHotEncoder(), "ordinal": preprocessing.OrdinalEncoder(), "ordinal_unknown": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-3),
        "target": preprocessing.TargetEncoder(), "impute_text": SimpleImputer(strategy="most_frequent"),
    }.items():
        m.estimator("encoding", name, est, texts.astype(object), y, types=[("X", StringTensorType([None, 2]))], feeds=feeds(X=texts.astype(object)))
        if name != "impute_text":
            m.estimator("encoding", name + "_int", est, years, y, types=[("X", Int64TensorType([None, 1]))], feeds=feeds(X=years))
    m.estimator("encoding", "label", preprocessing.LabelEncoder(), colour[:, 0], types=[("X", StringTensorType([None]))], feeds=[{"X": colour[:7, 0].astype(object)}])
    m.estimator("encoding", "label_int", preprocessing.LabelEncoder(), years[:, 0], types=[("X", Int64TensorType([None]))], feeds=[{"X": years[:7, 0]}])
    m.estimator("encoding", "label_binarizer", preprocessing.LabelBinarizer(), years[:, 0], types=[("X", Int64TensorType([None]))], feeds=[{"X": years[:7, 0]}])
    m.estimator("encoding", "dict", feature_extraction.FeatureHasher(8, input_type="string"), texts.astype(object), types=[("X", StringTensorType([None, 2]))], feeds=feeds(X=texts.astype(object)))
    heads = {"logistic": LogisticRegression(), "forest": ensemble.RandomForestClassifier(7, max_depth=4), "hist": ensemble.HistGradientBoostingClassifier(max_iter=5), "svc": svm.SVC(probability=True), "knn": neighbors.KNeighborsClassifier(3)}
    import pandas

    frame = pandas.DataFrame({"colour": colour[:, 0], "size": size[:, 0], "a": numbers[:, 0], "b": numbers[:, 1], "years": years[:, 0]})
    types = [("colour", StringTensorType([None, 1])), ("size", StringTensorType([None, 1])), ("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1])), ("years", Int64TensorType([None, 1]))]
    columns = {"colour": colour.astype(object), "size": size.astype(object), "a": numbers[:, :1], "b": numbers[:, 1:2], "years": years}
    for name, head in heads.items():
        pipe = Pipeline([
            ("columns", ColumnTransformer([
                ("num", make_pipeline(SimpleImputer(), preprocessing.StandardScaler()), ["a", "b"]),
                ("cat", preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour", "size"]),
                ("year", preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["years"]),
            ])),
            ("head", head),
        ])
        m.estimator("columns", name, pipe, frame, y, types=types, feeds=feeds(**columns))
    union = make_pipeline(FeatureUnion([("pca", decomposition.PCA(2)), ("scale", preprocessing.StandardScaler())]), LogisticRegression())
    m.estimator("columns", "union", union, numbers, y)


def texts(m):
    lines = np.array(["the quick brown fox", "jumps over the lazy dog", "pack my box with five dozen jugs", "the five boxing wizards jump quickly", "how vexingly quick daft zebras jump", "a quick dog and a lazy fox"] * 4)
    y = np.arange(len(lines)) % 3
    types, feeds = [("X", StringTensorType([None, 1]))], [{"X": lines[:6].reshape(-1, 1).astype(object)}, {"X": lines[:1].reshape(-1, 1).astype(object)}]
    for name, est in {
        "count": CountVectorizer(), "tfidf": TfidfVectorizer(), "tfidf_bigrams": TfidfVectorizer(ngram_range=(1, 2)), "tfidf_sublinear": TfidfVectorizer(sublinear_tf=True, norm="l1"), "count_binary": CountVectorizer(binary=True, stop_words=["the", "a"]),
        "count_chars": CountVectorizer(analyzer="char", ngram_range=(1, 2)), "tfidf_logistic": make_pipeline(TfidfVectorizer(), LogisticRegression()), "tfidf_bayes": make_pipeline(CountVectorizer(), naive_bayes.MultinomialNB()),
        "count_tfidf_sgd": make_pipeline(CountVectorizer(), TfidfTransformer(), SGDClassifier(loss="log_loss")), "tfidf_forest": make_pipeline(TfidfVectorizer(), ensemble.RandomForestClassifier(5)),
    }.items():
        m.estimator("text", name, est, lines, y, types=types, feeds=feeds)


def boosted(m):
    """XGBoost and LightGBM alone, and inside scikit-learn's pipelines."""
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloat
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm as lgb_converter
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost as xgb_converter

    binary, three, one, two = data(m.seed)
    missing = binary[0].copy()
    missing[self_mask(m, missing.shape)] = np.nan
    category = np.hstack([binary[0][:, :4], m.random.randint(0, 7, (len(binary[0]), 2))]).astype(np.float32)
    fast = {"n_estimators": 9, "max_depth": 4}
    jobs = {
        "classifier_2": (xgboost.XGBClassifier(**fast), binary[0], binary[1]), "classifier_3": (xgboost.XGBClassifier(**fast), three[0], three[1]), "missing": (xgboost.XGBClassifier(**fast), missing, binary[1]),
        "regressor": (xgboost.XGBRegressor(**fast), *one), "regressor_logistic": (xgboost.XGBRegressor(objective="reg:logistic", **fast), binary[0], binary[1]), "regressor_poisson": (xgboost.XGBRegressor(objective="count:poisson", **fast), one[0], np.abs(one[1])),
        "regressor_gamma": (xgboost.XGBRegressor(objective="reg:gamma", **fast), one[0], np.abs(one[1]) + 1), "regressor_tweedie": (xgboost.XGBRegressor(objective="reg:tweedie", **fast), one[0], np.abs(one[1])),
        "forest": (xgboost.XGBRFClassifier(**fast), *binary), "forest_reg": (xgboost.XGBRFRegressor(**fast), *one), "base_score": (xgboost.XGBClassifier(base_score=0.3, **fast), *binary), "lossguide": (xgboost.XGBClassifier(grow_policy="lossguide", max_leaves=9, n_estimators=5), *three),
        "multi": (xgboost.XGBRegressor(**fast), *two),
    }
    def feeds(x, name="X"):
        return [{name: x[:13].astype(np.float32)}, {name: x[:1].astype(np.float32)}]

    for name, (est, x, y) in jobs.items():
        try:
            est.fit(x, y)
        except Exception as e:
            m.refused.append("xgboost/%s: fit: %s" % (name, e))
            continue
        for opset in (3, 1):
            tag = name if opset == 3 else name + "_old"
            m.keep(m.tools, "xgboost", tag, lambda e=est, w=x.shape[1], o=opset: convert_xgboost(e, initial_types=[("X", ToolsFloat([None, w]))], target_opset=15 if o == 3 else 9), feeds(x))
    fast = {"n_estimators": 9, "num_leaves": 9, "verbose": -1}
    jobs = {
        "classifier_2": (lightgbm.LGBMClassifier(**fast), binary[0], binary[1], {}), "classifier_3": (lightgbm.LGBMClassifier(**fast), three[0], three[1], {}), "missing": (lightgbm.LGBMClassifier(**fast), missing, binary[1], {}),
        "category": (lightgbm.LGBMClassifier(min_data_per_group=5, **fast), category, binary[1], {"categorical_feature": [4, 5]}), "category_reg": (lightgbm.LGBMRegressor(min_data_per_group=5, cat_smooth=1, **fast), category, one[1], {"categorical_feature": [4, 5]}),
        "regressor": (lightgbm.LGBMRegressor(**fast), *one, {}), "poisson": (lightgbm.LGBMRegressor(objective="poisson", **fast), one[0], np.abs(one[1]), {}), "quantile": (lightgbm.LGBMRegressor(objective="quantile", **fast), *one, {}),
        "forest": (lightgbm.LGBMClassifier(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **fast), *binary, {}), "dart": (lightgbm.LGBMRegressor(boosting_type="dart", **fast), *one, {}), "zero_missing": (lightgbm.LGBMClassifier(zero_as_missing=True, **fast), np.round(binary[0]), binary[1], {}),
        "ova": (lightgbm.LGBMClassifier(objective="multiclassova", **fast), *three, {}), "cross": (lightgbm.LGBMRegressor(objective="cross_entropy", **fast), binary[0], binary[1], {}),
    }
    for name, (est, x, y, fit) in jobs.items():
        try:
            est.fit(x, y, **fit)
        except Exception as e:
            m.refused.append("lightgbm/%s: fit: %s" % (name, e))
            continue
        for tag, extra in (("", {}), ("_plain", {"zipmap": False}), ("_split", {"split": 4})):
            if (tag == "_plain") == name.startswith(("classifier", "missing", "category", "ova")) or tag == "":
                m.keep(m.tools, "lightgbm", name + tag, lambda e=est, w=x.shape[1], k=extra: convert_lightgbm(e, initial_types=[("X", ToolsFloat([None, w]))], target_opset=15, **k), feeds(x))
    update_registered_converter(lightgbm.LGBMClassifier, "LgbmClassifier", calculate_linear_classifier_output_shapes, lgb_converter, options={"nocl": [True, False], "zipmap": [True, False, "columns"]})
    update_registered_converter(lightgbm.LGBMRegressor, "LgbmRegressor", calculate_linear_regressor_output_shapes, lgb_converter, options={"split": None})
    update_registered_converter(xgboost.XGBClassifier, "XgbClassifier", calculate_linear_classifier_output_shapes, xgb_converter, options={"nocl": [True, False], "zipmap": [True, False, "columns"]})
    update_registered_converter(xgboost.XGBRegressor, "XgbRegressor", calculate_linear_regressor_output_shapes, xgb_converter)
    for name, est in {"lgbm": lightgbm.LGBMClassifier(**fast), "xgb": xgboost.XGBClassifier(n_estimators=6, max_depth=3)}.items():
        m.estimator("pipelines", name, make_pipeline(preprocessing.StandardScaler(), est), *three, cases=m.tools)
        m.estimator("pipelines", name + "_impute", make_pipeline(SimpleImputer(), est), missing, binary[1], cases=m.tools)
    for name, est in {"lgbm_reg": lightgbm.LGBMRegressor(**fast), "xgb_reg": xgboost.XGBRegressor(n_estimators=6, max_depth=3)}.items():
        m.estimator("pipelines", name, make_pipeline(preprocessing.StandardScaler(), est), *one, cases=m.tools)


def small(seen):
    def keep(family, name, size):
        return size <= SMALL

    return keep


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    m = Maker(sys.argv[1], seed)
    for part in (numeric, tables, texts, boosted):
        part(m)
        print("%s: %d cases so far" % (part.__name__, m.made), flush=True)
    for line in m.refused:
        print("no case: " + line)
    if len(sys.argv) == 2:
        here = os.path.dirname(os.path.abspath(__file__))
        print("kept: %d" % (m.skl.archive(here, small(set())) + m.tools.archive(here, small(set()))))
    print("%d cases, %d that the exporter or its runtime cannot do" % (m.made, len(m.refused)))


if __name__ == "__main__":
    main()
