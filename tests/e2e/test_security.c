/* Real programs with keys: who comes in, who does not, what is written down, and that no secret shows anywhere. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "pool.h"

#define KEY_TEXT 65

static char folder[FOLDER_PATH_BYTES];
static char keys[FOLDER_PATH_BYTES + 16], broker_file[FOLDER_PATH_BYTES + 16], broker_key[KEY_TEXT],
    audit[FOLDER_PATH_BYTES + 16];
static struct pool pool;

static const char *file_of(const char *name, char path[FOLDER_PATH_BYTES + 16])
{
    snprintf(path, FOLDER_PATH_BYTES + 16, "%s/%s", folder, name);
    return path;
}

/* Makes FOLDER/NAME and returns its line for the list of keys (free it). */
static char *keygen(const char *name, const char *roles)
{
    char path[FOLDER_PATH_BYTES + 16], *out = NULL, *err = NULL;
    const char *const argv[] = {"penstock", "keygen", file_of(name, path), "--name", name, "--roles", roles, NULL};
    cr_assert_eq(process_run(argv, 30000, &out, &err), 0, "%s", err);
    free(err);
    return out;
}

static char *slurp(const char *path)
{
    static char text[65536];
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void allow(const char *const lines[], size_t count)
{
    char other[FOLDER_PATH_BYTES + 16];
    FILE *file = fopen(file_of("keys.new", other), "w");
    for (size_t i = 0; i < count; i++)
        fputs(lines[i], file);
    fclose(file);
    cr_assert_eq(rename(other, keys), 0);
}

static char *alice, *ops, *worker_line;

static void setup(void)
{
    folder_new(folder);
    file_of("keys", keys);
    file_of("broker", broker_file);
    file_of("audit", audit);
    char *own = keygen("broker", "admin");
    memcpy(broker_key, own, KEY_TEXT - 1);
    free(own);
    alice = keygen("alice", "submit");
    ops = keygen("ops", "admin,observe");
    worker_line = keygen("worker", "worker");
    allow((const char *const[]){alice, ops, worker_line}, 3);
}

static void teardown(void)
{
    free(alice);
    free(ops);
    free(worker_line);
    folder_free(folder);
}

TestSuite(security, .init = setup, .fini = teardown);

static void start(void)
{
    char path[FOLDER_PATH_BYTES + 16];
    pool_start(&pool, (const char *const[]){"--key", broker_file, "--keys", keys, "--audit-log", audit, "--http",
                                            "none", NULL});
    pool_add_worker(&pool, "xnnpack", NULL,
                    (const char *const[]){"--key", file_of("worker", path), "--broker-key", broker_key, NULL});
}

static int ask_as(const char *name, const char *verb, const char *argument, const char *timeout, char **ret_err)
{
    char path[FOLDER_PATH_BYTES + 16], *out = NULL, *err = NULL;
    const char *argv[16] = {"penstock", verb, "--broker", pool.clients, "--timeout", timeout};
    size_t count = 6;
    if (name) {
        argv[count++] = "--key";
        argv[count++] = file_of(name, path);
        argv[count++] = "--broker-key";
        argv[count++] = broker_key;
    }
    argv[count++] = argument;
    int code = process_run(argv, 30000, &out, &err);
    free(out);
    *ret_err = err;
    return code;
}

/* Who is to come in may be kept waiting by a busy machine; who is not tries until the time is over. */
static void expect(const char *name, const char *verb, const char *argument, int code, const char *says)
{
    char *err = NULL;
    int got = ask_as(name, verb, argument, code != 3 ? "20s" : says ? "5s" : "1500ms", &err);
    cr_assert_eq(got, code, "%s as %s gave %d: %s", verb, name ? name : "nobody", got, err);
    cr_assert(!says || strstr(err, says), "%s as %s: %s", verb, name ? name : "nobody", err);
    free(err);
}

Test(security, only_keys_of_the_list_come_in_and_roles_bind_them)
{
    char *stranger = keygen("stranger", "submit");
    start();
    expect("alice", "models", NULL, 0, NULL);
    expect("alice", "workers", NULL, 1, "lacks the role");
    expect("alice", "drain", "w", 1, "lacks the role");
    expect("ops", "workers", NULL, 0, NULL);
    expect("stranger", "models", NULL, 3, "handshake failed");
    expect("worker", "models", NULL, 1, "has the role worker alone");
    expect(NULL, "models", NULL, 3, NULL);
    expect("ops", "cancel", "0123456789abcdef-9", 1, "no job of that id");
    const char *written = slurp(audit);
    cr_assert_not_null(strstr(written, "who=\"alice\""), "%s", written);
    cr_assert_not_null(strstr(written, "verb=drain argument=\"w\" status=DENIED"), "%s", written);
    cr_assert_not_null(strstr(written, "who=\"ops\""), "%s", written);
    free(stranger);
    pool_stop(&pool);
}

Test(security, wrong_broker_key_is_no_connection)
{
    char *err = NULL, right[KEY_TEXT];
    start();
    memcpy(right, broker_key, KEY_TEXT);
    memcpy(broker_key, alice, KEY_TEXT - 1); /* somebody else's public key */
    cr_assert_eq(ask_as("alice", "models", NULL, "1500ms", &err), 3, "%s", err);
    memcpy(broker_key, right, KEY_TEXT);
    free(err);
    pool_stop(&pool);
}

Test(security, keys_come_and_go_without_a_restart)
{
    char *bob = keygen("bob", "submit");
    start();
    expect("bob", "models", NULL, 3, NULL);
    allow((const char *const[]){alice, ops, worker_line, bob}, 4);
    cr_assert(process_wait_text(pool.broker, "evt=keys_read", 10000));
    expect("bob", "models", NULL, 0, NULL);
    allow((const char *const[]){ops, bob}, 2);
    cr_assert(process_wait_text(pool.broker, "evt=worker_revoked", 10000));
    expect("alice", "models", NULL, 3, NULL);
    expect("bob", "models", NULL, 0, NULL);
    FILE *file = fopen(keys, "a");
    fputs("nonsense\n", file);
    fclose(file);
    cr_assert(process_wait_text(pool.broker, "evt=keys_bad", 10000));
    expect("bob", "models", NULL, 0, NULL);
    free(bob);
    process_signal(pool.workers[0], 9); /* it is denied, and would wait for its line */
    pool_stop(&pool);
}

/* The first bytes of the list, overwritten where they are: what a power cut leaves. */
static void overwrite(const char *bytes, size_t count)
{
    FILE *file = fopen(keys, "r+");
    cr_assert_eq(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

Test(security, damaged_list_shows_nobody_out)
{
    static const char zeros[150];
    start();
    overwrite(zeros, sizeof zeros);
    cr_assert(process_wait_text(pool.broker, "a byte of the list is 0", 10000));
    expect("alice", "models", NULL, 0, NULL);
    expect("ops", "drain", "nobody", 1, "no worker of that name");
    cr_assert_null(strstr(process_err(pool.broker), "evt=worker_revoked"));
    cr_assert(process_alive(pool.workers[0]));
    char *err = NULL;
    const char *const argv[] = {"penstock-broker",
                                "--listen-clients",
                                "tcp://127.0.0.1:*",
                                "--listen-workers",
                                "tcp://127.0.0.1:*",
                                "--http",
                                "none",
                                "--key",
                                broker_file,
                                "--keys",
                                keys,
                                NULL};
    cr_assert_neq(process_run(argv, 30000, NULL, &err), 0, "nothing starts with it");
    cr_assert_not_null(strstr(err, "a byte of the list is 0"), "%s", err);
    free(err);
    pool_stop(&pool);
}

/* Cut behind a line a list looks whole, so the worker is shown out. It is to be there again when its line is. */
Test(security, worker_comes_back_with_the_right_list)
{
    start();
    allow((const char *const[]){alice, ops}, 2);
    cr_assert(process_wait_text(pool.broker, "evt=worker_revoked", 10000));
    cr_assert(process_wait_text(pool.workers[0], "evt=denied", 20000));
    support_sleep_ms(2500); /* it knocks with a new connection meanwhile, which is not even answered */
    cr_assert(process_alive(pool.workers[0]));
    size_t said = strlen(process_err(pool.workers[0]));
    allow((const char *const[]){alice, ops, worker_line}, 3);
    for (int i = 0; i < 200 && !strstr(process_err(pool.workers[0]) + said, "evt=welcome"); i++)
        support_sleep_ms(100);
    cr_assert_not_null(strstr(process_err(pool.workers[0]) + said, "evt=welcome"), "%s", process_err(pool.workers[0]));
    pool_stop(&pool);
}

/* Starts a worker with that key at that endpoint: it must end with 4 and say so. */
static void worker_is_told(const char *name, const char *endpoint, const char *says)
{
    char path[FOLDER_PATH_BYTES + 16], *err = NULL;
    const char *const argv[] = {"penstock-worker",   "--models",     POOL_DIGITS_MODELS, "--backend",
                                "reference",         "--broker",     endpoint,           "--key",
                                file_of(name, path), "--broker-key", broker_key,         NULL};
    cr_assert_eq(process_run(argv, 60000, NULL, &err), 4, "%s", err);
    cr_assert_not_null(strstr(err, says), "%s", err);
    free(err);
}

Test(security, who_knocks_at_the_wrong_port_is_told)
{
    char clients[sizeof pool.clients];
    start();
    worker_is_told("worker", pool.clients, "this is the broker's port for clients; its port for workers is");
    worker_is_told("alice", pool.workers_endpoint, "the key of alice lacks the role worker");
    memcpy(clients, pool.clients, sizeof clients);
    memcpy(pool.clients, pool.workers_endpoint, sizeof pool.workers_endpoint);
    expect("alice", "models", NULL, 2, "this is the broker's port for workers; its port for clients is");
    expect("worker", "models", NULL, 2, "this is the broker's port for workers");
    memcpy(pool.clients, clients, sizeof clients);
    pool_stop(&pool);
}

/* Without keys, too: PENSTOCK_BROKER of a client in a worker's environment. */
Test(security, worker_at_the_port_for_clients_ends_with_the_reason)
{
    char *err = NULL;
    pool_start(&pool, (const char *const[]){"--http", "none", NULL});
    const char *const argv[] = {"penstock-worker", "--models", POOL_DIGITS_MODELS, "--backend",
                                "reference",       "--broker", pool.clients,       NULL};
    cr_assert_eq(process_run(argv, 60000, NULL, &err), 4, "%s", err);
    cr_assert_not_null(strstr(err, "this is the broker's port for clients; its port for workers is"), "%s", err);
    cr_assert_not_null(strstr(err, strrchr(pool.workers_endpoint, ':') + 1), "%s", err);
    free(err);
    pool_stop(&pool);
}

/* As deploy/README.md writes it. */
Test(security, list_is_written_and_sealed_by_the_commands)
{
    char path[FOLDER_PATH_BYTES + 16], list[FOLDER_PATH_BYTES + 16], *out = NULL, *err = NULL;
    file_of("list", list);
    for (int i = 0; i < 2; i++) {
        char name[2] = {(char)('x' + i), '\0'};
        const char *const argv[] = {
            "penstock", "keygen", file_of(name, path), "--name", name, "--roles", "submit", "--list", list, NULL};
        cr_assert_eq(process_run(argv, 30000, NULL, NULL), 0);
        const char *const check[] = {"penstock", "keys", list, i ? "--json" : "--seal", NULL};
        cr_assert_eq(process_run(check, 30000, &out, &err), 0, "%s", err);
        cr_assert_not_null(strstr(out, i ? "\"sealed\":true" : "keys 1, sealed"), "%s", out);
        free(out);
        free(err);
    }
    FILE *file = fopen(list, "a");
    fputs(worker_line, file);
    fclose(file);
    cr_assert_eq(process_run((const char *const[]){"penstock", "keys", list, NULL}, 30000, NULL, &err), 1);
    cr_assert_not_null(strstr(err, "not the list that its first line was written for (it has 3 keys now)"), "%s", err);
    free(err);
    const char *const late[] = {"penstock", "keygen", file_of("late", path), "--list", list, NULL};
    cr_assert_neq(process_run(late, 30000, NULL, NULL), 0);
    cr_assert_neq(access(path, F_OK), 0, "no key for a list that cannot be read");
    cr_assert_eq(process_run((const char *const[]){"penstock", "keys", list, "--seal", NULL}, 30000, NULL, NULL), 0);
    cr_assert_eq(process_run((const char *const[]){"penstock", "keys", list, NULL}, 30000, NULL, NULL), 0);
}

/* The secret part of FOLDER/NAME. */
static void secret_of(const char *name, char secret[KEY_TEXT])
{
    char path[FOLDER_PATH_BYTES + 16];
    const char *at = strstr(slurp(file_of(name, path)), "secret = ");
    cr_assert_not_null(at);
    memcpy(secret, at + 9, KEY_TEXT - 1);
    secret[KEY_TEXT - 1] = '\0';
}

static void check_hidden(const struct process *process, const char *log, const char *secret)
{
    char path[64];
    cr_assert_null(strstr(log, secret), "a secret in a log");
    for (const char *const *what = (const char *const[]){"cmdline", "environ", NULL}; *what; what++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)process_pid(process), *what);
        FILE *file = fopen(path, "r");
        char text[16384];
        size_t size = file ? fread(text, 1, sizeof text, file) : 0;
        if (file)
            fclose(file);
        cr_assert_null(memmem(text, size, secret, strlen(secret)), "a secret in %s", path);
    }
}

Test(security, no_secret_is_in_logs_process_titles_or_environments)
{
    char secret[KEY_TEXT];
    char *err = NULL;
    start();
    ask_as("alice", "models", NULL, "20s", &err);
    free(err);
    secret_of("broker", secret);
    check_hidden(pool.broker, process_err(pool.broker), secret);
    secret_of("worker", secret);
    check_hidden(pool.workers[0], process_err(pool.workers[0]), secret);
    cr_assert_null(strstr(slurp(audit), secret));
    pool_stop(&pool);
}

/* keygen prints a line that the broker takes, or makes no key. */
Test(security, no_key_is_made_for_a_line_that_the_broker_would_refuse)
{
    static const char *const bad[][2] = {{"--name", "a b"},   {"--name", "a\nb"},     {"--name", ""},
                                         {"--roles", "king"}, {"--roles", "submit,"}, {"--roles", ""}};
    char path[FOLDER_PATH_BYTES + 16], *err = NULL;
    file_of("never", path);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const argv[] = {"penstock", "keygen", path, bad[i][0], bad[i][1], NULL};
        cr_assert_eq(process_run(argv, 30000, NULL, &err), 2, "%s '%s'", bad[i][0], bad[i][1]);
        cr_assert_not_null(strstr(err, bad[i][0]), "%s", err);
        cr_assert_neq(access(path, F_OK), 0, "%s", path);
        free(err);
    }
}

