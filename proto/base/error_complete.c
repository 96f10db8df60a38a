/* error_complete.c - compares the status with what the error says. */
#include "error_complete.h"

#include <stddef.h>

enum pen_status error_complete(struct pen_error *reterr, enum pen_status status, const char *what)
{
    if (status == PEN_OK || reterr == NULL || (reterr->status == status && reterr->text[0] != '\0'))
        return status;
    if (status == PEN_ERR_NO_MEMORY)
        return pen_error_set(reterr, status, "no memory to %s", what);
    return pen_error_set(reterr, status, "cannot %s (%s)", what, pen_status_name(status));
}
