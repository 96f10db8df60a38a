/*
 * config_internal.h - the parts of config.c: one reader for each key of config.json that is an object.
 *
 * A reader is a json_field's function: `target` is the struct config. Threads: one-at-a-time.
 */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include "config.h"
#include "json_reader.h"

typedef enum pen_status config_reader(const cJSON *value, const char *path, void *target, struct pen_error *reterr);

/* config_serving.c */
config_reader config_read_batching, config_read_instances, config_read_policy, config_read_cache;
/* config_versions.c */
config_reader config_read_version_labels;
/* config_input.c */
config_reader config_read_warmups, config_read_input;
/* config_picture.c */
config_reader config_read_picture;
/* config_ensemble.c */
config_reader config_read_ensemble, config_read_inputs, config_read_outputs;
enum pen_status config_check_ensemble(struct config *config, struct pen_error *reterr);
/* config_crop.c: `crop` of a step; its input_map was read before. */
enum pen_status config_crop_read(const cJSON *value, const char *path, struct ensemble_plan *plan,
                                 struct ensemble_plan_step *step, struct pen_error *reterr);
/* TYPE_FP32 and its like. */
enum pen_status config_read_dtype(const cJSON *value, const char *path, enum pen_dtype *ret_dtype,
                                  struct pen_error *reterr);
/* Dims without the batch; -1 is any. */
enum pen_status config_read_dims(const cJSON *value, const char *path, struct pen_tensor *tensor,
                                 struct pen_error *reterr);
/* config_sequence.c */
config_reader config_read_sequence;
void config_states_free(struct config_sequence *sequence);
/* Reads the files with the values that states begin with. */
enum pen_status config_states_load(const struct config_place *place, struct config_sequence *sequence,
                                   struct pen_error *reterr);
enum pen_status config_check_sequence(const struct config *config, struct pen_error *reterr);
/* config_precision.c */
config_reader config_read_precision, config_read_calibration;
void config_calibration_free(struct config_calibration *calibration);
/* Reads the files; their bytes are part of the config's stamp. */
enum pen_status config_calibration_load(const struct config_place *place, struct config *config,
                                        struct pen_error *reterr);
/* config_text.c: gives *ret_text (free it), NUL-terminated */
enum pen_status config_file_read(const struct config_place *place, const char *name, size_t limit, char **ret_text,
                                 size_t *ret_bytes, struct pen_error *reterr);
/* config_output.c */
config_reader config_read_output, config_read_answer;
void config_labels_free(struct config *config);

#define CONFIG_HASH_BASIS 0xcbf29ce484222325u
/* `hash` mixed with these bytes (FNV-1a). */
uint64_t config_text_hash(uint64_t hash, const void *bytes, size_t count);

enum pen_status config_no_memory(struct pen_error *reterr);
/* A text of a name's length. */
enum pen_status config_copy_text(const cJSON *value, const char *path, char *ret_text, struct pen_error *reterr);

#endif