/* A worker and its broker are not there: the command waits. */
Test(security, secret_of_a_detached_job_leaves_the_process_list)
{
    static const char *const forms[][3] = {{"--secret", "xyzzy-plugh", NULL}, {"--secret=xyzzy-plugh", NULL}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *const argv[] = {"penstock",  "cancel", "0123456789abcdef-1", "--broker",  "tcp://127.0.0.1:1",
                                    "--timeout", "60s",    forms[i][0],          forms[i][1], NULL};
        struct process *process = process_start(argv, NULL);
        char path[64], text[4096];
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process_pid(process));
        bool hidden = false;
        for (uint64_t end_us = support_now_us() + (uint64_t)support_slow(10000) * 1000;
             !hidden && support_now_us() < end_us; support_sleep_ms(5)) {
            FILE *file = fopen(path, "r");
            cr_assert_not_null(file);
            size_t size = fread(text, 1, sizeof text, file);
            fclose(file);
            hidden = memmem(text, size, "xxxxxxxxxxx", 11) && !memmem(text, size, "xyzzy", 5);
        }
        cr_assert(hidden, "form %zu", i);
        process_free(process);
    }
}

static int broker_with(const char *const more[], char **ret_err)
{
    const char *argv[16] = {"penstock-broker", "--http", "none"};
    size_t count = 3;
    while (*more)
        argv[count++] = *more++;
    return process_run(argv, 30000, NULL, ret_err);
}

