/*
 * admit.h - may this SUBMIT become a job? Every refusal names the field and what was expected.
 *
 * Checks against what workers offered in their hellos: model, inputs by name, dtype and shape, outputs, backend, precision, tags; and against the
 * broker's caps. Threads: owner. Changes nothing but whose turn it is at the share of a label (label.h).
 */
#ifndef ADMIT_H
#define ADMIT_H

#include "cache_key.h"
#include "fleet.h"
#include "frame.h"
#include "job.pb-c.h"
#include "match.h"
#include "model.h"
#include "penstock/tensor.h"
#include "session.h"
#include "tensor_codec.h"

#define ADMIT_TAGS_BYTES 1024u

struct admit_request {
    struct labels *labels;     /* NULL = none */
    const struct fleet *fleet; /* whose workers may say why they do not serve a model; NULL = none */
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
    struct demand demand; /* tags point into tags[] */
    char tags[ADMIT_TAGS_BYTES];
    uint64_t shape;
    uint32_t rows;
    uint8_t priority;
    bool any_version; /* of the model: another will do when it goes away */
    bool explain;     /* the reply is to say why */
    bool unformed;    /* refused: no form of the model that is offered takes it */
    bool shared;      /* may be answered from the cache, joined with an identical job, and stored; key is filled */
    struct cache_key key;
    uint64_t
        late_us; /* refused for its deadline: when it should have been done, from now; for a quota: when there is room */
};

/* What a job is told whose model nobody will serve again. */
const char *admit_unloaded(const struct fleet *fleet, const struct model *model, char *text, size_t bytes);

/* What a job is told whose form of the model is offered no more, while another one is that does not take it. */
const char *admit_reformed(const struct model *model, char *text, size_t bytes);

/* Its sameness with others is known and wanted: its digest is of the kind that was asked for. Reads env and digest alone. */
bool admit_may_share(const struct admit_request *request);

/*
 * Judges the request. Any status but OK comes with a sentence: NOT_FOUND, UNAVAILABLE, INVALID, UNSUPPORTED, TOO_LARGE. The admission borrows from the request's meta
 * and from the models; its texts are its own.
 */
enum pen_status admit(const struct models *models, const struct admit_request *request, struct admission *ret_admission,
                      struct pen_error *reterr);

#endif
