#include "label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "model.h"

void labels_fini(struct labels *labels)
{
    for (uint32_t i = 0; i < labels->count; i++)
        free(labels->list[i].model);
    free(labels->list);
    *labels = (struct labels){0};
}

static struct label *find(const struct labels *labels, const char *model, const char *label)
{
    for (uint32_t i = 0; i < labels->count; i++) {
        if (strcmp(labels->list[i].model, model) == 0 && strcmp(labels->list[i].label, label) == 0)
            return &labels->list[i];
    }
    return NULL;
}

static struct label *append(struct labels *labels, const char *model, const char *label)
{
    if (!labels->list)
        labels->list = calloc(LABELS_MAX, sizeof *labels->list);
    char *name = labels->list && labels->count < LABELS_MAX ? strdup(model) : NULL;
    if (!name)
        return NULL;
    struct label *one = &labels->list[labels->count++];
    *one = (struct label){.model = name};
    memcpy(one->label, label, strlen(label) + 1);
    return one;
}

static void drop(struct labels *labels, struct label *label)
{
    free(label->model);
    *label = labels->list[--labels->count];
}

static uint64_t fair_queue_of(const struct labels *labels, const char *model, const struct label *but)
{
    uint64_t ppm = 0;
    for (uint32_t i = 0; i < labels->count; i++) {
        if (&labels->list[i] != but && strcmp(labels->list[i].model, model) == 0)
            ppm += labels->list[i].share_ppm;
    }
    return ppm;
}

enum pen_status label_set(struct labels *labels, const char *argument, struct pen_error *reterr)
{
    char model[256], label[LABEL_BYTES_MAX + 1];
    unsigned long long version;
    unsigned long share_ppm = 0;
    int fields = sscanf(argument, "%255s %64s %llu %lu", model, label, &version, &share_ppm);
    if (fields < 3 || share_ppm > LABEL_SHARE_FULL)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a label is set by MODEL LABEL VERSION [SHARE], the share in millionths of the jobs");
    struct label *one = find(labels, model, label);
    if (version == 0 && !one)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%s' has no label '%s'", model, label);
    if (version == 0) {
        drop(labels, one);
        return PEN_OK;
    }
    if (fair_queue_of(labels, model, one) + share_ppm > LABEL_SHARE_FULL)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the labels of model '%s' would share out more than all jobs",
                             model);
    if (!one && !(one = append(labels, model, label)))
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker keeps %u labels, no more", LABELS_MAX);
    one->version = version;
    one->share_ppm = (uint32_t)share_ppm;
    one->owed_ppm = 0;
    return PEN_OK;
}

uint32_t labels_replace(struct labels *labels, const char *text)
{
    struct labels fresh = {.count = 0};
    char *copy = strdup(text), *rest = copy, *line;
    uint32_t wrong = copy ? 0 : 1;
    while (rest && (line = strsep(&rest, "\n")) != NULL)
        wrong += *line && label_set(&fresh, line, NULL) != PEN_OK;
    for (uint32_t i = 0; i < fresh.count; i++) {
        const struct label *old = find(labels, fresh.list[i].model, fresh.list[i].label);
        fresh.list[i].owed_ppm = old ? old->owed_ppm : 0;
    }
    if (copy) {
        labels_fini(labels);
        *labels = fresh;
    }
    free(copy);
    return wrong;
}

/* ---- those of config.json ---------------------------------------------------------------------------------------------------------- */

void offered_labels_fini(struct offered_labels *labels)
{
    free(labels->list);
    *labels = (struct offered_labels){.count = 0};
}

static bool is_label(const char *text)
{
    size_t length = strlen(text);
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return length > 0 && length <= LABEL_BYTES_MAX && good == length;
}

enum pen_status offered_labels_read(const Penstock__ModelOffer *meta, struct offered_labels *ret_labels,
                                    struct pen_error *reterr)
{
    size_t count = meta->n_version_labels;
    *ret_labels = (struct offered_labels){.count = 0};
    if (count == 0)
        return PEN_OK;
    if (count > LABELS_OFFERED_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a version of model '%s' has %zu labels; %u are allowed",
                             meta->name, count, LABELS_OFFERED_MAX);
    struct offered_label *list = calloc(count, sizeof *list);
    if (!list)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the labels of model '%s'", meta->name);
    for (size_t i = 0; i < count; i++) {
        const Penstock__OfferedLabel *from = meta->version_labels[i];
        if (!is_label(from->label) || from->share_ppm > LABEL_SHARE_FULL) {
            free(list);
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "model '%s' has the label '%.64s' with a share of %u; labels are 1 to 64 of "
                                 "[A-Za-z0-9._-], shares up to %u millionths",
                                 meta->name, from->label, from->share_ppm, LABEL_SHARE_FULL);
        }
        memcpy(list[i].label, from->label, strlen(from->label) + 1);
        list[i].share_ppm = from->share_ppm;
    }
    *ret_labels = (struct offered_labels){.list = list, .count = count};
    return PEN_OK;
}

