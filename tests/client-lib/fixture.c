#include "fixture.h"

#include <criterion/criterion.h>

pen_client *connect_to(const char *endpoint)
{
    struct pen_client_options o;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&o, sizeof o);
    o.endpoint = endpoint;
    o.name = "test";
    enum pen_status status = pen_client_connect(&o, &client, &error);
    cr_assert_eq(status, PEN_OK, "%s", error.text);
    return client;
}

const float small[4] = {1, 2, 3, 4};

struct pen_tensor tensor_of(const char *name, const void *data, size_t bytes)
{
    return (struct pen_tensor){
        .name = name, .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .data = data, .bytes = bytes};
}

struct pen_job_options job_of(const struct pen_tensor *input)
{
    struct pen_job_options o;
    pen_job_options_init(&o, sizeof o);
    o.model = "echo";
    o.inputs = input;
    o.inputs_count = 1;
    return o;
}

struct pen_client_counters counters_of(pen_client *client)
{
    struct pen_client_counters counters;
    pen_client_counters(client, &counters, sizeof counters);
    return counters;
}
