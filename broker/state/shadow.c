#include "shadow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "assertion.h"

#define SHARE_FULL 1000000u

static void half_fini(struct shadow_half *half)
{
    shared_message_release(half->answer);
    *half = (struct shadow_half){.answer = NULL};
}

void shadow_end(struct shadow *shadow, struct shadow_pair *pair)
{
    PEN_ASSERT(shadow->pairs_count > 0 && pair < shadow->pairs + shadow->pairs_count,
               "a pair that ends is in the list");
    half_fini(&pair->original);
    half_fini(&pair->copy);
    *pair = shadow->pairs[--shadow->pairs_count];
}

void shadow_fini(struct shadow *shadow)
{
    while (shadow->pairs_count > 0)
        shadow_end(shadow, &shadow->pairs[0]);
}

struct shadow_rule *shadow_rule(struct shadow *shadow, const char *model)
{
    for (uint32_t i = 0; i < shadow->rules_count; i++) {
        if (strcmp(shadow->rules[i].model, model) == 0)
            return &shadow->rules[i];
    }
    return NULL;
}

/* Copies that are under way end for nobody. */
static void pairs_drop(struct shadow *shadow, const struct shadow_rule *rule)
{
    for (uint32_t i = shadow->pairs_count; i-- > 0;) {
        if (shadow->pairs[i].rule == rule)
            shadow_end(shadow, &shadow->pairs[i]);
    }
}

/* A free rule stays in its place, because pairs point to theirs. */
static struct shadow_rule *rule_take(struct shadow *shadow)
{
    struct shadow_rule *rule = shadow_rule(shadow, "");
    if (!rule && shadow->rules_count < SHADOW_RULES_MAX)
        rule = &shadow->rules[shadow->rules_count++];
    return rule;
}

enum pen_status shadow_set(struct shadow *shadow, const char *argument, struct pen_error *reterr)
{
    char model[SHADOW_NAME_BYTES];
    unsigned long long version = 0, back = 0;
    unsigned long share_ppm = 0;
    struct shadow_guard guard = {.label = ""};
    int fields = sscanf(argument, "%255s %llu %lu %64s %llu %u %u %u %u", model, &version, &share_ppm, guard.label,
                        &back, &guard.errors_ppm, &guard.latency_ppm, &guard.disagreement_ppm, &guard.after);
    if ((fields != 3 && fields != 9) || share_ppm > SHARE_FULL || version == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "shadow traffic is set by MODEL VERSION SHARE, the share in millionths of the jobs, and "
                             "LABEL BACK ERRORS LATENCY DISAGREEMENT AFTER where a label is to move back by itself");
    if (fields == 9 && (back == 0 || back == version || guard.after == 0))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a label moves back to another version, from 1, after 1 or more jobs");
    guard.back = back;
    struct shadow_rule *rule = shadow_rule(shadow, model);
    if (rule)
        pairs_drop(shadow, rule);
    if (share_ppm == 0 && !rule)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no jobs of model '%s' are copied", model);
    if (share_ppm == 0) {
        *rule = (struct shadow_rule){.model = ""};
        return PEN_OK;
    }
    if (!rule && !(rule = rule_take(shadow)))
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker copies the jobs of %u models, no more",
                             SHADOW_RULES_MAX);
    *rule = (struct shadow_rule){.version = version, .share_ppm = (uint32_t)share_ppm, .guard = guard};
    snprintf(rule->model, sizeof rule->model, "%s", model);
    return PEN_OK;
}

bool shadow_is_due(struct shadow_rule *rule)
{
    rule->owed_ppm += rule->share_ppm;
    if (rule->owed_ppm < SHARE_FULL)
        return false;
    rule->owed_ppm -= SHARE_FULL;
    return true;
}

struct shadow_pair *shadow_begin(struct shadow *shadow, struct shadow_rule *rule, struct job_id original)
{
    if (shadow->pairs_count == SHADOW_PAIRS_MAX) {
        rule->figures.skipped++;
        return NULL;
    }
    struct shadow_pair *pair = &shadow->pairs[shadow->pairs_count++];
    *pair = (struct shadow_pair){.rule = rule, .original.id = original};
    return pair;
}