/* ---- what counts ------------------------------------------------------------------------------------------------------------------- */

/* A version counts when it is offered. When no version is, all workers sleep: then those count that workers may come
   back with. */
static bool counts(const struct models *models, const struct model *model)
{
    return model->offers_count > 0 || (model_asleep(model) && model_find(models, model->name, 0)->offers_count == 0);
}

static struct model *served(const struct models *models, const struct label *label)
{
    struct model *model = model_find(models, label->model, label->version);
    return model && counts(models, model) ? model : NULL;
}

static struct label_choice *choice_find(struct label_choice *choices, size_t count, const char *label)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(choices[i].label, label) == 0)
            return &choices[i];
    }
    return NULL;
}

/* Adds the labels of one version's configs; when several versions have the same label, the highest version keeps it. */
static size_t add_offered(struct model *model, struct label_choice *choices, size_t orders, size_t count)
{
    for (size_t i = 0; i < model->labels.count; i++) {
        struct offered_label *own = &model->labels.list[i];
        struct label_choice *other = choice_find(choices, count, own->label);
        if (other && (other < choices + orders || other->model->version > model->version))
            continue;
        if (!other && count == LABEL_CHOICES_MAX)
            return count;
        *(other ? other : &choices[count++]) = (struct label_choice){
            .label = own->label, .model = model, .share_ppm = own->share_ppm, .owed_ppm = &own->owed_ppm};
    }
    return count;
}

size_t label_choices(const struct labels *labels, const struct models *models, const char *model,
                     struct label_choice ret_choices[LABEL_CHOICES_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < labels->count && count < LABEL_CHOICES_MAX; i++) {
        struct label *label = &labels->list[i];
        struct model *own = strcmp(label->model, model) == 0 ? served(models, label) : NULL;
        if (own)
            ret_choices[count++] = (struct label_choice){
                .label = label->label, .model = own, .share_ppm = label->share_ppm, .owed_ppm = &label->owed_ppm};
    }
    size_t orders = count;
    uint64_t hash = table_hash(&models->by_name, frame_name_hash(model), 0);
    struct table_node *node = table_first(&models->by_name, hash);
    for (; node; node = table_next(&models->by_name, node)) {
        struct model *own = table_entry(node, struct model, by_name);
        if (own->labels.count > 0 && strcmp(own->name, model) == 0 && counts(models, own))
            count = add_offered(own, ret_choices, orders, count);
    }
    return count;
}

uint64_t label_version(const struct labels *labels, const struct models *models, const char *model, const char *label)
{
    struct label_choice choices[LABEL_CHOICES_MAX];
    const struct label_choice *choice = choice_find(choices, label_choices(labels, models, model, choices), label);
    const struct label *order = choice ? NULL : find(labels, model, label);
    return choice ? choice->model->version : order ? order->version : 0;
}

/* A number below LABEL_SHARE_FULL; always the same for the same question to the same model. */
static uint32_t place_of(const struct digest *digest, const char *model)
{
    uint64_t z = frame_name_hash(model);
    for (unsigned i = 0; i < 8; i++)
        z ^= (uint64_t)digest->bytes[i] << (8 * i);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u; /* SplitMix64's mixer (Steele, Lea, Flood 2014) */
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) % LABEL_SHARE_FULL);
}

static struct model *by_digest(const struct label_choice *choices, size_t count, uint32_t place)
{
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        end += choices[i].share_ppm;
        if (place < end)
            return choices[i].model;
    }
    return NULL;
}

/* While shares do not exceed the whole, each is owed less than one job on average. When orders and configs share out
   more, the debt of the last ones would grow without end. */
static struct model *by_turn(const struct label_choice *choices, size_t count)
{
    struct model *chosen = NULL;
    uint64_t most_ppm = count * (uint64_t)LABEL_SHARE_FULL;
    for (size_t i = 0; i < count; i++) {
        uint64_t owed_ppm = *choices[i].owed_ppm + choices[i].share_ppm;
        if (!chosen && owed_ppm >= LABEL_SHARE_FULL) {
            owed_ppm -= LABEL_SHARE_FULL;
            chosen = choices[i].model;
        }
        *choices[i].owed_ppm = owed_ppm < most_ppm ? owed_ppm : most_ppm;
    }
    return chosen;
}

struct model *label_choose(const struct labels *labels, const struct models *models, const char *model,
                           const struct digest *sticky)
{
    struct label_choice choices[LABEL_CHOICES_MAX];
    size_t count = label_choices(labels, models, model, choices);
    struct model *chosen = sticky ? by_digest(choices, count, place_of(sticky, model)) : by_turn(choices, count);
    const struct label_choice *stable = choice_find(choices, count, "stable");
    if (chosen || stable)
        return chosen ? chosen : stable->model;
    return model_find(models, model, 0);
}
