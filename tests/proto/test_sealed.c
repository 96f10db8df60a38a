/* Sealed memory: what is made cannot be changed, what a peer sends is believed only as far as the kernel vouches for it, and views lead back to their block. */
#include "sealed.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sealed_view.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static struct pen_error error;

static int memory(size_t bytes, size_t written, int seals)
{
    static const uint8_t page[4096] = {1};
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    for (size_t at = 0; at < written; at += sizeof page)
        cr_assert(pwrite(fd, page, written - at < sizeof page ? written - at : sizeof page, (off_t)at) > 0);
    cr_assert(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void expect_refused(int fd, size_t bytes, bool whole, const char *why)
{
    struct sealed *block = NULL;
    const struct sealed_need need = {.bytes = bytes, .whole = whole};
    cr_expect_eq(sealed_take(fd, &need, &block, &error), PEN_ERR_INVALID, "%s", why);
    cr_expect(strstr(error.text, why), "\"%s\" says: %s", error.text, why);
    cr_expect_null(block);
    cr_expect_eq(fcntl(fd, F_GETFD), -1, "the descriptor was closed");
}

Test(sealed, what_is_made_is_there_and_nobody_can_change_it)
{
    const struct sealed_piece pieces[] = {{"abc", 3}, {"defg", 4}};
    size_t offsets[2];
    struct sealed *block = sealed_copy(pieces, 2, offsets);
    cr_assert_not_null(block);
    cr_expect(offsets[0] == 0 && offsets[1] == 64, "the second one begins at a multiple of 64");
    cr_expect_eq(sealed_bytes(block), 68);
    cr_expect(memcmp(sealed_data(block), "abc", 3) == 0 && memcmp(sealed_data(block) + 64, "defg", 4) == 0);
    int fd = sealed_descriptor(block);
    cr_expect_eq(pwrite(fd, "x", 1, 0), -1);
    cr_expect_eq(ftruncate(fd, 1), -1);
    cr_expect_eq(ftruncate(fd, 100), -1);
    cr_expect_eq(mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    cr_expect_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1, "nor the seals");
    sealed_release(block);
}

Test(sealed, a_block_goes_from_hand_to_hand)
{
    const struct sealed_piece piece = {"abc", 3};
    const struct sealed_need need = {.bytes = 3, .whole = true};
    size_t offset;
    struct sealed *block = sealed_copy(&piece, 1, &offset), *taken = NULL;
    cr_assert_eq(sealed_take(dup(sealed_descriptor(block)), &need, &taken, &error), PEN_OK, "%s", error.text);
    sealed_release(block);
    cr_expect(memcmp(sealed_data(taken), "abc", 3) == 0, "it lives as long as one holds it");
    sealed_release(taken);
}

Test(sealed, what_is_no_sealed_memory_is_refused)
{
    int ends[2];
    char name[] = "/tmp/sealed.XXXXXX";
    int file = mkstemp(name);
    cr_assert(file >= 0 && pipe(ends) == 0 && ftruncate(file, 4096) == 0);
    unlink(name);
    expect_refused(file, 4096, false, "no sealed memory");
    expect_refused(ends[0], 4096, false, "no sealed memory");
    close(ends[1]);
    expect_refused(memory(4096, 4096, 0), 4096, false, "not sealed");
    expect_refused(memory(4096, 4096, F_SEAL_SHRINK | F_SEAL_GROW), 4096, false, "not sealed");
    expect_refused(memory(4096, 4096, F_SEAL_WRITE | F_SEAL_GROW), 4096, false, "not sealed");
    expect_refused(memory(4096, 4096, SEALS), 4097, false, "4096 bytes");
    expect_refused(memory(8192, 8192, SEALS), 4096, true, "8192 bytes");
    expect_refused(memory(8192, 4096, SEALS), 8192, true, "holes");
    expect_refused(memory(0, 0, SEALS), 0, true, "0 bytes");
}

Test(sealed, a_larger_block_is_taken_where_it_may_be)
{
    struct sealed *block = NULL;
    const struct sealed_need need = {.bytes = 4096};
    cr_assert_eq(sealed_take(memory(8192, 8192, SEALS), &need, &block, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(sealed_bytes(block), 4096, "and only what is needed is mapped");
    sealed_release(block);
}

Test(sealed, a_process_has_only_so_many_blocks)
{
    const struct rlimit files = {.rlim_cur = 64, .rlim_max = 64};
    const struct sealed_piece piece = {"abc", 3};
    struct sealed *blocks[17];
    size_t offset;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (size_t i = 0; i < 16; i++) {
        cr_expect_not(sealed_full());
        cr_assert_not_null(blocks[i] = sealed_copy(&piece, 1, &offset), "block %zu", i);
    }
    cr_expect(sealed_full());
    cr_expect_null(sealed_copy(&piece, 1, &offset), "a quarter of the files");
    sealed_release(blocks[0]);
    cr_expect_not_null(blocks[0] = sealed_copy(&piece, 1, &offset));
    for (size_t i = 0; i < 16; i++)
        sealed_release(blocks[i]);
}

/* A process of few files keeps the last of them for its connections. */
Test(sealed, the_last_descriptors_are_left_to_connections)
{
    const struct rlimit files = {.rlim_cur = 64, .rlim_max = 64};
    const struct sealed_piece piece = {"abc", 3};
    const struct sealed_need need = {.bytes = 8192};
    struct sealed *block, *other;
    size_t offset;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    cr_assert_not_null(block = sealed_copy(&piece, 1, &offset));
    int last = 0;
    while (last < 51)
        last = dup(0);
    cr_expect_null(sealed_copy(&piece, 1, &offset), "12 are left");
    cr_expect_not(sealed_full());
    cr_assert_eq(sealed_take(memory(8192, 8192, SEALS), &need, &other, &error), PEN_OK, "%s", error.text);
    cr_expect(sealed_full(), "what a peer sent is copied, so that its descriptor is free again");
    sealed_release(other);
    cr_expect_not(sealed_full());
    close(last);
    cr_expect_not_null(other = sealed_copy(&piece, 1, &offset));
    sealed_release(other);
    sealed_release(block);
}

Test(sealed, views_are_found_by_their_first_byte_for_as_long_as_they_are_lent)
{
    const struct sealed_piece pieces[] = {{"abc", 3}, {"defg", 4}};
    size_t offsets[2], at = 0;
    void *hints[2];
    struct sealed *block = sealed_copy(pieces, 2, offsets);
    uint8_t *first = sealed_view_new(block, offsets[0], 3, &hints[0]);
    uint8_t *second = sealed_view_new(block, offsets[1], 4, &hints[1]);
    sealed_release(block); /* the views hold it */
    cr_assert(first && second);
    cr_expect(memcmp(second, "defg", 4) == 0);
    cr_expect_eq(sealed_view_find(second, 4, &at), block);
    cr_expect_eq(at, 64);
    cr_expect_null(sealed_view_find(second, 3, &at), "another size is another frame");
    cr_expect_null(sealed_view_find(first + 1, 2, &at));
    cr_expect_null(sealed_view_find("abc", 3, &at));
    sealed_view_free(second, hints[1]);
    cr_expect_null(sealed_view_find(second, 4, &at), "it is lent no longer");
    cr_expect_eq(sealed_view_find(first, 3, &at), block);
    sealed_view_free(first, hints[0]);
}
