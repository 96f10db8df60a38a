/* metrics_text_errors.c - how far models' answers are from the reference's, worker by worker, as Prometheus' text. */
#include <math.h>

#include "metrics_lines.h"

#define OFFERS_SHOWN 1024u /* of all workers: two lines each */

static void put_one(const struct snapshot *s, const struct offer_row *offer, const char *name, double value,
                    struct writer *w)
{
    const struct model_row *model = &s->models[offer->model];
    const struct worker_row *worker = &s->workers[offer->worker];
    line_open(w, name, "");
    line_model(w, model->name, model->version);
    writer_label(w, "worker", worker->name);
    writer_format(w, "uuid=\"%016llx\",", (unsigned long long)worker->uuid);
    writer_label(w, "backend", worker->backend);
    writer_label(w, "precision", precision_name(offer->precision));
    writer_label(w, "source", offer->error_source);
    line_close(w);
    if (isfinite(value))
        writer_format(w, "%.6g\n", value);
    else
        writer_text(w, isnan(value) ? "NaN\n" : "+Inf\n");
}

void lines_errors(const struct snapshot *s, struct writer *w)
{
    uint32_t count = s->offers_count < OFFERS_SHOWN ? s->offers_count : OFFERS_SHOWN;
    line_family(
        w, "model_error_max_ratio", "gauge",
        "Largest relative error of the model's answers on that worker, as it was measured against the reference "
        "(+Inf: no number says it).");
    for (uint32_t i = 0; i < count; i++)
        if (s->offers[i].measured)
            put_one(s, &s->offers[i], "model_error_max_ratio", s->offers[i].error, w);
    line_family(w, "model_error_mean_ratio", "gauge", "The same on average over all elements.");
    for (uint32_t i = 0; i < count; i++)
        if (s->offers[i].measured)
            put_one(s, &s->offers[i], "model_error_mean_ratio", s->offers[i].error_mean, w);
}
