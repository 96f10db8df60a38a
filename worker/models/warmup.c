/* warmup.c - runs each shape just often enough for a median. */
#include "warmup.h"

#include "background.h"
#include "logline.h"
#include "words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WARM_RUNS      3u      /* the median of three */
#define WARM_RUNS_STOP 100000u /* us: a run this long is not repeated */

static const struct config_warm_input *entry_input(const struct config_warmup *entry, const char *name)
{
    for (size_t i = 0; entry && i < entry->inputs_count; i++)
        if (strcmp(entry->inputs[i].name, name) == 0)
            return &entry->inputs[i];
    return NULL;
}

/* dims of model_warmup count without the batch dimension where the model has one, as in Triton. */
static enum pen_status entry_apply(const struct config_warm_input *given, uint32_t skip, struct pen_tensor *input,
                                   struct pen_error *reterr)
{
    if (given->rank + skip != input->rank)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "model_warmup gives input '%s' %u %s, the model takes %u",
                             given->name, given->rank, words_plural(given->rank, "dimension", "dimensions"),
                             input->rank - skip);
    for (uint32_t d = 0; d < given->rank; d++) {
        int64_t *dim = &input->dims[d + skip];
        if (*dim >= 0 && *dim != given->dims[d])
            return pen_error_set(reterr, PEN_ERR_SHAPE,
                                 "model_warmup gives dimension %u of input '%s' as %" PRId64
                                 ", the model takes %" PRId64,
                                 d, given->name, given->dims[d], *dim);
        *dim = given->dims[d];
    }
    return PEN_OK;
}

static void pixels_apply(const struct preprocess *pre, struct pen_tensor *input)
{
    input->dims[1] = pre->nhwc ? pre->height : pre->channels;
    input->dims[2] = pre->nhwc ? pre->width : pre->height;
    input->dims[3] = pre->nhwc ? pre->channels : pre->width;
}

static enum pen_status dimension_open(uint32_t d, uint32_t skip, const struct pen_tensor *input,
                                      struct pen_error *reterr)
{
    if (d == 0 && skip == 0)
        return pen_error_set(
            reterr, PEN_ERR_UNSUPPORTED,
            "dimension 0 of input '%s' is open: if it is the batch, say \"max_batch_size\": 8 (or as "
            "many rows as may run together) in config.json; else give the input's dims in model_warmup",
            input->name);
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "dimension %u of input '%s' is open: give its dims%s in model_warmup of config.json", d,
                         input->name, skip ? ", without the batch," : "");
}

enum pen_status warmup_shape(const struct served *served, uint32_t batch, const struct config_warmup *entry,
                             struct warm_shape *ret_shape, struct pen_error *reterr)
{
    uint32_t skip = served->max_batch_size > 0 ? 1 : 0;
    ret_shape->batch = skip ? batch : 0;
    for (size_t i = 0; i < served->inputs_count; i++) {
        struct pen_tensor *input = &ret_shape->inputs[i];
        *input = served->network_inputs[i];
        const struct config_warm_input *given = entry_input(entry, input->name);
        if (skip)
            input->dims[0] = batch;
        if ((int)i == served->pixels_input)
            pixels_apply(&served->preprocess, input);
        enum pen_status status = given ? entry_apply(given, skip, input, reterr) : PEN_OK;
        if (status != PEN_OK)
            return status;
        for (uint32_t d = 0; d < input->rank; d++)
            if (input->dims[d] < 0)
                return dimension_open(d, skip, input, reterr);
    }
    return PEN_OK;
}

static size_t batch_insert(uint32_t *batches, size_t count, uint32_t batch)
{
    size_t at = 0;
    while (at < count && batches[at] < batch)
        at++;
    if (at < count && batches[at] == batch)
        return count;
    memmove(batches + at + 1, batches + at, (count - at) * sizeof *batches);
    batches[at] = batch;
    return count + 1;
}

