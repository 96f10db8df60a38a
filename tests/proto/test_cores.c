/* Which processors are cores, and which are second threads of one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cores.h"

static char root[] = "/tmp/penstock-cores-XXXXXX";

/* siblings[i]: what the kernel says of processor i; NULL = nothing. */
static void host_make(const char *const *siblings, size_t count)
{
    cr_assert_not_null(mkdtemp(root));
    for (size_t i = 0; i < count; i++) {
        char path[256];
        for (int depth = 0; depth < 2 && siblings[i] != NULL; depth++) {
            snprintf(path, sizeof path, "%s/cpu%zu%s", root, i, depth == 0 ? "" : "/topology");
            cr_assert_eq(mkdir(path, 0700), 0);
        }
        snprintf(path, sizeof path, "%s/cpu%zu/topology/thread_siblings_list", root, i);
        FILE *f = siblings[i] != NULL ? fopen(path, "we") : NULL;
        if (f != NULL) {
            fprintf(f, "%s\n", siblings[i]);
            fclose(f);
        }
    }
}

static void host_remove(size_t count)
{
    static const char *const parts[] = {"/topology/thread_siblings_list", "/topology", ""};
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < 3; p++) {
            char path[256];
            snprintf(path, sizeof path, "%s/cpu%zu%s", root, i, parts[p]);
            (void)remove(path);
        }
    }
    (void)rmdir(root);
}

/* Bits of the processors: those allowed, and those that are cores. */
static unsigned cores_among(unsigned allowed)
{
    cpu_set_t set, cores;
    unsigned bits = 0;
    CPU_ZERO(&set);
    for (size_t i = 0; i < 8; i++) {
        if ((allowed & 1u << i) != 0) {
            CPU_SET(i, &set);
        }
    }
    cores_of(root, &set, &cores);
    for (size_t i = 0; i < 8; i++) {
        bits |= CPU_ISSET(i, &cores) ? 1u << i : 0;
    }
    return bits;
}

Test(cores, neighbours)
{
    host_make((const char *const[]){"0-1", "0-1", "2-3", "2-3"}, 4);
    cr_expect_eq(cores_among(0xF), 0x5);
    cr_expect_eq(cores_among(0xE), 0x6, "a core whose first thread may not be used has its second");
    cr_expect_eq(cores_among(0x0), 0x0);
    host_remove(4);
}

Test(cores, halves)
{
    host_make((const char *const[]){"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"}, 8);
    cr_expect_eq(cores_among(0xFF), 0x0F);
    cr_expect_eq(cores_among(0xF1), 0xE1);
    host_remove(8);
}

Test(cores, what_the_kernel_does_not_say_is_a_core)
{
    host_make((const char *const[]){NULL, "", "words", "3-2"}, 4);
    cr_expect_eq(cores_among(0xF), 0xF);
    host_remove(4);
    cr_expect_eq(cores_among(0xF), 0xF, "no folder at all");
}
