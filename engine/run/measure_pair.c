#include "run/measure_pair.h"

#include "run/internal.h"

void measure_pair_fini(struct measure_pair *p)
{
    pen_session_free(p->tried);
    pen_session_free(p->session);
    pen_model_free(p->model);
    pen_engine_free(p->engine);
}

enum pen_status measure_pair_init(struct measure_pair *p, struct pen_model *m, struct pen_error *reterr)
{
    struct pen_engine_options options;
    *p = (struct measure_pair){.engine = NULL};
    pen_engine_options_init(&options);
    options.backend = "reference";
    options.budget_bytes = m->engine->options.budget_bytes;
    options.fold_bytes = m->engine->options.fold_bytes;
    options.optimise = m->engine->options.optimise;
    enum pen_status status = pen_engine_new(&options, &p->engine, reterr);
    if (status == PEN_OK) {
        status = pen_model_load_beneath(p->engine, m->path, m->beneath, &p->model, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_new(p->model, &p->session, reterr);
    }
    return status == PEN_OK ? pen_session_new(m, &p->tried, reterr) : status;
}