size_t warmup_batches(const struct served *served, uint32_t ret_batches[BATCH_SHAPE_WARM_MAX])
{
    const struct config *config = &served->config;
    size_t count = 0;
    count = batch_insert(ret_batches, count, 1);
    if (served->max_batch_size == 0)
        return count;
    count = batch_insert(ret_batches, count, served->max_batch_size);
    for (size_t i = 0; i < config->preferred_count; i++)
        count = batch_insert(ret_batches, count, config->preferred[i]);
    for (size_t i = 0; i < config->warmups_count; i++)
        if (config->warmups[i].batch_size > 0)
            count = batch_insert(ret_batches, count, config->warmups[i].batch_size);
    return count;
}

static uint64_t median3(const uint64_t *t, size_t count)
{
    uint64_t low, high;
    if (count < 3)
        return t[count - 1];
    low = t[0] < t[1] ? t[0] : t[1];
    high = t[0] < t[1] ? t[1] : t[0];
    return t[2] < low ? low : t[2] > high ? high : t[2];
}

static uint64_t less(uint64_t us, uint64_t waited_us)
{
    return us > waited_us ? us - waited_us : 1;
}

/* One run, or less where the engine's flag warmup says so: *ret_run_us is 0 then. Times do not include the time in which this thread waited for a processor. ret_cold_us may be NULL. */
static enum pen_status warm_once(struct pen_session *session, const struct served *served,
                                 const struct warm_shape *shape, uint64_t *ret_cold_us, uint64_t *ret_run_us,
                                 struct pen_error *reterr)
{
    uint64_t prepare_us = 0, run_us = 0, before_us = background_waited_us();
    enum pen_status status =
        pen_session_warm(session, shape->inputs, served->inputs_count, &prepare_us, &run_us, reterr);
    uint64_t waited_us = background_waited_us() - before_us;
    if (status == PEN_OK && ret_cold_us)
        *ret_cold_us = less(prepare_us + run_us, waited_us);
    if (status == PEN_OK)
        *ret_run_us = run_us == 0 ? 0 : less(run_us, waited_us);
    return status;
}

/* served->warmed stays true while each shape was executed. */
static enum pen_status shape_warm(struct pen_session *session, struct served *served, const struct warm_shape *shape,
                                  bool measure, struct pen_error *reterr)
{
    uint64_t cold_us = 0, first_us = 0, runs_us[WARM_RUNS] = {0};
    size_t runs = 0;
    enum pen_status status = warm_once(session, served, shape, &cold_us, &first_us, reterr);
    served->warmed &= first_us > 0;
    if (status == PEN_OK && first_us == 0)
        return PEN_OK; /* nothing was run: there are no times to tell */
    while (status == PEN_OK && measure && runs < WARM_RUNS && (runs == 0 || runs_us[runs - 1] < WARM_RUNS_STOP)) {
        status = warm_once(session, served, shape, NULL, &runs_us[runs], reterr);
        runs++;
    }
    if (status == PEN_OK && measure && served->warm_count < BATCH_SHAPE_WARM_MAX)
        served->warm[served->warm_count++] =
            (struct warm_time){.batch = shape->batch,
                               .shape = batch_shape_of(shape->inputs, served->inputs_count, served->max_batch_size > 0),
                               .cold_us = cold_us,
                               .warm_us = median3(runs_us, runs)};
    return status;
}

/* The entry for batch sizes that no other entry names. */
const struct config_warmup *warmup_entry(const struct served *served, uint32_t batch)
{
    const struct config *config = &served->config;
    const struct config_warmup *first = NULL;
    for (size_t i = 0; i < config->warmups_count; i++) {
        if (config->warmups[i].inputs_count == 0)
            continue;
        if (config->warmups[i].batch_size == batch)
            return &config->warmups[i];
        first = first ? first : &config->warmups[i];
    }
    return first;
}

