#include "label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static uint64_t shares_of(const struct labels *labels, const char *model, const struct label *but)
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
    if (shares_of(labels, model, one) + share_ppm > LABEL_SHARE_FULL)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the labels of model '%s' would share out more than all jobs",
                             model);
    if (!one && !(one = append(labels, model, label)))
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker keeps %u labels, no more", LABELS_MAX);
    one->version = version;
    one->share_ppm = (uint32_t)share_ppm;
    one->owed_ppm = 0;
    return PEN_OK;
}

uint64_t label_version(const struct labels *labels, const char *model, const char *label)
{
    const struct label *one = find(labels, model, label);
    return one ? one->version : 0;
}

static struct model *served(const struct models *models, const struct label *label)
{
    struct model *model = model_find(models, label->model, label->version);
    return model && model->offers_count > 0 ? model : NULL;
}

struct model *label_choose(struct labels *labels, const struct models *models, const char *model)
{
    struct model *stable = NULL, *chosen = NULL;
    for (uint32_t i = 0; i < labels->count; i++) {
        struct label *label = &labels->list[i];
        if (strcmp(label->model, model) != 0)
            continue;
        struct model *own = served(models, label);
        if (own && strcmp(label->label, "stable") == 0)
            stable = own;
        if (!own || label->share_ppm == 0)
            continue;
        label->owed_ppm += label->share_ppm;
        if (!chosen && label->owed_ppm >= LABEL_SHARE_FULL) {
            label->owed_ppm -= LABEL_SHARE_FULL;
            chosen = own;
        }
    }
    if (chosen || stable)
        return chosen ? chosen : stable;
    return model_find(models, model, 0);
}
