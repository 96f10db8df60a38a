#include "run/bucket_explain.h"

#include <stdio.h>

#include "graph/explain.h"

/* "1x224x224x3, 1x4", as far as it fits. */
static void shapes_text(const struct bucket *b, char *text, size_t bytes)
{
    size_t used = 0;
    snprintf(text, bytes, "no inputs");
    for (uint32_t i = 0; i < b->program->g->input_count && used < bytes; i++) {
        char shape[128];
        int more = snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "",
                            shape_text(&b->in_shapes[i], shape, sizeof shape));
        used += more > 0 ? (size_t)more : 0;
    }
}

struct teller {
    const struct bucket *b;
    const struct partition *part;
    const char *backend;
};

static void kernel_told(const struct bucket *b, const struct node *n, const char *backend, const char *kernel,
                        const char *why)
{
    char subject[320], choice[240];
    snprintf(subject, sizeof subject, "%.200s (%s)", n->name, op_def(n->op)->name);
    snprintf(choice, sizeof choice, "%s: %s", backend, kernel);
    explain_say(explain_of(b->program->g), PEN_CHOICE_KERNEL, subject, choice, "%s", why);
}

static void step_tell(void *context, uint32_t index, const char *kernel, const char *why)
{
    const struct teller *t = context;
    kernel_told(t->b, &t->b->program->g->nodes[t->part->nodes[index]], t->backend, kernel, why);
}

static void step_explain(const struct bucket *b, const struct bucket_step *step)
{
    const struct placement *p = b->program->placement;
    const struct partition *part = &step->placed->part;
    if (step->exec == NULL) {
        for (uint32_t k = 0; k < part->node_count; k++) {
            const struct node *n = &b->program->g->nodes[part->nodes[k]];
            if (!shape_env_folded(b->env, n)) {
                kernel_told(b, n, "executor", "plain C", "no backend plans it: the reference's kernel, node by node");
            }
        }
        return;
    }
    const struct backend_ops *ops = p->backends[step->placed->backend].ops;
    struct teller t = {b, part, ops->name};
    if (ops->exec_kernels != NULL) {
        ops->exec_kernels(step->exec, step_tell, &t);
    }
}

/* What a plan found out with the first shapes it ran. */
static void notes_explain(const struct bucket *b)
{
    const struct placement *p = b->program->placement;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct placed *placed = &p->steps[s];
        const struct backend_ops *ops = placed->plan != NULL ? p->backends[placed->backend].ops : NULL;
        char note[400] = "";
        if (ops != NULL && ops->plan_note != NULL) {
            ops->plan_note(placed->plan, note, sizeof note);
        }
        if (note[0] != '\0') {
            explain_say(explain_of(b->program->g), PEN_CHOICE_PRECISION, ops->name, "mixed", "for these shapes: %s",
                        note);
        }
    }
}

void bucket_explain(const struct bucket *b, bool made, uint32_t kept)
{
    struct pen_explain *log = explain_of(b->program->g);
    char shapes[400];
    if (log == NULL) {
        return;
    }
    shapes_text(b, shapes, sizeof shapes);
    if (!made) {
        explain_say(log, PEN_CHOICE_BUCKET, "the session", shapes, "ready: a run had these shapes before");
        return;
    }
    explain_say(log, PEN_CHOICE_BUCKET, "the session", shapes,
                "prepared: no ready bucket has these shapes (%u beside it); %s; window of %u", kept,
                b->interpretive ? "shapes stay open even so: node by node" : "all shapes are known: planned",
                b->window);
    notes_explain(b);
    for (uint32_t s = 0; !b->interpretive && s < b->program->placement->step_count; s++) {
        step_explain(b, &b->steps[s]);
    }
}
