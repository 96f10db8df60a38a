/*
 * form.h - the forms in which a model's workers offer it: inputs, outputs and batch size. Usually one; two while a model is replaced under its
 * version, worker by worker.
 *
 * A job is judged against all forms on offer and goes only to workers whose form takes it. A form that lost its last worker is remembered for a
 * while: that worker may be on its way back. Which forms take a job is a set, bit n for form n; an empty set stands for any.
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
    uint32_t offers, lanes;      /* that refer to it */
    uint64_t lost_us; /* a worker went with it, and none has come with it since: jobs for it may wait; 0 = no */
};

struct forms {
    struct form rows[FORMS_MAX];
    uint32_t newest; /* told last */
};

void forms_fini(struct forms *forms);

/* The place of that form, made when it is new; takes the signature. FORMS_MAX: there is none left, and the signature stays the caller's. */
uint32_t forms_take(struct forms *forms, struct signature *signature, uint32_t rows_max);
/* An offer joins or leaves. lost_us: it went with its worker at that time; 0 = the worker took it back. */
void forms_join(struct forms *forms, uint32_t form);
void forms_leave(struct forms *forms, uint32_t form, uint64_t lost_us);
/* A lane begins or ends to refer to the forms of the set. */
void forms_refer(struct forms *forms, form_set set);
void forms_unrefer(struct forms *forms, form_set set);
/* Forms that lost their last worker so long ago are not waited for any more. */
void forms_expire(struct forms *forms, uint64_t now_us, uint64_t wait_us);

uint32_t forms_offered(const struct forms *forms); /* how many are on offer */
/* Some form of the set is on offer, or is waited for. An empty set: true. */
bool forms_open(const struct forms *forms, form_set set);

/* Some form is on offer that the set lacks. An empty set lacks none. */
bool forms_beyond(const struct forms *forms, form_set set);

static inline bool form_in(form_set set, uint32_t form)
{
    return set == 0 || (set >> form & 1);
}

/* What a job brings. */
struct form_question {
    const char *model;
    const struct pen_tensor *inputs;
    size_t inputs_count;
    char *const *outputs; /* names that it asks for */
    size_t outputs_count;
};

/*
 * The forms that take the job: those on offer, else those that are waited for; all agree on the rows. The shape is that of the job in all of them: jobs
 * of equal shape may share a batch. None: the newest form's refusal.
 */
enum pen_status forms_check(const struct forms *forms, const struct form_question *question, form_set *ret_set,
                            uint32_t *ret_rows, uint64_t *ret_shape, struct pen_error *reterr);

#endif
