#include "played.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/shape.h"

extern const struct backend_ops backend_reference;

enum { WINDOW = PLAYED_WINDOW, FLOATS = 64 };

struct plan {
    uint32_t nodes;
};

struct exec {
    struct plan *plan;
    float runs[WINDOW][FLOATS]; /* inputs that were submitted, a ring */
    size_t first, count;
    struct buffer_view in, out;
    const struct buffer_view *bound; /* exec_bind's inputs; NULL = it was not called */
    float last[FLOATS];
};

struct backend_kept {
    float values[FLOATS];
};

struct played played;

static void note(char call)
{
    cr_assert_lt(played.count + 1, sizeof played.calls);
    played.calls[played.count++] = call;
    played.calls[played.count] = '\0';
}

void played_calls_are(const char *calls)
{
    cr_expect_str_eq(played.calls, calls);
    played.count = 0;
    played.calls[0] = '\0';
}

static enum pen_status play_probe(const struct backend_config *config, struct backend_caps *ret_caps)
{
    (void)config;
    *ret_caps = (struct backend_caps){.available = true, .precisions = 1u << PEN_PRECISION_F32};
    return PEN_OK;
}

static enum pen_status play_open(const struct backend_config *config, struct backend **ret_backend,
                                 struct pen_error *reterr)
{
    (void)config;
    (void)reterr;
    *ret_backend = &played.backend;
    return PEN_OK;
}

static void play_close(struct backend *backend)
{
    (void)backend;
}

static bool play_claims(enum op op)
{
    return op == OP_Neg;
}

static bool play_supports(const struct backend *backend, const struct graph *g, const struct node *n,
                          const char **ret_reason)
{
    (void)backend;
    (void)g;
    if (ret_reason != NULL) {
        *ret_reason = "not played";
    }
    return n->op == OP_Neg;
}

static enum pen_status play_plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                                     struct plan **ret_plan, struct pen_error *reterr)
{
    (void)backend;
    (void)g;
    (void)reterr;
    *ret_plan = calloc(1, sizeof **ret_plan);
    (*ret_plan)->nodes = part->node_count;
    played.plans++;
    return PEN_OK;
}

static void play_plan_free(struct plan *plan)
{
    played.plans--;
    free(plan);
}

static uint64_t play_plan_bytes(const struct plan *plan)
{
    (void)plan;
    return 0;
}

static enum pen_status play_exec_new(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                                     struct pen_error *reterr)
{
    (void)env;
    (void)reterr;
    note('n');
    *ret_exec = calloc(1, sizeof **ret_exec);
    (*ret_exec)->plan = plan;
    played.execs++;
    return PEN_OK;
}

static void play_exec_free(struct exec *exec)
{
    played.execs--;
    free(exec);
}

static uint64_t play_exec_bytes(const struct exec *exec)
{
    (void)exec;
    return played.exec_bytes;
}

static enum pen_status play_submit(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                   const struct cancel *cancel, struct pen_error *reterr)
{
    (void)cancel;
    enum pen_status status = played.submit;
    played.submit = PEN_OK;
    note(status == PEN_OK ? 's' : 'S');
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "the device did not take it");
    }
    cr_assert(exec->count < WINDOW && in->bytes <= sizeof exec->runs[0]);
    memcpy(exec->runs[(exec->first + exec->count++) % WINDOW], in->kept != NULL ? in->kept->values : in->data,
           in->bytes);
    exec->in = *in;
    exec->out = *out;
    cr_assert(exec->bound == NULL || (exec->bound == in && exec->count == 1), "it is bound to what it is given");
    return PEN_OK;
}

static enum pen_status play_wait(struct exec *exec, struct pen_error *reterr)
{
    enum pen_status status = played.wait;
    played.wait = PEN_OK;
    note(status == PEN_OK ? 'w' : 'W');
    cr_assert_gt(exec->count, 0u);
    const float *in = exec->runs[exec->first];
    cr_assert(exec->bound == NULL || exec->in.kept != NULL || memcmp(exec->in.data, in, exec->in.bytes) == 0,
              "nobody has written the inputs of a bound exec since its submit");
    exec->first = (exec->first + 1) % WINDOW;
    exec->count--;
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "the device failed");
    }
    for (size_t i = 0; i < FLOATS; i++) {
        exec->last[i] = exec->plan->nodes % 2 != 0 ? -in[i] : in[i];
    }
    exec->last[0] += played.off[0];
    exec->last[1] += played.off[1];
    if (exec->out.data != NULL) {
        memcpy(exec->out.data, exec->last, exec->out.bytes);
    }
    return PEN_OK;
}

static enum pen_status play_bind(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                 struct pen_error *reterr)
{
    (void)reterr;
    cr_assert(exec->bound == NULL && exec->count == 0 && in->data != NULL && out->data != NULL);
    exec->bound = in;
    played.bound++;
    return PEN_OK;
}

static uint32_t play_window(const struct exec *exec)
{
    (void)exec;
    return WINDOW;
}

static bool play_done(struct exec *exec, uint64_t timeout_ns)
{
    (void)exec;
    note('d');
    played.timeout_ns = timeout_ns;
    return !played.slow;
}

static enum pen_status play_keep(struct exec *exec, uint32_t index, struct backend_kept **ret_kept,
                                 struct pen_error *reterr)
{
    (void)reterr;
    note('k');
    cr_expect_eq(index, 0u);
    *ret_kept = calloc(1, sizeof **ret_kept);
    memcpy((*ret_kept)->values, exec->last, sizeof exec->last);
    played.kept++;
    return PEN_OK;
}

static enum pen_status play_read(struct backend_kept *kept, void *data, size_t bytes, struct pen_error *reterr)
{
    (void)reterr;
    note('r');
    memcpy(data, kept->values, bytes);
    return PEN_OK;
}

static void play_free(struct backend_kept *kept)
{
    note('f');
    played.kept--;
    free(kept);
}

static const struct backend_ops device = {.name = "device",
                                          .is_device = true,
                                          .priority = 30,
                                          .probe = play_probe,
                                          .open = play_open,
                                          .close = play_close,
                                          .claims = play_claims,
                                          .supports = play_supports,
                                          .plan_new = play_plan_new,
                                          .plan_free = play_plan_free,
                                          .plan_bytes = play_plan_bytes,
                                          .exec_new = play_exec_new,
                                          .exec_free = play_exec_free,
                                          .exec_bytes = play_exec_bytes,
                                          .exec_bind = play_bind,
                                          .exec_submit = play_submit,
                                          .exec_wait = play_wait,
                                          .exec_window = play_window,
                                          .exec_done = play_done,
                                          .exec_keep = play_keep,
                                          .kept_read = play_read,
                                          .kept_free = play_free};
static const struct backend_ops *const table[] = {&device, &backend_reference};

const struct backend_ops *const *__wrap_backend_table(size_t *ret_count);
const struct backend_ops *__wrap_backend_find(const char *name);

const struct backend_ops *const *__wrap_backend_table(size_t *ret_count)
{
    *ret_count = sizeof table / sizeof *table;
    return table;
}

const struct backend_ops *__wrap_backend_find(const char *name)
{
    return strcmp(name, "device") == 0 ? table[0] : strcmp(name, "reference") == 0 ? table[1] : NULL;
}
