/* Parcels: who is bound, what arrives, and what a peer cannot do by lying: with tokens, tables, descriptors, numbers, silence. */
#include "parcel_door.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct parcel_limits any = {.whole = true};
static struct parcel_door door;
static struct parcel_link peer, broker;
static uint8_t secret[PARCEL_SECRET_BYTES];
static struct pen_error error;

static void begin(void)
{
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)(i + 1);
    cr_assert_eq(parcel_door_open(&door, &error), PEN_OK, "%s", error.text);
}

static void end(void)
{
    parcel_close(&peer);
    parcel_close(&broker);
    parcel_door_close(&door);
}

TestSuite(parcel, .init = begin, .fini = end);

static void bind_both(void)
{
    struct parcel_claim claim;
    int fd = -1;
    cr_assert(parcel_ask(&peer, door.name, secret, 77, true));
    cr_assert_not(parcel_ready(&peer), "nobody has answered");
    cr_assert(parcel_door_next(&door, 0, &claim, &fd));
    cr_expect(claim.uuid == 77 && claim.worker);
    cr_assert(parcel_bind(&broker, fd, &claim, secret));
    cr_assert(parcel_ready(&peer));
}

static size_t files_open(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static struct sealed *block_of(const char *text)
{
    size_t offset;
    const struct sealed_piece piece = {text, strlen(text)};
    struct sealed *block = sealed_copy(&piece, 1, &offset);
    cr_assert_not_null(block);
    return block;
}

static uint32_t send_text(const char *text)
{
    struct parcel parcel = {.number = 0};
    struct sealed *block = block_of(text);
    cr_assert(parcel_add(&parcel, block, 0, strlen(text)));
    cr_assert(parcel_send(&peer, &parcel));
    sealed_release(block);
    return parcel.number;
}

static void expect_text(uint32_t number, const char *text)
{
    struct parcel parcel;
    cr_assert_eq(parcel_take(&broker, number, &any, &parcel, &error), PEN_OK, "%s", error.text);
    cr_expect(parcel.number == number && parcel.frames_count == 1 && parcel_bytes(&parcel) == strlen(text));
    cr_expect(memcmp(sealed_data(parcel.blocks[0]), text, strlen(text)) == 0);
    parcel_drop(&parcel);
}

Test(parcel, frames_of_several_blocks_arrive_as_they_were)
{
    struct parcel parcel = {.number = 0}, came;
    struct sealed *blocks[] = {block_of("abcdef"), block_of("gh")};
    bind_both();
    cr_assert(parcel_add(&parcel, blocks[0], 0, 6) && parcel_add(&parcel, blocks[1], 0, 2) &&
              parcel_add(&parcel, blocks[0], 4, 2));
    cr_expect_eq(parcel.blocks_count, 2, "a block goes once");
    cr_assert(parcel_send(&peer, &parcel));
    cr_assert_eq(parcel_take(&broker, parcel.number, &any, &came, &error), PEN_OK, "%s", error.text);
    cr_assert(came.frames_count == 3 && came.blocks_count == 2);
    cr_expect(memcmp(sealed_data(came.blocks[came.frames[2].block]) + came.frames[2].offset, "ef", 2) == 0);
    cr_expect(memcmp(sealed_data(came.blocks[came.frames[1].block]), "gh", 2) == 0);
    parcel_drop(&came);
    sealed_release(blocks[0]);
    sealed_release(blocks[1]);
}

Test(parcel, what_no_message_names_is_closed)
{
    bind_both();
    expect_text(send_text("zero"), "zero"); /* from then on the files of our control group are open */
    size_t before = files_open();
    send_text("one");
    send_text("two");
    expect_text(send_text("three"), "three");
    cr_expect_eq(files_open(), before);
}

Test(parcel, a_number_that_was_not_sent_ends_the_socket)
{
    struct parcel parcel;
    bind_both();
    uint32_t number = send_text("one");
    cr_expect_eq(parcel_take(&broker, number + 1, &any, &parcel, &error), PEN_ERR_CORRUPT);
    cr_expect(strstr(error.text, "not sent before"), "%s", error.text);
    cr_expect_eq(broker.state, PARCEL_NONE);
    cr_expect_eq(parcel_take(&broker, number, &any, &parcel, &error), PEN_ERR_CORRUPT, "nor is there another one");
    struct sealed *block = block_of("two");
    struct parcel late = {.number = 0};
    cr_assert(parcel_add(&late, block, 0, 3));
    cr_expect_not(parcel_send(&peer, &late), "the peer sends bytes from now on");
    cr_expect_eq(peer.state, PARCEL_NONE);
    sealed_release(block);
}

Test(parcel, limits_hold)
{
    const struct parcel_limits frames = {.frame_bytes_max = 4}, all = {.bytes_max = 4};
    struct parcel parcel;
    bind_both();
    cr_expect_eq(parcel_take(&broker, send_text("12345"), &frames, &parcel, &error), PEN_ERR_CORRUPT);
    parcel_close(&peer);
    bind_both();
    cr_expect_eq(parcel_take(&broker, send_text("12345"), &all, &parcel, &error), PEN_ERR_CORRUPT);
}

Test(parcel, a_peer_that_does_not_read_gets_bytes_and_stays_bound)
{
    struct parcel parcel = {.number = 0};
    struct sealed *block = block_of("abc");
    unsigned sent = 0;
    bind_both();
    cr_assert(parcel_add(&parcel, block, 0, 3));
    while (sent < 100000 && parcel_send(&peer, &parcel))
        sent++;
    cr_expect(sent > 1 && sent < 100000, "the kernel takes only so many: %u", sent);
    cr_expect_eq(peer.state, PARCEL_BOUND);
    sealed_release(block);
}

Test(parcel, the_wrong_token_binds_nobody)
{
    struct parcel_claim claim;
    uint8_t other[PARCEL_SECRET_BYTES];
    int fd = -1;
    memcpy(other, secret, sizeof other);
    other[PARCEL_TOKEN_BYTES - 1] ^= 1;
    cr_assert(parcel_ask(&peer, door.name, other, 77, false));
    cr_assert(parcel_door_next(&door, 0, &claim, &fd));
    cr_expect_not(claim.worker);
    cr_expect_not(parcel_bind(&broker, fd, &claim, secret));
    cr_expect_eq(broker.state, PARCEL_NONE);
    cr_expect_not(parcel_ready(&peer));
    cr_expect_eq(peer.state, PARCEL_NONE, "the socket is closed");
}

Test(parcel, a_socket_that_is_not_the_brokers_gets_nothing)
{
    struct parcel_claim claim;
    uint8_t other[PARCEL_SECRET_BYTES];
    int fd = -1;
    memcpy(other, secret, sizeof other);
    other[PARCEL_SECRET_BYTES - 1] ^= 1; /* it knows the token, which it was told just now, and not the answer */
    cr_assert(parcel_ask(&peer, door.name, secret, 77, false));
    cr_assert(parcel_door_next(&door, 0, &claim, &fd));
    cr_assert(parcel_bind(&broker, fd, &claim, other));
    cr_expect_not(parcel_ready(&peer));
    cr_expect_eq(peer.state, PARCEL_NONE);
}

Test(parcel, a_name_that_is_not_here_is_another_host)
{
    cr_expect_not(parcel_ask(&peer, "penstock-nowhere", secret, 1, false));
    cr_expect_not(parcel_ask(&peer, "", secret, 1, false));
    cr_expect_eq(peer.state, PARCEL_NONE);
}

static int stranger(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path + 1, door.name, strlen(door.name));
    cr_assert_eq(connect(fd, (struct sockaddr *)&address,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(door.name))),
                 0);
    return fd;
}

