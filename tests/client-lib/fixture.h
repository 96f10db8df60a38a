/*
 * fixture.h - what the tests of the client share: connecting to a fake broker, a small job.
 *
 * Threads: any.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "fake_broker.h"
#include "penstock/client.h"

#define SECOND INT64_C(1000000)

extern const float small[4];

pen_client *connect_to(const char *endpoint);                                  /* fails the test when it cannot */
struct pen_tensor tensor_of(const char *name, const void *data, size_t bytes); /* uint8 [bytes] */
struct pen_job_options job_of(const struct pen_tensor *input);                 /* of model "echo" */
struct pen_client_counters counters_of(pen_client *client);

#endif
