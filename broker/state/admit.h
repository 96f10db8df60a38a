/*
 * admit.h - may this SUBMIT become a job? Every refusal names the field and what was expected.
 *
 * Checks against what workers offered in their hellos: model, inputs by name, dtype and shape, outputs, backend, precision, tags; and against the
 * broker's caps. Threads: owner. Changes nothing but whose turn it is at the share of a label (label.h).
 */
#ifndef ADMIT_H
#define ADMIT_H

#include <stddef.h>
#include <string.h>

#include "cache_key.h"
#include "fleet.h"
#include "frame.h"
#include "job.pb-c.h"
#include "match.h"
#include "model.h"
#include "penstock/tensor.h"
#include "session.h"
#include "tags.h"
#include "tensor_codec.h"

struct admit_request {
    struct labels *labels;     /* NULL = none */
    const struct fleet *fleet; /* NULL = none; its workers may say why they do not serve a model */
    const struct envelope *env;
    Penstock__JobMeta *meta;
    const struct raw_frame *raws;
    size_t raws_count;
    const struct tenant *tenant;
    enum digest_kind digest;    /* the kind that the broker asked for */
    struct pen_tensor *tensors; /* scratch, FRAME_MAX_TENSORS */
};

struct admission {
    struct model *model;
    struct demand demand; /* its `tags` points into tags[] */
    uint64_t shape;
    uint32_t rows;
    uint8_t priority;
    bool any_version; /* of the model: the job may run on another version when this one goes away */
    bool explain;     /* the reply is to say why */
    bool debug;       /* runs in debug mode */
    bool outputs;     /* the job names the outputs that it wants */
    bool unformed;    /* refused: no offered form of the model takes the job */
    bool shared; /* the job may be answered from the cache, joined with an identical job, and stored; key is filled */
    struct cache_key key;
    uint64_t
        late_us; /* when refused, from now: for its deadline, when it would be done; for a quota, when there is room */
    char tags[TAGS_BYTES]; /* last: admission_begin() */
};

/* As good as zeroed: of the tags only the first byte is. Each job needs one. */
static inline void admission_begin(struct admission *admission)
{
    memset(admission, 0, offsetof(struct admission, tags) + 1);
}

/* The sentence for a job whose model nobody will serve again. */
const char *admit_unloaded(const struct fleet *fleet, const struct model *model, char *text, size_t bytes);

/* The sentence for a job that no offered form of the model takes any more, while a form that took it has gone. */
const char *admit_reformed(const struct model *model, char *text, size_t bytes);

/* True when the job may share its result with identical jobs: its client sent a digest of the kind that the broker
   asked for. Reads env and digest alone. */
bool admit_may_share(const struct admit_request *request);

/*
 * Judges the request. Any status but OK comes with a sentence: NOT_FOUND, UNAVAILABLE, INVALID, UNSUPPORTED, TOO_LARGE. The admission borrows from the request's meta
 * and from the models; its texts are its own.
 */
enum pen_status admit(const struct models *models, const struct admit_request *request, struct admission *ret_admission,
                      struct pen_error *reterr);

#endif