Test(parcel, silent_and_babbling_strangers_are_shown_out)
{
    struct parcel_claim claim;
    int fd = -1, silent = stranger(), babbling = stranger();
    cr_assert_eq(send(babbling, "let me in, I am a friend of yours", 33, 0), 33);
    cr_expect_not(parcel_door_next(&door, 1000, &claim, &fd));
    cr_expect_eq(door.count, 1, "only the silent one may still say something");
    cr_expect_not(parcel_door_next(&door, 1000 + PARCEL_PATIENCE, &claim, &fd));
    cr_expect_eq(door.count, 0);
    close(silent);
    close(babbling);
}

Test(parcel, a_crowd_of_strangers_waits_outside)
{
    struct parcel_claim claim;
    int fd = -1, fds[PARCEL_STRANGERS + 1];
    for (size_t i = 0; i < PARCEL_STRANGERS + 1; i++)
        fds[i] = stranger();
    cr_expect_not(parcel_door_next(&door, 0, &claim, &fd));
    cr_expect_eq(door.count, PARCEL_STRANGERS);
    for (size_t i = 0; i < PARCEL_STRANGERS + 1; i++)
        close(fds[i]);
    cr_assert(parcel_ask(&peer, door.name, secret, 5, false));
    cr_assert(parcel_door_next(&door, 0, &claim, &fd) || parcel_door_next(&door, 0, &claim, &fd));
    cr_expect_eq(claim.uuid, 5, "who comes later is heard all the same");
    close(fd);
}

/* One datagram with one frame of 4 bytes; changed byte by byte it is never believed beyond its descriptors. */
Test(parcel, tables_are_read_with_care)
{
    const struct parcel_limits limits = {.frame_bytes_max = 1u << 20};
    uint32_t words[10] = {0x4C524350u, 4, 1, 1, 0, 0, 0, 0, 4, 0};
    uint8_t bytes[sizeof words];
    struct parcel parcel;
    memcpy(bytes, words, sizeof words);
    cr_expect(parcel_read(bytes, sizeof bytes, 1, &limits, &parcel));
    cr_expect_not(parcel_read(bytes, sizeof bytes, 0, &limits, &parcel), "no descriptor came");
    cr_expect_not(parcel_read(bytes, sizeof bytes - 1, 1, &limits, &parcel));
    cr_expect_not(parcel_read(bytes, 16, 1, &limits, &parcel));
    static const uint32_t bad[][2] = {{0, 1},  {1, 3}, {2, 0}, {3, 0}, {3, 2},
                                      {3, 65}, {4, 1}, {8, 0}, {9, 1}, {7, ~0u}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t changed[10];
        memcpy(changed, words, sizeof changed);
        changed[bad[i][0]] = bad[i][1];
        memcpy(bytes, changed, sizeof bytes);
        cr_expect_not(parcel_read(bytes, sizeof bytes, 1, &limits, &parcel), "word %u = %u", bad[i][0], bad[i][1]);
    }
}
