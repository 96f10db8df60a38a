/*
 * contract.h - what a job or a model states of its numbers, as people write it.
 *
 * "any", a class ("f32", "f16_mma" ...), "f32-exact", or "max_relative_error=1e-2"; PROTOCOL.md, "Precision", says what each promises.
 * Threads: any (pure functions).
 */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/precision.h"
#include "penstock/status.h"
#include "precisions.h"

struct contract {
    enum pen_precision precision; /* any, with a bound: whatever keeps it */
    bool exact;                   /* with precision f32 */
    double error_max;             /* 0 = none */
};

#define CONTRACT_FORMS PRECISION_CHOICES "|f32-exact|max_relative_error=X"

/* INVALID, with a sentence that has the forms in it. */
enum pen_status contract_parse(const char *text, struct contract *ret_contract, struct pen_error *reterr);

#define CONTRACT_TEXT_BYTES 48
/* Its inverse. Returns `text`. */
const char *contract_text(const struct contract *contract, char text[CONTRACT_TEXT_BYTES]);

#endif
