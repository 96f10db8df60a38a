/*
 * session_device.h - results that stay in the memory of the device that made them, and runs that take them from there.
 *
 * It goes where a model runs as one step on a backend that can keep results (backend.h: exec_keep), without debug modes. Everywhere else results are on the host, and
 * values of a device are read to the host first.
 * Threads: values any; sessions one-at-a-time.
 */
#ifndef SESSION_DEVICE_H
#define SESSION_DEVICE_H

#include "run/internal.h"

/* A value in a device's memory, shared. */
struct device_value {
    atomic_uint references;
    const struct backend_ops *ops;
    struct backend_kept *kept;
    size_t bytes;
};
struct device_value *device_value_hold(struct device_value *value);
void device_value_drop(struct device_value *value); /* NULL is fine */
enum pen_status device_value_read(const struct device_value *value, void *data, struct pen_error *reterr);

/* After a bind: values[i] (NULL = none) is the tensor inputs[i] of the caller's order. They are held by the caller until session_device_clear. */
enum pen_status session_device_inputs(struct pen_session *s, struct device_value *const *values,
                                      struct pen_error *reterr);
/* At once after its await, whatever that gave: the run's bucket forgets them. */
void session_device_clear(struct pen_session *s);
/* The same when the run could not be submitted. */
void session_device_undo(struct pen_session *s);

/* Before the run that is next is awaited: its outputs stay on the device and are not copied to the host, as far as that goes. */
void session_device_want(struct pen_session *s);
/* After it: output `index` of it. NULL with PEN_OK: it is on the host. */
enum pen_status session_device_keep(struct pen_session *s, size_t index, struct device_value **ret_value,
                                    struct pen_error *reterr);

#endif
