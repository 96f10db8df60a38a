/*
 * config.h - what config.json says about a model: batching, warm-up, how pixels become the input, what the classes are called.
 *
 * The words are Triton's where it has one. Unknown keys, and values this worker does not honour, are errors: a setting that is silently
 * ignored is worse than none. The schema is in deploy/MODELS.md.
 *
 * Ownership: a config owns its labels and texts. Threads: one-at-a-time while it is read; immutable afterwards.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract.h"
#include "penstock/status.h"
#include "penstock/tensor.h"
#include "ensemble_plan.h"
#include "steps.h"
#include "triton.h"

#define CONFIG_FILE_BYTES_MAX  (4u * 1024u * 1024u)
#define CONFIG_BATCH_MAX       1024u
#define CONFIG_PREFERRED_MAX   16u
#define CONFIG_LEVELS_MAX      255u
#define CONFIG_WARMUPS_MAX     16u
#define CONFIG_WARM_INPUTS_MAX 16u
#define CONFIG_VERSIONS_MAX    32u
#define CONFIG_CHANNELS_MAX    4u
#define CONFIG_LABELS_MAX      32768u
#define CONFIG_LABEL_BYTES_MAX 256u
#define CONFIG_NAME_BYTES_MAX  255u
#define CONFIG_STATES_MAX      16u

enum config_kind { CONFIG_KIND_AUTO, CONFIG_KIND_CPU, CONFIG_KIND_GPU };
enum config_policy { CONFIG_LATEST, CONFIG_ALL, CONFIG_SPECIFIC };

/*
 * How uint8 pixels [batch, height, width, channels] become the network's input: (x - mean) * scale per channel, quantised where the network takes
 * 8-bit integers.
 */
struct config_preprocess {
    bool present;
    char input[CONFIG_NAME_BYTES_MAX + 1]; /* "" = the only input */
    bool nhwc;                             /* layout of the network's input */
    bool bgr;                              /* channel order of the network; the wire is RGB */
    bool invert;                           /* use 255 - x */
    uint32_t channels, height, width;      /* 0 = take it from the model's signature */
    float mean[CONFIG_CHANNELS_MAX],
        scale[CONFIG_CHANNELS_MAX]; /* in the network's channel order; a single value is used for all channels */
    size_t mean_count, scale_count; /* 0 = mean 0, scale 1 */
    bool of_model;                  /* mean and scale are those that the model's file states */
    char *text;                     /* the object as compact JSON: clients that resize images read it */
};

/* How the files of pictures become the network's input: `picture`. What is not declared follows from the model. */
struct config_picture {
    char input[CONFIG_NAME_BYTES_MAX + 1]; /* "" = the only input */
    struct picture_steps *steps;           /* size, channels and tables: pictures_join of the model fills them */
    struct picture_numbers numbers;
    bool dtype_given, layout_given, color_given, normal_given;
    size_t means, stds; /* 0 = mean 0, std 1; 1 = the same for all channels */
    uint32_t channels;  /* color_given: 1 or 3 */
    char *text;         /* the object as compact JSON; NULL: the model takes no pictures */
};

struct config_warm_input {
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint32_t rank;
    int64_t dims[PEN_MAX_RANK]; /* without the batch dimension when the model is batched */
};

struct config_warmup {
    uint32_t batch_size;
    struct config_warm_input *inputs;
    size_t inputs_count;
};

/* A tensor that the worker keeps between the jobs of a sequence: the model's `output` becomes its next `input`. */
struct config_state {
    char input[CONFIG_NAME_BYTES_MAX + 1], output[CONFIG_NAME_BYTES_MAX + 1];
    struct pen_tensor tensor; /* data_type and dims without the batch, as declared; dims_given */
    bool dims_given;
    char file[CONFIG_NAME_BYTES_MAX + 1]; /* file beside config.json: what a sequence begins with; "" = zeros */
    char *initial;                        /* its bytes */
    size_t initial_bytes;
};

struct config_sequence {
    bool present;
    uint64_t idle_us;
    uint32_t max_sequences;
    struct config_state *states; /* [CONFIG_STATES_MAX] */
    size_t states_count;
};

/* Limits for waiting jobs: dynamic_batching.default_queue_policy, or an entry of priority_queue_policy. */
struct config_queue_policy {
    uint32_t level; /* of priority_queue_policy */
    uint32_t max_queue_size;
    uint64_t default_timeout_us;
    bool timeout_delays; /* timeout_action DELAY */
    bool timeout_fixed;  /* allow_timeout_override false */
};

#define CONFIG_VERSION_LABELS_MAX      16u
#define CONFIG_VERSION_LABEL_BYTES_MAX 64u

/* A name for a version. */
struct config_version_label {
    char label[CONFIG_VERSION_LABEL_BYTES_MAX + 1];
    uint64_t version;
    uint32_t share_ppm;
};

