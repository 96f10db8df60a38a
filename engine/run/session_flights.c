#include "run/session_device.h"

#include "assertion.h"
#include "error_complete.h"

/* Runs of a session between submit and await. A device has those that have begun; one that cannot begin ahead waits for its await, alone. */

static uint32_t window_of(const struct pen_session *s, const struct bucket *b)
{
    uint32_t window = s->profile != NULL || b == NULL ? 1 : b->window; /* profiles have the time of one run */
    return window < SESSION_FLIGHTS ? window : SESSION_FLIGHTS;
}

uint32_t pen_session_window(const struct pen_session *session)
{
    return window_of(session, session->bound);
}

uint32_t pen_session_in_flight(const struct pen_session *session)
{
    return session->flight_count;
}

enum pen_status pen_session_submit(struct pen_session *session, const struct pen_stop *stop, struct pen_error *reterr)
{
    struct flight f = {.stop = stop};
    enum pen_status status = session_free_inputs(session, reterr);
    if (status == PEN_OK) {
        status = session_bound_choose(session, &f.ran, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    uint32_t window = window_of(session, f.ran.bucket);
    if (session->flight_count >= window) {
        return session_idle(session, reterr);
    }
    if (window > 1) {
        session_context_set(session, stop, reterr);
        status = error_complete(reterr, runner_begin(f.ran.runner, f.ran.bucket), "begin a run");
        f.begun = true;
    }
    if (status == PEN_OK) {
        PEN_ASSERT(session->flight_count < SESSION_FLIGHTS && f.ran.bucket != NULL,
                   "a run on its way has a place in the ring");
        session->flights[(session->flight_first + session->flight_count++) % SESSION_FLIGHTS] = f;
    }
    return status;
}

enum pen_status session_start(struct pen_session *s, const struct pen_tensor *inputs,
                              struct device_value *const *on_device, size_t count, const struct pen_stop *stop,
                              struct pen_error *reterr)
{
    enum pen_status status = pen_session_bind(s, inputs, count, reterr);
    if (status == PEN_OK) {
        status = session_inputs_copy(s, inputs, on_device, reterr);
    }
    if (status == PEN_OK && on_device != NULL) {
        status = session_device_inputs(s, on_device, reterr);
    }
    return status == PEN_OK ? pen_session_submit(s, stop, reterr) : status;
}

enum pen_status pen_session_await(struct pen_session *session, uint64_t timeout_us,
                                  const struct pen_tensor **ret_outputs, size_t *ret_count, struct pen_error *reterr)
{
    if (session->flight_count == 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "no run was submitted that could be awaited");
    }
    const struct flight f = session->flights[session->flight_first];
    PEN_ASSERT(session->flight_count <= SESSION_FLIGHTS && f.ran.bucket != NULL && (!f.begun || f.ran.bucket->busy > 0),
               "a run that has begun holds its bucket");
    uint64_t timeout_ns = timeout_us < UINT64_MAX / 1000u ? timeout_us * 1000u : UINT64_MAX;
    if (f.begun && !runner_done(f.ran.runner, f.ran.bucket, timeout_ns)) {
        return pen_error_set(reterr, PEN_ERR_TIMEOUT, "the run is still on the device");
    }
    session->flight_first = (session->flight_first + 1) % SESSION_FLIGHTS;
    session->flight_count--;
    session_context_set(session, f.stop, reterr);
    enum pen_status status =
        f.begun ? runner_finish(f.ran.runner, f.ran.bucket) : runner_run(f.ran.runner, f.ran.bucket);
    return session_conclude(session, &f.ran, f.stop, status, ret_outputs, ret_count, reterr);
}
