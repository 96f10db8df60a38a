/* A connection to one Redis that cannot begin, or whose greeting is refused: what is told, and when it is tried again. The server is played. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis_node.h"

enum { MS = 1000 };

static int server;        /* the other end of the connection */
static bool no_memory;    /* nothing can be connected */
static const char *wrong; /* why it cannot be; NULL = it can */
static unsigned changes;
static struct redis_node node;
static struct redis_place place;

redisContext *__wrap_redisConnectNonBlock(const char *host, int port);
redisContext *__real_redisConnectNonBlock(const char *host, int port);

/* A real connection on this machine, accepted. */
redisContext *__wrap_redisConnectNonBlock(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    cr_expect(strcmp(host, "there") == 0 && port == 7);
    if (no_memory)
        return NULL;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(door, (struct sockaddr *)&address, bytes) == 0 && listen(door, 1) == 0);
    cr_assert_eq(getsockname(door, (struct sockaddr *)&address, &bytes), 0);
    redisContext *redis = __real_redisConnectNonBlock("127.0.0.1", ntohs(address.sin_port));
    server = accept(door, NULL, NULL);
    cr_assert(server >= 0 && redis && redis->err == 0);
    close(door);
    if (wrong) {
        redis->err = REDIS_ERR_IO;
        strcpy(redis->errstr, wrong);
    }
    return redis;
}

static void on_answer(void *context, struct redis_node *of, struct redis_question *question, const redisReply *reply)
{
    (void)context, (void)of, (void)question, (void)reply;
    cr_assert_fail("nothing was asked");
}

static void on_change(void *context, struct redis_node *of)
{
    cr_expect(context == &place && of == &node);
    changes++;
}

static const struct redis_node_user user = {.answer = on_answer, .changed = on_change};

static void begin_as(enum redis_node_task task, uint64_t now_us)
{
    const struct redis_address address = {.host = "there", .port = 7};
    changes = 0;
    redis_node_init(&node, &address, task, &user, &place);
    cr_expect_str_eq(node.reason, "connecting");
    redis_node_begin(&node, &place, now_us);
}