static bool half_hear(struct shadow_half *half, struct job_id id, struct shared_message *answer, enum pen_status status,
                      uint64_t took_us)
{
    if (half->ended || !job_id_equal(half->id, id))
        return false;
    half->ended = true;
    half->fine = status == PEN_OK;
    half->took_us = took_us;
    if (answer && half->fine && shared_message_bytes(answer) <= SHADOW_ANSWER_BYTES)
        half->answer = shared_message_retain(answer);
    return true;
}

bool shadow_heard(struct shadow *shadow, struct job_id id, struct shared_message *answer, enum pen_status status,
                  uint64_t took_us)
{
    for (uint32_t i = 0; i < shadow->pairs_count; i++) {
        if (half_hear(&shadow->pairs[i].original, id, answer, status, took_us) ||
            half_hear(&shadow->pairs[i].copy, id, answer, status, took_us))
            return true;
    }
    return false;
}

/* ---- what has come out ---- */

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* Rows with another first class; where there are no classes, answers that are not alike. */
static double disagreement(const struct shadow_figures *f)
{
    return f->rows > 0 ? ratio(f->rows - f->same + f->unlike, f->rows + f->unlike) : ratio(f->unlike, f->compared);
}

static void number_text(double value, char text[32])
{
    snprintf(text, 32, isfinite(value) ? "%.6g" : "null", value);
}

const char *shadow_text(const struct shadow_rule *rule, char *text, size_t bytes)
{
    const struct shadow_figures *f = &rule->figures;
    uint64_t alike = f->compared - f->unlike;
    char largest[32], mean[32], other[32];
    number_text(f->largest, largest);
    number_text(alike > 0 ? f->sum / (double)alike : 0, mean);
    number_text(disagreement(f), other);
    snprintf(text, bytes,
             "{\"version\":%" PRIu64 ",\"share_ppm\":%u,\"copied\":%" PRIu64 ",\"skipped\":%" PRIu64
             ",\"failed\":%" PRIu64 ",\"compared\":%" PRIu64 ",\"unlike\":%" PRIu64 ",\"rows\":%" PRIu64
             ",\"same\":%" PRIu64 ",\"largest_error\":%s,\"mean_error\":%s,\"disagreement\":%s,\"original_us\":%.0f,"
             "\"shadow_us\":%.0f,\"went_back\":%" PRIu64 "}",
             rule->version, rule->share_ppm, f->copied, f->skipped, f->failed, f->compared, f->unlike, f->rows, f->same,
             largest, mean, other, ratio(f->original_us, f->compared), ratio(f->shadow_us, f->compared),
             rule->went_back);
    return text;
}

static bool passes(double value, uint32_t limit_ppm)
{
    return limit_ppm > 0 && value * SHARE_FULL > (double)limit_ppm;
}

const char *shadow_verdict(const struct shadow_rule *rule, uint64_t done, uint64_t failed, char *text, size_t bytes)
{
    const struct shadow_guard *guard = &rule->guard;
    const struct shadow_figures *f = &rule->figures;
    uint64_t bad = failed - guard->failed, ended = bad + done - guard->done;
    double errors = ratio(bad, ended), slower = ratio(f->shadow_us, f->original_us), unlike = disagreement(f);
    bool enough = f->compared >= guard->after;
    if (!guard->label[0])
        return NULL;
    if (ended >= guard->after && passes(errors, guard->errors_ppm))
        snprintf(text, bytes, "%.3g %% of its jobs failed, %.3g %% may", 100 * errors, guard->errors_ppm / 1e4);
    else if (enough && passes(slower, guard->latency_ppm))
        snprintf(text, bytes, "its answers took %.3g times as long as the others', %.3g times is allowed", slower,
                 guard->latency_ppm / 1e6);
    else if (enough && passes(unlike, guard->disagreement_ppm))
        snprintf(text, bytes, "%.3g %% of its answers differ, %.3g %% may", 100 * unlike,
                 guard->disagreement_ppm / 1e4);
    else
        return NULL;
    return text;
}
