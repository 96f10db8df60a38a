/* Places in Redis, and what nodes of a cluster and Sentinels say about them: read from bytes as a server sends them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_slots.h"

/* ---- texts ---- */

Test(places, are_read_from_their_text)
{
    struct redis_place place = {.password = "kept"};
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(redis_place_parse("cluster://a:1,[::2]:3,b", &place, &error), PEN_OK, "%s", error.text);
    cr_expect(place.kind == REDIS_CLUSTER && place.seeds_count == 3 && place.database == 0);
    cr_expect_str_eq(place.seeds[1].host, "::2");
    cr_expect_eq(place.seeds[1].port, 3);
    cr_expect_eq(place.seeds[2].port, 6379);
    cr_expect_str_eq(place.password, "kept");
    cr_assert_eq(redis_place_parse("sentinel://s,t:5/pool/7", &place, &error), PEN_OK, "%s", error.text);
    cr_expect(place.kind == REDIS_SENTINEL && place.seeds_count == 2 && place.database == 7);
    cr_expect_str_eq(place.master, "pool");
    cr_expect_eq(place.seeds[0].port, 26379);
    cr_assert_eq(redis_place_parse("redis://h:5/2", &place, &error), PEN_OK, "%s", error.text);
    cr_expect(place.kind == REDIS_SINGLE && place.seeds_count == 1 && place.database == 2);
    cr_expect_str_eq(place.master, "");
}