/* What the server has heard; it is sent first. */
static const char *heard(uint64_t now_us)
{
    static char text[1024];
    redis_node_turn(&node, &place, false, now_us);
    ssize_t bytes = recv(server, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

static void says(const char *text, uint64_t now_us)
{
    struct pollfd come = {.fd = node.redis->fd, .events = POLLIN};
    cr_assert_eq(write(server, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(poll(&come, 1, 5000), 1);
    redis_node_turn(&node, &place, true, now_us);
}

static void expect_down(const char *reason, uint64_t retry_us)
{
    cr_expect_eq(node.state, REDIS_NODE_DOWN);
    cr_expect_str_eq(node.reason, reason);
    cr_expect_eq(node.retry_us, retry_us);
    cr_expect_eq(changes, 1);
    cr_expect(node.failing && node.news && !node.redis);
}

Test(redis_node, one_that_cannot_connect_says_why)
{
    no_memory = true;
    begin_as(REDIS_TASK_KEYS, 5 * MS);
    expect_down("no memory", 255 * MS);
    redis_node_begin(&node, &place, 300 * MS);
    cr_expect(!node.news && node.failing && changes == 2, "told once");
    no_memory = false;
    wrong = "Network is unreachable";
    begin_as(REDIS_TASK_KEYS, 5 * MS);
    expect_down("Network is unreachable", 255 * MS);
    close(server);
}

#define SELECT "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
#define AUTH   "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"
#define NAMED  "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n"
#define ROLE   "*1\r\n$4\r\nROLE\r\n"
#define PING   "*1\r\n$4\r\nPING\r\n"
#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define SLAVE  "*3\r\n$5\r\nslave\r\n:0\r\n*0\r\n"

Test(redis_node, a_greeting_says_what_is_needed)
{
    static const struct {
        enum redis_node_task task;
        const char *user, *password, *greets, *answers, *reason; /* reason NULL: it is up then */
    } rows[] = {
        {REDIS_TASK_KEYS, "", "", SELECT, "+OK\r\n", NULL},
        {REDIS_TASK_KEYS, "", "secret", AUTH SELECT, "+OK\r\n+OK\r\n", NULL},
        {REDIS_TASK_KEYS, "me", "secret", NAMED SELECT, "+OK\r\n+OK\r\n", NULL},
        {REDIS_TASK_MASTER, "", "", SELECT ROLE, "+OK\r\n" MASTER, NULL},
        {REDIS_TASK_MASTER, "me", "secret", NAMED SELECT ROLE, "+OK\r\n+OK\r\n" MASTER, NULL},
        {REDIS_TASK_KEYS, "", "secret", AUTH SELECT, "-WRONGPASS no\r\n", "WRONGPASS no"},
        {REDIS_TASK_KEYS, "", "", SELECT, "-ERR DB index is out of range\r\n", "ERR DB index is out of range"},
        {REDIS_TASK_KEYS, "", "", SELECT, ":1\r\n", "it gave an answer that no Redis gives"},
        {REDIS_TASK_MASTER, "", "", SELECT ROLE, "+OK\r\n" SLAVE, "the server that the Sentinels name is no master"},
        {REDIS_TASK_MASTER, "", "", SELECT ROLE, "+OK\r\n*0\r\n", "the server that the Sentinels name is no master"},
        {REDIS_TASK_MASTER, "", "", SELECT ROLE, "+OK\r\n+OK\r\n", "the server that the Sentinels name is no master"},
        {REDIS_TASK_WATCH, "", "secret", PING, "-ERR no\r\n", "ERR no"},
        {REDIS_TASK_WATCH, "", "", PING, "-NOAUTH no\r\n", "NOAUTH no"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        place = (struct redis_place){.database = 3};
        strcpy(place.user, rows[i].user);
        strcpy(place.password, rows[i].password);
        begin_as(rows[i].task, 5 * MS);
        cr_expect_eq(node.state, REDIS_NODE_GREETING);
        cr_expect_str_eq(heard(6 * MS), rows[i].greets, "row %zu", i);
        cr_expect_eq(changes, 0);
        says(rows[i].answers, 7 * MS);
        if (rows[i].reason) {
            expect_down(rows[i].reason, 257 * MS);
        } else {
            cr_expect(node.state == REDIS_NODE_UP && node.up_us == 7 * MS && changes == 1, "row %zu", i);
            redis_node_close(&node, NULL, 8 * MS);
            cr_expect(changes == 1 && !node.failing, "it is not needed any more");
        }
        close(server);
    }
}

Test(redis_node, a_sentinel_that_wants_a_password_gets_that_of_redis)
{
    strcpy(place.password, "secret");
    begin_as(REDIS_TASK_WATCH, 5 * MS);
    cr_expect_str_eq(heard(6 * MS), PING);
    says("-NOAUTH Authentication required.\r\n", 7 * MS);
    cr_expect_eq(node.state, REDIS_NODE_GREETING);
    cr_expect_str_eq(heard(7 * MS), AUTH);
    says("+OK\r\n", 8 * MS);
    cr_expect_eq(node.state, REDIS_NODE_UP);
    redis_node_close(&node, NULL, 8 * MS);
    close(server);
}

Test(redis_node, a_silent_greeting_has_a_quarter_of_a_second)
{
    begin_as(REDIS_TASK_KEYS, 5 * MS);
    heard(5 * MS);
    cr_expect_eq(redis_node_due_us(&node), 255 * MS);
    redis_node_turn(&node, &place, false, 255 * MS - 1);
    cr_expect_eq(node.state, REDIS_NODE_GREETING);
    redis_node_turn(&node, &place, false, 255 * MS);
    cr_expect_eq(node.state, REDIS_NODE_DOWN);
    cr_expect_eq(node.retry_us, 505 * MS);
    close(server);
}
