#include "form.h"

#include "assertion.h"

_Static_assert(FORMS_MAX < 8 * sizeof(form_set), "a set has a bit for each form");

void forms_fini(struct forms *forms)
{
    for (uint32_t i = 0; i < FORMS_MAX; i++)
        signature_release(forms->rows[i].signature);
}

/* The form of the lowest bit; the caller clears it with set &= set - 1. */
static uint32_t first_of(form_set set)
{
    return (uint32_t)__builtin_ctz(set);
}

/* Puts what a row says into the sets. */
static void note(struct forms *forms, uint32_t i)
{
    const struct form *form = &forms->rows[i];
    form_set bit = (form_set)1 << i;
    forms->offered = form->offers > 0 ? forms->offered | bit : forms->offered & ~bit;
    forms->waited = form->offers == 0 && form->lost_us ? forms->waited | bit : forms->waited & ~bit;
}

static uint32_t find(const struct forms *forms, const struct signature *signature, uint32_t rows_max)
{
    uint32_t i = 0;
    while (i < FORMS_MAX && !(forms->rows[i].signature && forms->rows[i].rows_max == rows_max &&
                              signature_equal(forms->rows[i].signature, signature)))
        i++;
    return i;
}

/* A free place, else that of a form that nothing refers to; of the forms that are waited for, the one that was lost
   longest ago. */
static uint32_t find_place(const struct forms *forms)
{
    uint32_t best = FORMS_MAX;
    for (uint32_t i = 0; i < FORMS_MAX; i++) {
        const struct form *form = &forms->rows[i];
        if (!form->signature)
            return i;
        if (form->offers > 0 || form->lanes > 0 || i == forms->newest)
            continue;
        if (best == FORMS_MAX || form->lost_us < forms->rows[best].lost_us)
            best = i;
    }
    return best;
}

uint32_t forms_take(struct forms *forms, struct signature *signature, uint32_t rows_max)
{
    uint32_t place = find(forms, signature, rows_max);
    if (place < FORMS_MAX) {
        signature_release(signature);
    } else {
        place = find_place(forms);
        if (place == FORMS_MAX)
            return FORMS_MAX;
        signature_release(forms->rows[place].signature);
        forms->rows[place] = (struct form){.signature = signature, .rows_max = rows_max};
        note(forms, place);
    }
    forms->newest = place;
    return place;
}

void forms_join(struct forms *forms, uint32_t form)
{
    PEN_ASSERT(form < FORMS_MAX && forms->rows[form].signature, "an offer joins a form that is there");
    forms->rows[form].offers++;
    forms->rows[form].lost_us = 0;
    note(forms, form);
}

void forms_leave(struct forms *forms, uint32_t form, uint64_t lost_us)
{
    PEN_ASSERT(form < FORMS_MAX && forms->rows[form].offers > 0, "an offer that leaves a form was counted in it");
    forms->rows[form].offers--;
    if (lost_us)
        forms->rows[form].lost_us = lost_us;
    note(forms, form);
}

void forms_refer(struct forms *forms, form_set set)
{
    for (form_set left = set; left; left &= left - 1)
        forms->rows[first_of(left)].lanes++;
}

void forms_unrefer(struct forms *forms, form_set set)
{
    for (form_set left = set; left; left &= left - 1) {
        PEN_ASSERT(forms->rows[first_of(left)].lanes > 0, "a lane that goes was counted in its forms");
        forms->rows[first_of(left)].lanes--;
    }
}

void forms_expire(struct forms *forms, uint64_t now_us, uint64_t wait_us)
{
    for (uint32_t i = 0; i < FORMS_MAX; i++) {
        if (forms->rows[i].lost_us && now_us - forms->rows[i].lost_us >= wait_us)
            forms->rows[i].lost_us = 0;
        note(forms, i);
    }
}

uint32_t forms_offered(const struct forms *forms)
{
    return (uint32_t)__builtin_popcount(forms->offered);
}

bool forms_open(const struct forms *forms, form_set set)
{
    return set == 0 || (set & (forms->offered | forms->waited)) != 0;
}

bool forms_beyond(const struct forms *forms, form_set set)
{
    return set != 0 && (forms->offered & ~set) != 0;
}

/* ---- a job ---- */

struct answer {
    form_set set;
    uint32_t rows;
    uint64_t shape;
};

/* reterr NULL: the sentence of this form's refusal is not needed. */
static enum pen_status ask(const struct forms *forms, uint32_t i, const struct form_question *q, struct answer *answer,
                           struct pen_error *reterr)
{
    const struct form *form = &forms->rows[i];
    uint32_t rows = 0;
    uint64_t shape = 0;
    enum pen_status status =
        signature_check(form->signature, q->model, form->rows_max, q->inputs, q->inputs_count, &rows, &shape, reterr);
    if (status == PEN_OK)
        status = signature_check_outputs(form->signature, q->model, q->outputs, q->outputs_count, reterr);
    if (status != PEN_OK || (answer->set && answer->rows != rows))
        return status;
    answer->shape += shape; /* a sum, so that the order does not count: jobs alike in each form get the same number */
    answer->rows = rows;
    answer->set |= (form_set)1 << i;
    return PEN_OK;
}

/* Asks the newest form first: when no form takes the job, its sentence is the answer. */
static enum pen_status ask_all(const struct forms *forms, form_set among, const struct form_question *question,
                               struct answer *answer, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    form_set newest = among & (form_set)1 << forms->newest, left = among & ~newest;
    if (newest)
        status = ask(forms, forms->newest, question, answer, reterr);
    for (bool told = newest; left; left &= left - 1, told = true) {
        enum pen_status own = ask(forms, first_of(left), question, answer, told ? NULL : reterr);
        status = told ? status : own;
    }
    return answer->set ? PEN_OK : status;
}

enum pen_status forms_check(const struct forms *forms, const struct form_question *question, form_set *ret_set,
                            uint32_t *ret_rows, uint64_t *ret_shape, struct pen_error *reterr)
{
    struct answer answer = {.set = 0};
    form_set offered = forms->offered, waited = forms->waited;
    if (!offered)
        waited |= (form_set)1 << forms->newest; /* nobody offers the model: its workers may come back as they were */
    enum pen_status status = ask_all(forms, offered ? offered : waited, question, &answer, reterr);
    if (!answer.set && offered && waited)
        ask_all(forms, waited, question, &answer, NULL);
    if (!answer.set)
        return status;
    if (reterr)
        *reterr = (struct pen_error){.status = PEN_OK};
    *ret_set = answer.set;
    *ret_rows = answer.rows;
    *ret_shape = answer.shape;
    return PEN_OK;
}