/* Entries that name inputs may repeat a batch size with other dims; each one is warmed up on its own. */
static enum pen_status entries_warm(struct pen_session *session, struct served *served, bool measure,
                                    struct pen_error *reterr)
{
    for (size_t i = 0; i < served->config.warmups_count; i++) {
        const struct config_warmup *entry = &served->config.warmups[i];
        uint32_t batch = entry->batch_size > 0 ? entry->batch_size : 1;
        struct warm_shape shape;
        if (entry->inputs_count == 0 || entry == warmup_entry(served, batch))
            continue;
        enum pen_status status = warmup_shape(served, batch, entry, &shape, reterr);
        if (status == PEN_OK)
            status = shape_warm(session, served, &shape, measure, reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status session_warm(struct pen_session *session, struct served *served, bool measure,
                                    struct pen_error *reterr)
{
    uint32_t batches[BATCH_SHAPE_WARM_MAX];
    struct pen_error open = {0};
    size_t count = warmup_batches(served, batches);
    if (measure)
        served->warm_count = 0;
    served->warmed = count > 0;
    for (size_t i = 0; i < count; i++) {
        struct warm_shape shape;
        enum pen_status status = warmup_shape(served, batches[i], warmup_entry(served, batches[i]), &shape, &open);
        if (status == PEN_ERR_UNSUPPORTED || served->strings) {
            if (measure)
                log_event(LOG_WARN, "model_not_warm", "model=%s version=%" PRIu64 " reason=%s", served->name,
                          served->version, served->strings ? "it takes texts" : open.text);
            served->warmed = false;
            return PEN_OK;
        }
        if (status != PEN_OK)
            return pen_error_set(reterr, status, "%s", open.text);
        status = shape_warm(session, served, &shape, measure, reterr);
        if (status != PEN_OK)
            return status;
    }
    return entries_warm(session, served, measure, reterr);
}

enum pen_status warmup_helped(struct served *served, struct pen_error *reterr)
{
    struct warm_shape shape;
    uint64_t first_us = 0, run_us = 0;
    if (served->config.plan || served->warm_count == 0 || served->warm[0].warm_us == 0)
        return PEN_OK;
    uint32_t batch = served->warm[0].batch;
    enum pen_status status = warmup_shape(served, batch, warmup_entry(served, batch), &shape, reterr);
    if (status == PEN_OK)
        status = warm_once(served->seats[0].session, served, &shape, NULL, &first_us, reterr);
    if (status == PEN_OK)
        status = warm_once(served->seats[0].session, served, &shape, NULL, &run_us, reterr);
    if (status != PEN_OK)
        return status;
    uint64_t alone_us = served->warm[0].warm_us;
    run_us = first_us < run_us ? first_us : run_us; /* the helper threads may be late for the first run */
    for (size_t i = 0; run_us < alone_us && i < served->warm_count; i++)
        served->warm[i].warm_us = (uint64_t)((double)served->warm[i].warm_us * (double)run_us / (double)alone_us);
    return PEN_OK;
}

static enum pen_status seats_make(struct served *served, uint32_t slots, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    served->seats = calloc(slots, sizeof *served->seats);
    if (!served->seats)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the sessions of %u slots", slots);
    for (uint32_t i = 0; status == PEN_OK && i < slots; i++) {
        status = pen_session_new(served->model, &served->seats[i].session, reterr);
        served->seats_count += status == PEN_OK;
    }
    return status;
}

enum pen_status warmup_again(struct served *served, uint32_t slots, struct pen_error *reterr)
{
    enum pen_status status = seats_make(served, slots, reterr);
    served->warmed = status == PEN_OK && served->warm_count > 0;
    served->woken = true;
    return status;
}

enum pen_status warmup_run(struct served *served, uint32_t slots, struct pen_error *reterr)
{
    if (served->config.plan)
        return PEN_OK;                                          /* an ensemble runs in the sessions of its steps */
    enum pen_status status = seats_make(served, slots, reterr); /* all first: each may hold an equal part */
    for (uint32_t i = 0; status == PEN_OK && i < slots; i++)
        status = session_warm(served->seats[i].session, served, i == 0, reterr);
    if (served->warm_count > BATCH_SHAPE_READY_MAX)
        log_event(LOG_WARN, "model_not_warm", "model=%s version=%" PRIu64 " reason=%s", served->name, served->version,
                  "more sizes are declared than the 16 that stay ready: the first ones are prepared again");
    return status;
}
