/* Brokers that know each other: which of them is busy, and which one gets a client. */
#include <criterion/criterion.h>

#include "neighbour_talk.h"

#define LIVENESS 2000000u

static struct neighbours rules;

static void pool_of_three(void)
{
    rules = (struct neighbours){.count = 2};
    for (uint32_t i = 0; i < 2; i++)
        rules.all[i] = (struct neighbour){.uuid = i + 1, .heard_us = 1};
}

static int sent_to(uint64_t clients, uint64_t now_us)
{
    const struct neighbour *to = neighbours_for_client(&rules, clients, now_us, LIVENESS);
    return to ? (int)(to - rules.all) : -1;
}

Test(neighbour_rules, a_broker_is_busy_from_its_limit_on_until_a_quarter_is_gone, .init = pool_of_three)
{
    neighbours_measure(&rules, 99, 0, 100, 0);
    cr_expect_not(rules.busy);
    neighbours_measure(&rules, 100, 0, 100, 0);
    cr_expect(rules.busy);
    neighbours_measure(&rules, 75, 0, 100, 0);
    cr_expect(rules.busy, "not at once");
    neighbours_measure(&rules, 74, 0, 100, 0);
    cr_expect_not(rules.busy);
    neighbours_measure(&rules, 0, 7, 100, 7);
    cr_expect(rules.busy, "by its clients");
    cr_expect_eq(rules.load, 1000);
    neighbours_measure(&rules, 5000000, 60000, 0, 0);
    cr_expect_not(rules.busy, "without a limit nobody is busy");
    cr_expect_gt(rules.load, 1000, "and yet has a load to compare");
}

Test(neighbour_rules, a_client_goes_to_the_least_busy_one_that_is_there, .init = pool_of_three)
{
    neighbours_measure(&rules, 200, 0, 100, 0);
    rules.all[0].load = 900;
    rules.all[1].load = 500;
    cr_expect_eq(sent_to(100, 2), 1);
    rules.all[1].draining = true;
    cr_expect_eq(sent_to(100, 2), 0);
    rules.all[0].busy = true;
    cr_expect_eq(sent_to(100, 2), -1, "who is busy gets none");
    rules.all[1].draining = false;
    cr_expect_eq(sent_to(100, LIVENESS + 1), -1, "who is silent is not there");
    rules.busy = false;
    cr_expect_eq(sent_to(100, 2), -1, "who is not busy keeps its clients");
}

Test(neighbour_rules, who_has_nearly_as_much_gets_none, .init = pool_of_three)
{
    neighbours_measure(&rules, 110, 0, 100, 0);
    rules.all[0].load = rules.all[1].load = 900;
    cr_expect_eq(sent_to(100, 2), -1);
    rules.all[0].load = 850;
    cr_expect_eq(sent_to(100, 2), 0);
}

/* What is known of a neighbour is a moment old: a flood of clients does not all go to one. */
Test(neighbour_rules, clients_that_were_sent_count_until_their_broker_says_its_load_anew, .init = pool_of_three)
{
    int sent[3] = {0};
    neighbours_measure(&rules, 0, 200, 0, 100); /* 10 thousandths a client */
    rules.all[1].load = 400;
    for (int i = 0; i < 500; i++)
        sent[sent_to(200, 2) + 1]++;
    cr_expect(sent[1] > sent[2] && sent[2] > 0, "%d and %d", sent[1], sent[2]);
    cr_expect_gt(sent[0], 0, "when both have as much the rest stays");
    cr_expect_lt(rules.all[0].sent + rules.all[1].sent, 400u);
}

/* A client of many weighs less than a thousandth. */
Test(neighbour_rules, a_small_share_is_not_counted_as_a_large_one, .init = pool_of_three)
{
    int sent = 0;
    neighbours_measure(&rules, 0, 20000, 0, 10000);
    while (sent < 20000 && sent_to(20000, 2) >= 0)
        sent++;
    cr_expect(sent > 30000 / 2 && sent <= 20000, "%d: until both have 1750 of our 2000 thousandths", sent);
}
