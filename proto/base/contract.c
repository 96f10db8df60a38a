#include "contract.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOUND "max_relative_error="

/* With a point, whatever the program around the library has told setlocale(). False: no memory. */
static bool bound_parse(const char *text, double *ret_bound)
{
    char *end = NULL;
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    double bound = strtod_l(text, &end, plain);
    freelocale(plain);
    *ret_bound = bound;
    return end != text && *end == '\0' && isfinite(bound) && bound > 0.0;
}

enum pen_status contract_parse(const char *text, struct contract *ret_contract, struct pen_error *reterr)
{
    struct contract contract = {.precision = PEN_PRECISION_ANY};
    int class = precision_find(text);
    if (class >= 0) {
        contract.precision = (enum pen_precision) class;
    } else if (strcmp(text, "f32-exact") == 0) {
        contract.precision = PEN_PRECISION_F32;
        contract.exact = true;
    } else if (strncmp(text, BOUND, sizeof BOUND - 1) != 0 ||
               !bound_parse(text + sizeof BOUND - 1, &contract.error_max)) {
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "'%.64s' is no precision; there is " CONTRACT_FORMS " with X a number above 0, such as 1e-2", text);
    }
    *ret_contract = contract;
    return PEN_OK;
}

const char *contract_text(const struct contract *contract, char text[CONTRACT_TEXT_BYTES])
{
    if (contract->error_max > 0.0) {
        snprintf(text, CONTRACT_TEXT_BYTES, BOUND "%g", contract->error_max);
    } else {
        snprintf(text, CONTRACT_TEXT_BYTES, "%s%s", precision_name(contract->precision),
                 contract->exact ? "-exact" : "");
    }
    return text;
}
