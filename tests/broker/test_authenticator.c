/* The thread that says which keys come in, asked as libzmq asks it (RFC 27): good requests, and ones that are cut, too long or no requests at all. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "authenticator.h"
#include "keys_text.h"

static struct keyring *keyring;
static struct authenticator *authenticator;
static void *context, *asker;

static void begin(void)
{
    struct pen_error error = {.status = PEN_OK};
    int wait_ms = 10000, linger = 0;
    keys_path_make();
    keyring = keys_text_keyring(A " alice submit\n");
    context = zmq_ctx_new();
    cr_assert_eq(authenticator_start(context, keyring, &authenticator, &error), PEN_OK, "%s", error.text);
    asker = zmq_socket(context, ZMQ_REQ);
    cr_assert(asker && zmq_setsockopt(asker, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms) == 0 &&
              zmq_setsockopt(asker, ZMQ_LINGER, &linger, sizeof linger) == 0 &&
              zmq_connect(asker, "inproc://zeromq.zap.01") == 0);
}

static void end(void)
{
    zmq_close(asker);
    authenticator_stop(authenticator);
    zmq_ctx_term(context);
    keyring_free(keyring);
    keys_path_remove();
}

TestSuite(authenticator, .init = begin, .fini = end, .timeout = 60);

#define FRAMES 8
struct part {
    const void *data;
    size_t bytes;
};

static uint8_t key_a[KEY_BYTES], key_b[KEY_BYTES];
static struct part parts[FRAMES]; /* the request; the eighth is one too many */

static void request(void)
{
    memset(key_a, 0xaa, sizeof key_a);
    memset(key_b, 0xbb, sizeof key_b);
    const struct part good[FRAMES] = {{"1.0", 3}, {"request-1", 9}, {"clients", 7},        {"127.0.0.1", 9},
                                      {"", 0},    {"CURVE", 5},     {key_a, sizeof key_a}, {"more", 4}};
    memcpy(parts, good, sizeof good);
}

/* What has been answered: six frames. */
static struct {
    char text[6][256];
    size_t bytes[6];
} said;

static void ask(size_t count)
{
    int more = 1;
    size_t size = sizeof more, got = 0;
    for (size_t i = 0; i < count; i++)
        cr_assert_geq(zmq_send(asker, parts[i].data, parts[i].bytes, i + 1 < count ? ZMQ_SNDMORE : 0), 0);
    memset(&said, 0, sizeof said);
    for (; more && got < 6; got++) {
        int bytes = zmq_recv(asker, said.text[got], sizeof said.text[got] - 1, 0);
        cr_assert(bytes >= 0 && zmq_getsockopt(asker, ZMQ_RCVMORE, &more, &size) == 0, "frame %zu of the answer", got);
        said.bytes[got] = (size_t)bytes;
    }
    cr_assert(got == 6 && !more);
    cr_expect_str_eq(said.text[0], "1.0");
    cr_expect_eq(said.bytes[5], 0);
}

static void lets_in(void)
{
    ask(7);
    cr_expect_str_eq(said.text[1], "request-1");
    cr_expect_str_eq(said.text[2], "200");
    cr_expect_str_eq(said.text[3], "OK");
    cr_expect_str_eq(said.text[4], A, "its messages carry the key");
}

static void refuses(size_t count, const char *id, const char *why)
{
    ask(count);
    cr_expect(said.bytes[1] == strlen(id) && strcmp(said.text[1], id) == 0, "%s: %zu bytes of an id", why,
              said.bytes[1]);
    cr_expect_str_eq(said.text[2], "400", "%s", why);
    cr_expect_str_eq(said.text[3], "this key may not come in here", "%s", why);
    cr_expect_eq(said.bytes[4], 0, "%s", why);
}

Test(authenticator, keys_of_the_list_come_in)
{
    request();
    lets_in();
    parts[6].data = key_b;
    refuses(7, "request-1", "another key");
    parts[6].data = key_a;
    lets_in();
}

/* An answer says nothing of the request before it. */
Test(authenticator, requests_that_are_cut_are_refused)
{
    for (size_t count = 1; count < 7; count++) {
        request();
        lets_in();
        refuses(count, count > 1 ? "request-1" : "", "cut");
    }
    refuses(8, "request-1", "a frame too many");
    lets_in();
}

Test(authenticator, each_part_of_a_request_is_looked_at)
{
    static const char large[300] = "";
    request();
    parts[0] = (struct part){"1.1", 3};
    refuses(7, "request-1", "another version");
    request();
    parts[5] = (struct part){"PLAIN", 5};
    refuses(7, "request-1", "another mechanism");
    request();
    parts[6].bytes = KEY_BYTES - 1;
    refuses(7, "request-1", "half a key");
    request();
    parts[6] = (struct part){large, sizeof large};
    refuses(7, "request-1", "a key beyond all keys");
    request();
    parts[1] = (struct part){large, sizeof large};
    ask(7);
    cr_expect_eq(said.bytes[1], 0, "no id of ours is so long");
    cr_expect_str_eq(said.text[2], "200");
    request();
    lets_in();
}

static const char *refusal_logged(void)
{
    static char log[8192];
    fflush(stderr);
    log[fread(log, 1, sizeof log - 1, cr_get_redirected_stderr())] = '\0';
    cr_assert(strstr(log, "evt=key_refused"), "%s", log);
    return log;
}

/* Of a request that is cut, nothing of the one before it. */
Test(authenticator, the_log_names_the_key_that_was_refused)
{
    cr_redirect_stderr();
    request();
    lets_in();
    refuses(6, "request-1", "cut");
    const char *log = refusal_logged();
    cr_expect(!strstr(log, A) && strstr(log, "door=clients address=127.0.0.1"), "%s", log);
    request();
    parts[6].data = key_b;
    refuses(7, "request-1", "another key");
    log = refusal_logged();
    cr_expect(strstr(log, "key=bbbbbbbb"), "%s", log);
}
