/* test_mirror.c - what a mirror answers, its bound, and who is asked for a content. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "content_key.h"
#include "mirror.h"
#include "peers.h"

static char work[64];
static struct store *store;
static struct mirror *mirror;
static struct content_digest digest;

static void begin(void)
{
    struct pen_error error = {.status = PEN_OK};
    strcpy(work, "/tmp/penstock-mirror-XXXXXX");
    cr_assert(mkdtemp(work) != NULL);
    cr_assert_eq(store_open(work, 0, &store, &error), PEN_OK, "%s", error.text);
    digest = content_digest_of("0123456789", 10);
    cr_assert_eq(store_blob_put(store, &digest, "0123456789", 10, &error), PEN_OK);
    cr_assert_eq(mirror_start("127.0.0.1:*", store, 2, &mirror, &error), PEN_OK, "%s", error.text);
}

static void end(void)
{
    mirror_stop(mirror);
    store_close(store);
    disk_remove(work);
}

TestSuite(mirror, .init = begin, .fini = end);

static int connected(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_port = htons((uint16_t)atoi(strrchr(mirror_address(mirror), ':') + 1));
    cr_assert(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static const char *ask(const char *method, const char *path, const char *header)
{
    static char answer[2048];
    char request[512];
    int fd = connected();
    int bytes = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n", method, path, header);
    ssize_t got = 0, used = 0;
    cr_assert(send(fd, request, (size_t)bytes, MSG_NOSIGNAL) == bytes);
    while ((got = recv(fd, answer + used, sizeof answer - 1 - (size_t)used, 0)) > 0)
        used += got;
    answer[used] = '\0';
    close(fd);
    return answer;
}

static const char *blob_path(const struct content_digest *of)
{
    static char path[PLACE_KEY_BYTES + 1];
    path[0] = '/';
    content_key(of, path + 1);
    return path;
}

Test(mirror, contents_go_out_whole_and_in_parts)
{
    cr_assert(strstr(ask("GET", blob_path(&digest), ""), "200 OK") &&
              strstr(ask("GET", blob_path(&digest), ""), "\r\n\r\n0123456789"));
    const char *part = ask("GET", blob_path(&digest), "Range: bytes=3-5\r\n");
    cr_assert(strstr(part, "206 ") && strstr(part, "bytes 3-5/10") && strstr(part, "\r\n\r\n345"), "%s", part);
    part = ask("GET", blob_path(&digest), "range: bytes=8-\r\n");
    cr_assert(strstr(part, "bytes 8-9/10") && strstr(part, "\r\n\r\n89"), "%s", part);
    cr_assert(strstr(ask("GET", blob_path(&digest), "Range: bytes=10-\r\n"), "416 "));
    part = ask("HEAD", blob_path(&digest), "");
    cr_assert(strstr(part, "Content-Length: 10") && !strstr(part, "0123456789"), "%s", part);
    cr_assert_geq(mirror_sent_bytes(mirror), 23);
}

Test(mirror, nothing_else_goes_out)
{
    static const char *const paths[] = {"/",
                                        "/blobs/sha256/../../known/x",
                                        "/blobs/sha256/",
                                        "/models",
                                        "/partial/x",
                                        "//etc/passwd",
                                        "/blobs/sha256/0123"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        cr_assert(strstr(ask("GET", paths[i], ""), "404 "), "%s", paths[i]);
    cr_assert(strstr(ask("PUT", blob_path(&digest), "Content-Length: 0\r\n"), "405 "));
    cr_assert(strstr(ask("GET", "/peer", ""), mirror_id(mirror)));
}

Test(mirror, a_content_on_its_way_is_worth_a_wait)
{
    struct content_digest other = content_digest_of("other", 5);
    struct manifest manifest = {.version = 1};
    cr_assert(strstr(ask("GET", blob_path(&other), ""), "404 "));
    cr_assert_eq(manifest_add(&manifest, "x", 5, &other, NULL), PEN_OK);
    mirror_expect(mirror, &manifest);
    cr_assert(strstr(ask("GET", blob_path(&other), ""), "503 "));
    mirror_expect(mirror, NULL);
    cr_assert(strstr(ask("GET", blob_path(&other), ""), "404 "));
    manifest_fini(&manifest);
}

Test(mirror, a_worker_asks_the_others_and_finds_itself)
{
    struct peers *peers = NULL;
    struct place *place = NULL;
    struct pen_error error = {.status = PEN_OK};
    char list[200];
    snprintf(list, sizeof list, "%s, 127.0.0.1:1", mirror_address(mirror));
    cr_assert_eq(peers_new(list, "", NULL, &peers, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(peers_find(peers, &digest, &place), PEERS_HAVE);
    peers_blame(peers, place);
    cr_assert_eq(peers_find(peers, &digest, &place), PEERS_NONE, "who lied is not asked again");
    peers_free(peers);
    cr_assert_eq(peers_new(list, mirror_id(mirror), NULL, &peers, &error), PEN_OK);
    cr_assert_eq(peers_find(peers, &digest, &place), PEERS_NONE, "it is our own turn");
    peers_free(peers);
    cr_assert_eq(peers_new("host", "", NULL, &peers, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "HOST:PORT"), "%s", error.text);
}
