#include "http_connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "slow_peer.h"

#define LINGER_US     1000000u
#define SPARE_HEAD_US 2000000u

static void enter(struct http_connection *connection, enum connection_state state)
{
    connection->state = state;
    connection->guest.since_us = clock_now_us();
}

void connection_close(struct http_connection *connection)
{
    struct http_work *work = connection->work;
    if (connection->state == CONNECTION_CLOSED)
        return;
    bool waits = connection->state == CONNECTION_WAIT;
    if (waits || connection->state == CONNECTION_WRITE)
        connection->shared->under_way--;
    connection->state = CONNECTION_CLOSED;
    if (waits && work->request.gone)
        work->request.gone(work->request.waiter);
    if (work) {
        connection->shared->counts.bytes_in += work->received;
        connection->shared->counts.bytes_out += work->sent;
    }
    http_work_free(work, &connection->shared->shelf);
    connection->work = NULL;
    close(connection->guest.fd);
    connection->guest.fd = -1;
    connection->shared->ended(connection->shared, connection);
}

/* ---- the parts of connection_run: each returns whether there is more to do now ---- */

/* A request that cannot be one is told why, and its connection ends. */
static bool refuse(struct http_connection *connection, const char *why)
{
    struct http_work *work = connection->work;
    connection->shared->counts.bad++;
    connection->shared->under_way++;
    work->close = true;
    enter(connection, CONNECTION_WAIT);
    http_answer_error(&work->request, work->status, NULL, why);
    return connection->state == CONNECTION_WRITE;
}

static bool stand_by(struct http_connection *connection, enum http_progress progress, const char *why)
{
    if (progress == HTTP_BAD)
        return refuse(connection, why);
    if (progress == HTTP_TIRED)
        connection->shared->again(connection->shared, connection);
    if (progress == HTTP_ENDED)
        connection_close(connection);
    return false;
}

static bool run_head(struct http_connection *connection)
{
    const struct http_server_options *options = &connection->shared->options;
    const char *why = NULL;
    if (!connection->work && !(connection->work = http_work_new(&connection->shared->shelf))) {
        connection_close(connection);
        return false;
    }
    bool began = connection->work->used > 0;
    connection->work->request.connection = connection;
    enum http_progress progress =
        http_receive_head(connection->work, connection->guest.fd, options->head_max, options->body_max, &why);
    if (!began && connection->work->used > 0)
        connection->guest.since_us = clock_now_us();
    if (progress == HTTP_WAITS && connection->work->used == 0) { /* nothing to keep */
        http_work_free(connection->work, &connection->shared->shelf);
        connection->work = NULL;
        return false;
    }
    if (progress != HTTP_DONE)
        return stand_by(connection, progress, why);
    if (connection->work->request.head.expects)
        (void)!send(connection->guest.fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
    enter(connection, CONNECTION_BODY);
    return true;
}

static bool run_body(struct http_connection *connection)
{
    struct http_work *work = connection->work;
    struct connection_shared *shared = connection->shared;
    const char *why = NULL;
    enum http_progress progress = http_receive_body(work, connection->guest.fd, shared->options.body_max, &why);
    if (progress != HTTP_DONE)
        return stand_by(connection, progress, why);
    struct http_request *request = &work->request;
    request->connection = connection;
    request->local = connection->guest.local;
    request->spare = connection->guest.spare;
    request->began_us = connection->guest.since_us;
    work->close = !request->head.keep_alive || connection->guest.spare || shared->draining;
    shared->under_way++;
    enter(connection, CONNECTION_WAIT);
    shared->options.on_request(shared->options.context, request);
    if (connection->state == CONNECTION_WAIT && connection->hung_up)
        connection_close(connection);
    return connection->state == CONNECTION_WRITE;
}

static bool run_write(struct http_connection *connection)
{
    struct http_work *work = connection->work;
    struct connection_shared *shared = connection->shared;
    enum http_progress progress = http_reply_send(work, connection->guest.fd);
    if (progress != HTTP_DONE)
        return stand_by(connection, progress, NULL);
    shared->under_way--;
    shared->counts.bytes_in += work->received;
    shared->counts.bytes_out += work->sent;
    bool close = work->close || connection->hung_up;
    work->received = work->sent = 0;
    if (close) {
        shutdown(connection->guest.fd, SHUT_WR);
        enter(connection, CONNECTION_LINGER);
        return true;
    }
    http_work_reset(work);
    enter(connection, CONNECTION_HEAD);
    return true;
}

static bool run_linger(struct http_connection *connection)
{
    char rest[4096];
    ssize_t count;
    for (unsigned i = 0; i < 16; i++) {
        count = recv(connection->guest.fd, rest, sizeof rest, 0);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
            connection_close(connection);
            return false;
        }
        if (count < 0)
            return false;
    }
    connection->shared->again(connection->shared, connection);
    return false;
}