#define CONFIG_CALIBRATION_SETS_MAX   16u
#define CONFIG_CALIBRATION_INPUTS_MAX 64u
#define CONFIG_CALIBRATION_BYTES_MAX  (256u * 1024u * 1024u) /* of all files together */

/* A file with one input of one set, and what is in it. */
struct config_calibration_file {
    uint32_t set;
    char input[CONFIG_NAME_BYTES_MAX + 1], file[CONFIG_NAME_BYTES_MAX + 1];
    char *bytes;
    struct pen_tensor tensor; /* a view into `bytes`, without a name */
};

struct config_range {
    char input[CONFIG_NAME_BYTES_MAX + 1];
    double low, high;
};

/* On what the model's error is measured. */
struct config_calibration {
    size_t sets;
    struct config_calibration_file *files;
    size_t files_count;
    struct config_range *ranges; /* without sets: what inputs are drawn from */
    size_t ranges_count;
};

struct config {
    bool present;               /* false: there is no file; all fields below have their defaults */
    bool ensemble;              /* its platform is "ensemble" */
    struct ensemble_plan *plan; /* the steps of an ensemble; NULL = a model with a file of its own */
    const char *platform;       /* format the model must have, as pen_model_format says it; NULL = any. Static. */
    char signature[CONFIG_NAME_BYTES_MAX + 1]; /* entry point of a model file with several; "" = its first */
    bool batch_given;                          /* max_batch_size was stated */
    uint32_t max_batch_size;                   /* 0 = the model has no batch dimension */
    uint32_t preferred[CONFIG_PREFERRED_MAX];
    size_t preferred_count;
    uint64_t max_queue_delay_us;
    uint32_t priority_levels, default_priority_level;
    struct config_queue_policy queue_policy;    /* default_queue_policy */
    struct config_queue_policy *level_policies; /* [CONFIG_LEVELS_MAX], or NULL: priority_queue_policy */
    size_t level_policies_count;
    uint32_t instance_count; /* 0 = not stated */
    enum config_kind instance_kind;
    enum config_policy policy;
    uint32_t policy_latest; /* CONFIG_LATEST: how many */
    uint64_t policy_versions[CONFIG_VERSIONS_MAX];
    size_t policy_count;
    struct config_version_label *version_labels; /* [CONFIG_VERSION_LABELS_MAX], or NULL */
    size_t version_labels_count;
    struct config_warmup warmups[CONFIG_WARMUPS_MAX];
    size_t warmups_count;
    bool cache_enable;
    struct config_preprocess preprocess;
    struct config_picture picture;
    struct config_sequence sequence;
    char *answer;             /* the object "answer" as compact JSON; NULL = none. The room answer compiles it. */
    struct contract contract; /* precision: holds for every answer */
    struct config_calibration calibration;
    char **labels;
    size_t labels_count;
    char labels_file[CONFIG_NAME_BYTES_MAX + 1]; /* as written; read by config_load */
    bool softmax;                                /* labels are ranked by the softmax of the output */
    struct ensemble_plan
        *declared;     /* tensors that input and output list, of a model: its file must agree. NULL = none */
    bool pbtxt;        /* it was read from config.pbtxt */
    bool pbtxt_beside; /* there is a config.pbtxt, too; it is ignored */
    char ignored[TRITON_IGNORED_BYTES]; /* names of its fields that have no meaning here; "" = none */
    uint64_t
        stamp; /* of all that it says, files beside it included, but for version_policy: what does not change a model that serves; 0 = no file */
};

void config_init(struct config *config); /* the defaults */
void config_fini(struct config *config); /* fine for a config that was only initialised */

/* Reads the JSON text. The config must be initialised; after a failure call config_fini. Does not open labels_file. */
enum pen_status config_parse(const char *text, size_t bytes, struct config *config, struct pen_error *reterr);

/* Where the files of a config are: in a model's folder, or in a version's. Links may lead to files below it, or
   below `model`, the model's folder (NULL = `folder` is the model's folder). */
struct config_place {
    const char *folder, *model;
};
/* The same for Triton's form (triton.h); sets `ignored` and `pbtxt`. */
enum pen_status config_parse_pbtxt(const char *text, size_t bytes, struct config *config, struct pen_error *reterr);

/*
 * The same for folder/config.json or, without one, folder/config.pbtxt; also reads the labels file in that folder. When
 * there is no config file, that is no error: defaults, present = false.
 */
enum pen_status config_load(const struct config_place *place, struct config *config, struct pen_error *reterr);

/* One label per line; empty lines at the end do not count. Replaces the config's labels. */
enum pen_status config_labels_parse(const char *text, size_t bytes, struct config *config, struct pen_error *reterr);

#endif