Test(places, that_are_none_get_a_sentence)
{
    static const struct {
        const char *text, *words;
    } rows[] = {{"redis://a:1,b:2", "names several servers"},
                {"cluster://a:1/2", "has no databases; leave /2 out"},
                {"cluster://a,b,c,d,e,f,g,h,i", "more than 8 servers"},
                {"cluster://a,,b", "is not understood"},
                {"cluster://a:0", "is not understood"},
                {"cluster://a:65536", "is not understood"},
                {"cluster://", "is not understood"},
                {"sentinel://a:1", "the name of the master is missing"},
                {"sentinel://a:1/", "the name of the master is missing"},
                {"sentinel://a:1/pool/x", "is not understood"},
                {"sentinel://u:secret@a:1/pool", "takes no password"},
                {"memory:1", "is not understood"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_place place = {.kind = REDIS_SINGLE};
        struct pen_error error = {.status = PEN_OK};
        cr_expect_eq(redis_place_parse(rows[i].text, &place, &error), PEN_ERR_INVALID, "%s", rows[i].text);
        cr_expect(strstr(error.text, rows[i].words), "%s: %s", rows[i].text, error.text);
        cr_expect_null(strstr(error.text, "secret"), "%s", error.text);
    }
}

/* ---- slots ---- */

static unsigned slot(const char *key)
{
    return redis_slot(key, strlen(key));
}

Test(places, keys_have_the_slots_that_redis_gives_them)
{
    cr_expect_eq(slot("123456789"), 0x31C3u); /* the check value of CRC-16/XMODEM */
    cr_expect_eq(slot(""), 0u);
    cr_expect_eq(slot("foo"), 12182u); /* CLUSTER KEYSLOT foo */
    cr_expect_eq(slot("{user1000}.following"), slot("user1000"));
    cr_expect_eq(slot("foo{}{bar}"), slot("foo{}{bar}"));
    cr_expect_neq(slot("foo{}{bar}"), slot("bar"), "an empty tag is none");
    cr_expect_eq(slot("foo{{bar}}zap"), slot("{bar"));
    cr_expect_eq(slot("foo{bar}{zap}"), slot("bar"));
}

static redisReply *reply_of(const char *bytes)
{
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    redisReaderFeed(reader, bytes, strlen(bytes));
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    cr_assert_not_null(reply);
    redisReaderFree(reader);
    return reply;
}

static struct redis_map map;
static const struct redis_address asked = {"10.0.0.9", 7009};

static bool map_of(const char *bytes)
{
    redisReply *reply = reply_of(bytes);
    bool good = redis_map_read(reply, &asked, &map);
    freeReplyObject(reply);
    return good;
}

#define MASTER(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"

Test(places, a_map_has_masters_and_no_replicas)
{
    cr_assert(map_of("*3\r\n*4\r\n:0\r\n:99\r\n" MASTER("$1\r\na\r\n", "1") MASTER("$1\r\nr\r\n", "9") /**/
                     "*3\r\n:100\r\n:199\r\n" MASTER("$-1\r\n", "2")                                   /**/
                     "*3\r\n:300\r\n:16383\r\n" MASTER("$1\r\na\r\n", "1")));
    cr_expect_eq(map.masters_count, 2u);
    cr_expect_str_eq(map.masters[map.owner[0]].host, "a");
    cr_expect_str_eq(map.masters[map.owner[150]].host, "10.0.0.9", "no host: that of the node that was asked");
    cr_expect_eq(map.masters[map.owner[150]].port, 2);
    cr_expect_eq(map.owner[200], REDIS_NOBODY);
    cr_expect_eq(map.owner[16383], map.owner[0]);
    cr_expect(
        map_of("*2\r\n*3\r\n:0\r\n:9\r\n" MASTER("$1\r\n?\r\n", "1") "*3\r\n:10\r\n:19\r\n" MASTER("$0\r\n\r\n", "2")));
    cr_expect_eq(map.owner[5], REDIS_NOBODY, "a node without a name cannot be asked");
    cr_expect_neq(map.owner[15], REDIS_NOBODY);
}

Test(places, what_is_no_map_is_refused)
{
    static const char *const bad[] = {"*0\r\n",
                                      ":5\r\n",
                                      "-ERR no\r\n",
                                      "*1\r\n:1\r\n",
                                      "*1\r\n*3\r\n:0\r\n:16384\r\n" MASTER("$1\r\na\r\n", "1"),
                                      "*1\r\n*3\r\n:5\r\n:4\r\n" MASTER("$1\r\na\r\n", "1"),
                                      "*1\r\n*3\r\n:-1\r\n:4\r\n" MASTER("$1\r\na\r\n", "1"),
                                      "*1\r\n*3\r\n:0\r\n:4\r\n" MASTER("$1\r\na\r\n", "70000"),
                                      "*1\r\n*3\r\n:0\r\n:4\r\n:7\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(map_of(bad[i]), "%zu", i);
}

Test(places, a_map_of_more_masters_than_have_room_is_refused)
{
    for (unsigned masters = REDIS_MASTERS_MAX; masters <= REDIS_MASTERS_MAX + 1; masters++) {
        char *bytes = malloc(64u * (masters + 1)), *at = bytes;
        at += sprintf(at, "*%u\r\n", masters);
        for (unsigned i = 0; i < masters; i++)
            at += sprintf(at, "*3\r\n:%u\r\n:%u\r\n*2\r\n$1\r\na\r\n:%u\r\n", i, i, i + 1);
        cr_expect_eq(map_of(bytes), masters == REDIS_MASTERS_MAX, "%u", masters);
        free(bytes);
    }
}

/* ---- redirections and Sentinels ---- */

Test(places, redirections_lead_somewhere_or_are_none)
{
    static const struct {
        const char *error, *host;
        int port;
        unsigned slot;
        bool ask;
    } rows[] = {{"MOVED 3999 127.0.0.1:6381", "127.0.0.1", 6381, 3999, false},
                {"ASK 0 host.example:1", "host.example", 1, 0, true},
                {"MOVED 7 ::1:7000", "::1", 7000, 7, false},
                {"MOVED 7 :7000", "10.0.0.9", 7000, 7, false},
                {"MOVED 16384 a:1", NULL, 0, 0, false},
                {"MOVED x a:1", NULL, 0, 0, false},
                {"MOVED 1 a", NULL, 0, 0, false},
                {"MOVED 1", NULL, 0, 0, false},
                {"ASK", NULL, 0, 0, false},
                {"ERR MOVED 1 a:1", NULL, 0, 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_redirection to;
        bool good = redis_redirection_read(rows[i].error, &asked, &to);
        cr_expect_eq(good, rows[i].host != NULL, "%s", rows[i].error);
        cr_expect(!good || (strcmp(to.address.host, rows[i].host) == 0 && to.address.port == rows[i].port &&
                            to.slot == rows[i].slot && to.ask == rows[i].ask),
                  "%s: %s %d", rows[i].error, to.address.host, to.address.port);
    }
}

Test(places, sentinels_name_the_master_that_is_asked_for)
{
    struct redis_address master = {.port = 0};
    redisReply *known = reply_of("*2\r\n$1\r\nh\r\n$4\r\n6380\r\n"), *unknown = reply_of("*-1\r\n");
    redisReply *switched = reply_of("*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$16\r\npool a 1 h2 6381\r\n");
    cr_expect(redis_master_read(known, &master) && master.port == 6380);
    cr_expect_not(redis_master_read(unknown, &master));
    cr_expect_not(redis_switch_read(switched, "other", &master));
    cr_expect(redis_switch_read(switched, "pool", &master) && master.port == 6381);
    cr_expect_str_eq(master.host, "h2");
    freeReplyObject(known);
    freeReplyObject(unknown);
    freeReplyObject(switched);
}
