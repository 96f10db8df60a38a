/*
 * form.h - the forms in which a model's workers offer it: inputs, outputs and batch size. Usually one; two while a
 * model is replaced under its version, worker by worker.
 *
 * A job is judged against all offered forms and goes only to workers whose form takes it. A form that lost its last
 * worker is remembered for a while, because that worker may come back. A set says which forms take a job: bit n is form
 * n; an empty set means any form.
 * Threads: owner.
 */
#ifndef FORM_H
#define FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "signature.h"

#define FORMS_MAX 16u /* of one model at a time */

typedef uint32_t form_set;

struct form {
    struct signature *signature; /* NULL = a free place */
    uint32_t rows_max;           /* of a batch; 0 = no batch dimension */
    uint32_t offers, lanes;      /* how many offers and lanes refer to it */
    uint64_t lost_us;            /* its last worker was lost then and no other has come: jobs for it may wait; 0 = no */
};

struct forms {
    struct form rows[FORMS_MAX];
    uint32_t newest; /* the form that was told last */
    /* What the rows say, kept beside them, because each job asks: */
    form_set offered; /* by some worker */
    form_set waited;  /* by nobody, but the last worker was lost lately */
};

void forms_fini(struct forms *forms);

/* Finds or makes the form and returns its index; takes the signature. FORMS_MAX: there is no room; the signature
   stays the caller's. */
uint32_t forms_take(struct forms *forms, struct signature *signature, uint32_t rows_max);
/* An offer joins or leaves. lost_us: the time when its worker was lost; 0 = the worker withdrew the offer. */
void forms_join(struct forms *forms, uint32_t form);
void forms_leave(struct forms *forms, uint32_t form, uint64_t lost_us);
/* A lane begins or stops to refer to the forms of the set. */
void forms_refer(struct forms *forms, form_set set);
void forms_unrefer(struct forms *forms, form_set set);
/* Forms that lost their last worker too long ago are not waited for any more. */
void forms_expire(struct forms *forms, uint64_t now_us, uint64_t wait_us);

uint32_t forms_offered(const struct forms *forms); /* number of offered forms */
/* True when some form of the set is offered or waited for. An empty set: true. */
bool forms_open(const struct forms *forms, form_set set);

/* True when some offered form is not in the set. False for an empty set. */
bool forms_beyond(const struct forms *forms, form_set set);

static inline bool form_in(form_set set, uint32_t form)
{
    return set == 0 || (set >> form & 1);
}

/* The facts of a job that forms are checked against. */
struct form_question {
    const char *model;
    const struct pen_tensor *inputs;
    size_t inputs_count;
    char *const *outputs; /* names that it asks for */
    size_t outputs_count;
};

/*
 * The forms that take the job: offered forms, else forms that are waited for; all with the same number of rows. The
 * job's shape is the same in all of them; jobs of equal shape may share a batch. When no form takes it: the error of
 * the newest form.
 */
enum pen_status forms_check(const struct forms *forms, const struct form_question *question, form_set *ret_set,
                            uint32_t *ret_rows, uint64_t *ret_shape, struct pen_error *reterr);

#endif
