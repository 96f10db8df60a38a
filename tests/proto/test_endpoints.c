/* Lists of brokers. */
#include "endpoints.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct endpoints parsed(const char *list)
{
    struct endpoints endpoints;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(endpoints_parse(list, &endpoints, &error), PEN_OK, "%s", error.text);
    return endpoints;
}

Test(endpoints, a_list_is_split_trimmed_and_without_repetitions)
{
    struct endpoints e = parsed(" tcp://a:1,ipc:///run/b , tcp://a:1");
    cr_assert_eq(e.count, 2u);
    cr_assert_str_eq(e.texts[0], "tcp://a:1");
    cr_assert_str_eq(e.texts[1], "ipc:///run/b");
    endpoints_fini(&e);
    cr_assert_eq(e.count, 0u);
}

static void refused(const char *list, const char *part)
{
    struct endpoints endpoints = {0};
    struct pen_error error = {.status = PEN_OK};
    cr_expect_eq(endpoints_parse(list, &endpoints, &error), PEN_ERR_INVALID, "%s", list);
    cr_expect(strstr(error.text, part), "'%s' is not in '%s'", part, error.text);
}

Test(endpoints, an_entry_that_is_none_is_named)
{
    refused("tcp://a:1,nonsense", "\"nonsense\"");
    refused("tcp://a:1,", "\"\"");
    refused("", "tcp://127.0.0.1:5550");
    refused("tcp://a:1,tcp://127.0.0.1:65536", "65536\": a port is a number from 1 to 65535");
    refused("TCP://127.0.0.1:99999999999999999999", "a port is a number");
    cr_expect(endpoint_port_fits("tcp://[::1]:65535") && endpoint_port_fits("tcp://127.0.0.1:*") &&
              endpoint_port_fits("ipc:///run/a:99999"));
}

Test(endpoints, lists_have_caps)
{
    char list[ENDPOINTS_BYTES_MAX + 2], *at = list;
    memset(list, 'x', sizeof list - 1);
    list[sizeof list - 1] = '\0';
    refused(list, "2048 bytes");
    list[600] = '\0';
    refused(list, "255 bytes");
    for (int i = 0; i < 17; i++)
        at += sprintf(at, "%stcp://a:%d", i ? "," : "", i);
    refused(list, "\"tcp://a:16\"");
}

Test(endpoints, addresses_and_unknown_names_stay_as_they_are)
{
    struct endpoints e = parsed("tcp://127.0.0.1:1,tcp://no-such-host.invalid:2,ipc:///x,tcp://[::1]:3");
    cr_assert_eq(endpoints_resolve(&e, ENDPOINT_NAMES_KEPT, NULL), PEN_OK);
    cr_assert_eq(e.count, 4u);
    cr_assert_str_eq(e.texts[0], "tcp://127.0.0.1:1");
    cr_assert_str_eq(e.texts[1], "tcp://no-such-host.invalid:2");
    cr_assert_str_eq(e.texts[3], "tcp://[::1]:3");
    endpoints_fini(&e);
}
