#include "run/internal.h"

enum pen_status session_idle(const struct pen_session *s, struct pen_error *reterr)
{
    return s->flight_count == 0
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_BUSY, "%u runs are on their way: await them first", s->flight_count);
}

enum pen_status session_free_inputs(const struct pen_session *s, struct pen_error *reterr)
{
    return s->flight_count == 0 || s->flights[s->flight_first].begun ? PEN_OK : session_idle(s, reterr);
}
