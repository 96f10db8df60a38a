/*
 * ml.h - what the upgrades of ai.onnx.ml share: types known while the file is read, labels, lists of attributes in either spelling.
 *
 * Threads: one-at-a-time.
 */
#ifndef ONNX_ML_H
#define ONNX_ML_H

#include "import/onnx/reader.h"

/* The element type of a value as far as its producers tell while the file is read; NONE when they do not. */
enum pen_dtype ml_dtype(const struct graph *g, uint32_t value);
/* x as float: cast unless it is float already. */
uint32_t ml_as_f32(struct call *c, uint32_t x);
uint32_t ml_cast(struct call *c, uint32_t x, enum pen_dtype to);
uint32_t ml_floats(struct call *c, const float *items, uint32_t count, const int64_t *dims, int32_t rank);
/* The classes of a classifier: strings or integers. What index i of `index` is goes to output 0; nothing where that is not wanted. */
uint32_t ml_label_count(struct call *c);
/* The labels of a ZipMap go into the graph's notes: the names of the classes. Those of the first ZipMap count; labels that are no short lines of text are left out. */
void ml_note_labels(struct call *c);
void ml_put_labels(struct call *c, uint32_t index, bool zero_one);
/* Reads the scores of `raw` by the rule (enum score_rule of graph/scores.h): labels to output 0, scores to output 1. Gives the node. */
uint32_t ml_put_classes(struct call *c, uint32_t raw, int64_t rule, uint32_t classes, const float *base,
                        uint32_t base_count, bool zero_one);
/* A list of the file as an attribute of a node: the texts of `texts` under texts_key, or under ints_key the integers of `ints`; `ints` NULL: 0, 1 ... one
 * for each item of `texts`, whatever its type. */
void ml_set_list(struct call *c, uint32_t node, enum attr_key texts_key, enum attr_key ints_key, const char *texts,
                 const char *ints);
/* output 0 = x */
void ml_put(struct call *c, uint32_t x);

/* ml_trees.c */
void up_tree_classifier(struct call *c);
void up_tree_regressor(struct call *c);
void up_tree_ensemble(struct call *c);
/* ml_linear.c */
void up_linear_classifier(struct call *c);
void up_linear_regressor(struct call *c);
void up_svm_classifier(struct call *c);
/* ml_features.c */
void up_scaler(struct call *c);
void up_imputer(struct call *c);
void up_binarizer(struct call *c);
void up_normalizer(struct call *c);
void up_feature_vectorizer(struct call *c);
void up_array_feature_extractor(struct call *c);
void up_one_hot_encoder(struct call *c);
void up_category_mapper(struct call *c);
void up_label_encoder(struct call *c);
/* ml_maps.c */
void up_zip_map(struct call *c);
void up_cast_map(struct call *c);
void up_dict_vectorizer(struct call *c);

#endif
