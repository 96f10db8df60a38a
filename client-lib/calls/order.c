/* order.c - models at run time: load, unload, label. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

/* What backs a list of outcomes: the public struct comes first. */
struct outcome_list {
    struct pen_outcome_list list;
    struct meta_arena arena;
    struct pen_outcome outcomes[];
};

static struct pen_outcome_list *outcomes_new(struct ask *ask)
{
    const Penstock__ControlReply *reply = ask->reply;
    struct outcome_list *list = calloc(1, sizeof *list + reply->n_outcomes * sizeof list->outcomes[0]);
    if (!list) {
        return NULL;
    }
    for (size_t i = 0; i < reply->n_outcomes; i++) {
        const Penstock__Outcome *from = reply->outcomes[i];
        list->outcomes[i] = (struct pen_outcome){
            .worker = from->worker,
            .status = from->status < PEN_STATUS_COUNT ? (enum pen_status)from->status : PEN_ERR_INTERNAL,
            .error = from->error,
        };
    }
    list->list.count = reply->n_outcomes;
    list->list.outcomes = list->outcomes;
    ask_arena_take(ask, &list->arena);
    return &list->list;
}

static enum pen_status order(pen_client *client, const char *verb, const char *model, int64_t timeout_us,
                             struct pen_outcome_list **ret_list, struct pen_error *reterr)
{
    struct ask ask;
    if (!model || !*model) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "name the model: NAME or NAME:VERSION.");
    }
    enum pen_status status = ask_run(client, &ask, verb, model, timeout_us, reterr);
    if (ret_list) {
        *ret_list = ask.reply && ask.reply->n_outcomes ? outcomes_new(&ask) : NULL;
    }
    ask_fini(&ask);
    return status;
}

enum pen_status pen_client_model_load(pen_client *client, const char *model, int64_t timeout_us,
                                      struct pen_outcome_list **ret_list, struct pen_error *reterr)
{
    return order(client, "load", model, timeout_us, ret_list, reterr);
}

enum pen_status pen_client_model_unload(pen_client *client, const char *model, int64_t timeout_us,
                                        struct pen_outcome_list **ret_list, struct pen_error *reterr)
{
    return order(client, "unload", model, timeout_us, ret_list, reterr);
}

void pen_outcomes_free(struct pen_outcome_list *list)
{
    struct outcome_list *whole = (struct outcome_list *)list;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole);
    }
}

static bool is_word(const char *text, size_t most)
{
    size_t length = text ? strcspn(text, " \t\n") : 0;
    return length > 0 && length <= most && text[length] == '\0';
}

enum pen_status pen_client_model_label(pen_client *client, const char *model, const char *label, uint64_t version,
                                       double share, int64_t timeout_us, struct pen_error *reterr)
{
    char argument[512];
    if (!is_word(model, 255) || !is_word(label, 64)) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a label and its model are single words of at most 64 and 255 bytes.");
    }
    if (!(share >= 0.0 && share <= 1.0)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the share of a label lies between 0 and 1.");
    }
    snprintf(argument, sizeof argument, "%s %s %llu %lu", model, label, (unsigned long long)version,
             (unsigned long)(share * 1e6 + 0.5));
    return ask_command(client, "label", argument, timeout_us, reterr);
}

static unsigned long millionths(double value)
{
    return (unsigned long)(value * 1e6 + 0.5);
}

enum pen_status pen_client_model_shadow(pen_client *client, const char *model, uint64_t version, double share,
                                        const struct pen_shadow_guard *guard, int64_t timeout_us,
                                        struct pen_error *reterr)
{
    char argument[640];
    if (!is_word(model, 255) || (guard && !is_word(guard->label, 64))) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a label and its model are single words of at most 64 and 255 bytes.");
    }
    bool fits = share >= 0.0 && share <= 1.0;
    if (guard) {
        fits = fits && guard->errors >= 0.0 && guard->errors <= 1.0 && guard->latency >= 0.0 &&
               guard->latency <= 1000.0 && guard->disagreement >= 0.0 && guard->disagreement <= 1.0;
    }
    if (!fits) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "shares lie between 0 and 1, a limit of the latency between 0 and 1000 times.");
    }
    int used =
        snprintf(argument, sizeof argument, "%s %llu %lu", model, (unsigned long long)version, millionths(share));
    if (guard) {
        snprintf(argument + used, sizeof argument - (size_t)used, " %s %llu %lu %lu %lu %u", guard->label,
                 (unsigned long long)guard->back, millionths(guard->errors), millionths(guard->latency),
                 millionths(guard->disagreement), guard->after);
    }
    return ask_command(client, "shadow", argument, timeout_us, reterr);
}