void connection_run(struct http_connection *connection)
{
    static bool (*const runs[])(struct http_connection *) = {[CONNECTION_HEAD] = run_head,
                                                             [CONNECTION_BODY] = run_body,
                                                             [CONNECTION_WRITE] = run_write,
                                                             [CONNECTION_LINGER] = run_linger};
    if (connection->running)
        return;
    connection->running = true;
    while (connection->state != CONNECTION_WAIT && connection->state != CONNECTION_CLOSED &&
           runs[connection->state](connection)) {
    }
    connection->running = false;
}

void connection_ready(struct http_connection *connection)
{
    if (connection->work)
        connection->work->drained = false;
    connection_run(connection);
}

void connection_hang_up(struct http_connection *connection)
{
    connection->hung_up = true;
    if (connection->state == CONNECTION_WAIT)
        connection_close(connection);
}

/* ---- answers ---- */

void http_answer(struct http_request *request, struct http_answer *answer)
{
    struct http_connection *connection = request->connection;
    struct http_work *work = connection->work;
    work->close |= answer->close;
    request->gone = NULL;
    enter(connection, CONNECTION_WRITE);
    if (http_reply_begin(work, answer) != HTTP_DONE)
        connection_close(connection);
    else
        connection_run(connection);
}

void http_answer_error(struct http_request *request, unsigned status, const char *headers, const char *text)
{
    struct http_answer answer = {.status = status, .type = "application/json", .headers = headers};
    bytes_text(&answer.text, "{\"error\":");
    bytes_json_text(&answer.text, text);
    bytes_text(&answer.text, "}");
    if (answer.text.failed)
        bytes_fini(&answer.text);
    http_answer(request, &answer);
}

/* ---- time ---- */

bool connection_is_idle(const struct http_connection *connection)
{
    return connection->state == CONNECTION_HEAD && !connection->work;
}

static bool is_late(const struct http_connection *connection, uint64_t now_us)
{
    const struct http_server_options *options = &connection->shared->options;
    uint64_t spent_us = now_us > connection->guest.since_us ? now_us - connection->guest.since_us : 0;
    switch (connection->state) {
    case CONNECTION_HEAD:
        if (connection->guest.spare)
            return spent_us > SPARE_HEAD_US;
        return spent_us > (connection->work ? options->head_us : options->idle_us);
    case CONNECTION_BODY:
        return peer_is_slow(spent_us, connection->work->received);
    case CONNECTION_WRITE:
        return peer_is_slow(spent_us, connection->work->sent);
    case CONNECTION_LINGER:
        return spent_us > LINGER_US;
    default:
        return false;
    }
}

void connection_look(struct http_connection *connection, uint64_t now_us)
{
    if (!is_late(connection, now_us))
        return;
    bool asking = connection->work && (connection->state == CONNECTION_HEAD || connection->state == CONNECTION_BODY);
    connection->shared->counts.late += connection->state != CONNECTION_LINGER && !connection_is_idle(connection);
    if (!asking) {
        connection_close(connection);
        return;
    }
    connection->work->status = 408;
    if (refuse(connection, "the request came too slowly"))
        connection_run(connection);
}
