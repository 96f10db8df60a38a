#include "urgency.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/resource.h>

static void *slice_of_a_new_thread(void *ret_us)
{
    *(uint64_t *)ret_us = urgency_slice_us();
    return NULL;
}

Test(urgency, what_was_asked_for_is_in_force_and_inherited)
{
    uint64_t own_us = urgency_slice_us(), child_us = 0;
    pthread_t child;
    int nice = getpriority(PRIO_PROCESS, 0);
    if (own_us == 0)
        cr_skip_test("this kernel does not tell slices: Linux 6.12 does");
    urgency_ask(URGENCY_SLICE_US);
    cr_expect_eq(urgency_slice_us(), URGENCY_SLICE_US);
    cr_assert_eq(pthread_create(&child, NULL, slice_of_a_new_thread, &child_us), 0);
    pthread_join(child, NULL);
    cr_expect_eq(child_us, URGENCY_SLICE_US);
    urgency_ask(0);
    cr_expect_eq(urgency_slice_us(), own_us, "the kernel's own again");
    cr_expect_eq(getpriority(PRIO_PROCESS, 0), nice);
}