Test(security, other_addresses_need_keys_or_a_word_and_the_word_warns)
{
    char *err = NULL;
    cr_assert_eq(broker_with((const char *const[]){"--listen-clients", "tcp://0.0.0.0:*", NULL}, &err), 2);
    cr_assert_not_null(strstr(err, "--key and --keys"), "%s", err);
    free(err);
    cr_assert_eq(broker_with((const char *const[]){"--key", broker_file, NULL}, &err), 2);
    cr_assert_not_null(strstr(err, "go together"), "%s", err);
    free(err);
    struct process *keyed = process_start(
        (const char *const[]){"penstock-broker", "--http", "none", "--listen-clients", "tcp://0.0.0.0:*",
                              "--listen-workers", "tcp://0.0.0.0:*", "--key", broker_file, "--keys", keys, NULL},
        NULL);
    cr_assert(process_wait_text(keyed, "evt=listening", 10000), "%s", process_err(keyed));
    cr_assert_null(strstr(process_err(keyed), "remote_allowed"));
    cr_assert_eq(process_stop(keyed, 10000), 0);
    process_free(keyed);
    struct process *open =
        process_start((const char *const[]){"penstock-broker", "--http", "none", "--listen-clients", "tcp://0.0.0.0:*",
                                            "--listen-workers", "tcp://127.0.0.1:*", "--allow-remote", NULL},
                      NULL);
    cr_assert(process_wait_text(open, "remote_allowed", 10000), "%s", process_err(open));
    process_stop(open, 10000);
    process_free(open);
}

