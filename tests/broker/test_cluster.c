/* What brokers of one Redis have in common: their number, by which quotas are divided, and the labels of versions. Against a real redis-server. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "keyring.h"
#include "label.h"
#include "model.h"
#include "pool.h"

static struct process *redis;
static int port;

static void begin(void)
{
    redis = redis_start(&port, NULL);
}

static void end(void)
{
    process_free(redis);
}

TestSuite(cluster, .init = begin, .fini = end, .timeout = 120);

static struct cluster *join(uint64_t uuid)
{
    struct redis_place place = {.seeds = {{"127.0.0.1", port}}, .seeds_count = 1, .database = 2};
    struct cluster *cluster = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(cluster_new(&place, "ns", uuid, &cluster, &error), PEN_OK, "%s", error.text);
    return cluster;
}

static void counts(const struct cluster *cluster, uint32_t brokers)
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(10000) * 1000;
    while (cluster_brokers(cluster) != brokers && support_now_us() < end_us)
        support_sleep_ms(10);
    cr_assert_eq(cluster_brokers(cluster), brokers);
}

/* What is heard becomes, within some seconds, that text. */
static void hears(struct cluster *cluster, const char *text)
{
    char *last = NULL, *orders;
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(10000) * 1000;
    while (!(last && strcmp(last, text) == 0) && support_now_us() < end_us) {
        if (cluster_hear(cluster, &orders)) {
            free(last);
            last = orders;
        } else {
            support_sleep_ms(10);
        }
    }
    cr_assert(last && strcmp(last, text) == 0, "heard '%s', not '%s'", last ? last : "nothing", text);
    free(last);
}

/* Ends at once, and starts on the same port with nothing in it. */
static void redis_forgets(void)
{
    process_signal(redis, SIGKILL);
    process_wait(redis, 5000);
    process_free(redis);
    redis = redis_start(&port, NULL);
}

Test(cluster, brokers_are_counted_and_one_that_leaves_or_dies_is_not)
{
    struct cluster *one = join(1), *two = join(2);
    counts(one, 2);
    counts(two, 2);
    cluster_free(two); /* says goodbye */
    counts(one, 1);
    char *all = redis_cli(port, (const char *const[]){"-n", "2", "ZADD", "ns:commons:brokers", "1", "dead", NULL});
    free(all);
    two = join(3);
    counts(one, 2);
    counts(two, 2);
    cluster_free(one);
    cluster_free(two);
}

Test(cluster, last_number_counts_while_redis_is_gone)
{
    struct cluster *one = join(1), *two = join(2);
    counts(one, 2);
    process_signal(redis, SIGKILL);
    process_wait(redis, 5000);
    cluster_free(two);
    support_sleep_ms(1200); /* a word without an answer */
    cr_assert_eq(cluster_brokers(one), 2u);
    process_free(redis);
    redis = redis_start(&port, NULL);
    counts(one, 1);
    cluster_free(one);
}

Test(cluster, orders_of_one_are_heard_by_all_and_by_those_who_come_later)
{
    struct cluster *one = join(1), *two = join(2);
    cluster_tell(one, "net stable 1");
    cluster_tell(one, "net canary 2 50000");
    hears(two, "net canary 2 50000\nnet stable 1 0\n");
    hears(one, "net canary 2 50000\nnet stable 1 0\n");
    cluster_tell(two, "net canary 0");
    hears(one, "net stable 1 0\n");
    struct cluster *three = join(3);
    hears(three, "net stable 1 0\n");
    char *ttl = redis_cli(port, (const char *const[]){"-n", "2", "TTL", "ns:commons:labels", NULL});
    cr_expect_gt(atoi(ttl), 86400, "%s", ttl);
    free(ttl);
    cluster_free(one);
    cluster_free(two);
    cluster_free(three);
    three = join(4);
    hears(three, "net stable 1 0\n");
    cluster_free(three);
}

Test(cluster, a_label_under_another_name_is_not_believed)
{
    static const char swap[] = "local h = 'ns:commons:labels' local a = redis.call('HGET', h, 'net stable') "
                               "local b = redis.call('HGET', h, 'other stable') "
                               "redis.call('HSET', h, 'net stable', b, 'other stable', a) "
                               "redis.call('HSET', h, 'old one', '4 0') " /* as earlier brokers wrote it */
                               "return redis.call('INCR', 'ns:commons:turns')";
    struct cluster *one = join(1);
    cluster_tell(one, "net stable 1");
    cluster_tell(one, "other stable 2");
    cluster_tell(one, "third stable 3");
    hears(one, "net stable 1 0\nother stable 2 0\nthird stable 3 0\n");
    free(redis_cli(port, (const char *const[]){"-n", "2", "EVAL", swap, "0", NULL}));
    hears(one, "old one 4 0\nthird stable 3 0\n");
    cr_assert_eq(cluster_mismatched(one), 2u);
    cluster_free(one);
}