Test(security, key_file_that_others_read_stops_the_program)
{
    char path[FOLDER_PATH_BYTES + 16], *err = NULL;
    chmod(broker_file, 0644);
    cr_assert_eq(broker_with((const char *const[]){"--key", broker_file, "--keys", keys, NULL}, &err), 3);
    cr_assert_not_null(strstr(err, "chmod 600"), "%s", err);
    free(err);
    chmod(file_of("worker", path), 0644);
    cr_assert_neq(process_run((const char *const[]){"penstock-worker", "--models", POOL_DIGITS_MODELS, "--key", path,
                                                    "--broker-key", broker_key, NULL},
                              30000, NULL, &err),
                  0);
    cr_assert_not_null(strstr(err, "chmod 600"), "%s", err);
    free(err);
}

static void write_password(const char *path, const char *password)
{
    FILE *file = fopen(path, "w");
    fprintf(file, "%s\n", password);
    fclose(file);
}

static void await_cache(bool works)
{
    static const char word[] = "\"cache_state\":\"ok\"";
    char *out = NULL;
    for (int i = 0; i < 200 && !(out && (strstr(out, word) != NULL) == works); i++) {
        free(out);
        out = NULL;
        pool_cli(&pool, "top", (const char *const[]){"--once", "--json", NULL}, &out, NULL);
        support_sleep_ms(50);
    }
    cr_assert_eq(strstr(out, word) != NULL, works, "%s", out);
    free(out);
}