Test(cluster, a_redis_that_forgets_is_told_again_and_what_is_newer_stays)
{
    struct cluster *one = join(1), *two = join(2);
    cluster_tell(one, "net stable 1");
    cluster_tell(one, "net canary 2 50000");
    hears(two, "net canary 2 50000\nnet stable 1 0\n");
    process_signal(redis, SIGSTOP); /* both have their words under way or behind it */
    cluster_tell(two, "net stable 7");
    redis_forgets();
    hears(one, "net canary 2 50000\nnet stable 7 0\n");
    hears(two, "net canary 2 50000\nnet stable 7 0\n");
    cluster_free(one);
    cluster_free(two);
}

Test(cluster, what_was_taken_back_while_redis_was_gone_does_not_come_back_with_it)
{
    struct cluster *one = join(1);
    cluster_tell(one, "net stable 1");
    cluster_tell(one, "net canary 2 50000");
    hears(one, "net canary 2 50000\nnet stable 1 0\n");
    process_signal(redis, SIGSTOP);
    cluster_tell(one, "net canary 0");
    redis_forgets();
    hears(one, "net stable 1 0\n");
    cluster_free(one);
}

Test(cluster, nobody_waits_for_a_redis_that_was_never_there)
{
    process_signal(redis, SIGKILL);
    process_wait(redis, 5000);
    struct cluster *one = join(1);
    char *orders = NULL;
    cluster_tell(one, "net stable 3");
    cr_assert_not(cluster_hear(one, &orders));
    cr_assert_eq(cluster_brokers(one), 1u);
    cluster_free(one);
    cr_assert_eq(cluster_brokers(NULL), 1u);
    cr_assert_not(cluster_hear(NULL, &orders));
}

/* ---- what is done with both ---- */

Test(divided, each_broker_grants_its_part_of_a_quota)
{
    struct identity id = {.name = "a", .rate = 10, .tokens = 0, .bytes_max = 1000};
    struct pen_error error = {.status = PEN_OK};
    uint64_t wait_us = 0;
    size_t taken = 0;
    for (uint64_t us = 0; us < 10000000; us += 10000)
        taken += quota_check(&id, 2, 1, 1000, 1 << 30, us + 1, &wait_us, &error) == PEN_OK;
    cr_assert(taken >= 49 && taken <= 51, "%zu of 10 s at 10 jobs/s divided by 2", taken);
    cr_assert_not_null(strstr(error.text, "divided among 2 brokers"), "%s", error.text);
    id.rate = 0;
    cr_assert_eq(quota_check(&id, 2, 500, 1000, 1 << 30, 1, &wait_us, &error), PEN_OK);
    cr_assert_eq(quota_check(&id, 2, 501, 1000, 1 << 30, 1, &wait_us, &error), PEN_ERR_TOO_LARGE);
    cr_assert_not_null(strstr(error.text, "divided among 2 brokers"), "%s", error.text);
    quota_take(&id, 1);
    cr_assert_eq(quota_check(&id, 2, 500, 1000, 1 << 30, 1, &wait_us, &error), PEN_ERR_BUSY);
    cr_assert_not_null(strstr(error.text, "divided among 2 brokers"), "%s", error.text);
    quota_give(&id, 1);
    cr_assert_eq(quota_check(&id, 1, 501, 1000, 1 << 30, 1, &wait_us, &error), PEN_OK);
}

Test(replaced, labels_are_those_of_the_text_and_nothing_else)
{
    struct labels labels = {.count = 0};
    struct models none;
    cr_assert_eq(models_init(&none, 10), PEN_OK);
    cr_assert_eq(label_set(&labels, "net canary 2 500000", NULL), PEN_OK);
    cr_assert_eq(label_set(&labels, "net old 1", NULL), PEN_OK);
    labels.list[0].owed_ppm = 7;
    cr_assert_eq(labels_replace(&labels, "net canary 3 500000\nnonsense\nnet b 1 600000\nother stable 1\n"), 2u);
    cr_assert_eq(labels.count, 2u);
    cr_assert_eq(label_version(&labels, &none, "net", "canary"), 3u);
    cr_assert_eq(labels.list[0].owed_ppm, 7u, "its share goes on where it was");
    cr_assert_eq(label_version(&labels, &none, "other", "stable"), 1u);
    cr_assert_eq(label_version(&labels, &none, "net", "old"), 0u);
    cr_assert_eq(labels_replace(&labels, ""), 0u);
    cr_assert_eq(labels.count, 0u);
    labels_fini(&labels);
    models_fini(&none);
}