Test(security, redis_with_a_password_is_used_and_the_password_hidden)
{
    char path[FOLDER_PATH_BYTES + 16], url[64], *err = NULL;
    int port = 0;
    static const char password[] = "correct-horse-battery";
    struct process *redis = redis_start(&port, (const char *const[]){"--requirepass", password, NULL});
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0", port);
    write_password(file_of("redis", path), password);
    chmod(path, 0644);
    cr_assert_eq(broker_with((const char *const[]){"--cache", url, "--redis-password-file", path, NULL}, &err), 2);
    cr_assert_not_null(strstr(err, "chmod 600"), "%s", err);
    free(err);
    chmod(path, 0600);
    FILE *file = fopen(path, "a");
    fwrite("\0\0\0", 1, 3, file);
    fclose(file);
    cr_assert_eq(broker_with((const char *const[]){"--cache", url, "--redis-password-file", path, NULL}, &err), 2);
    cr_assert_not_null(strstr(err, "is 0: it is damaged"), "%s", err);
    free(err);
    write_password(path, password);
    chmod(path, 0600);
    pool_start(&pool, (const char *const[]){"--cache", url, "--redis-password-file", path, "--http", "none", NULL});
    await_cache(true);
    process_free(redis);
    await_cache(false);
    write_password(path, "another-one");
    redis = redis_start(&port, (const char *const[]){"--requirepass", "another-one", NULL});
    await_cache(true); /* the file is read again: no restart for a new password */
    check_hidden(pool.broker, process_err(pool.broker), password);
    pool_stop(&pool);
    cr_assert_eq(broker_with((const char *const[]){"--cache", "redis://:secret@127.0.0.1:1/0", NULL}, &err), 2);
    cr_assert_not_null(strstr(err, "--redis-password-file"), "%s", err);
    free(err);
    cr_assert_eq(broker_with((const char *const[]){"--cache", "rediss://127.0.0.1:1/0", NULL}, &err), 2);
    cr_assert_not_null(strstr(err, "no TLS"), "%s", err);
    free(err);
    process_free(redis);
}
