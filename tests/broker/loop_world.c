#include "loop_world.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "large_block.h"
#include "loop.h"
#include "notify.h"

struct loop_world world;

void world_letter(char what)
{
    cr_assert_lt(world.count + 1, sizeof world.letters);
    world.letters[world.count++] = what;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask);
bool __wrap_port_receive(struct port *port, struct message *message);
void __wrap_port_losses(struct port *port, void (*lost)(void *context, int fd), void *context);
void __wrap_port_settle(struct port *port);
void __wrap_client_message(struct broker *broker, struct message *message);
void __wrap_worker_message(struct broker *broker, struct message *message);
void __wrap_departure_flush(struct broker *broker);
void __wrap_broker_tick(struct broker *broker);
uint64_t __wrap_broker_next_us(const struct broker *broker);
void __wrap_broker_settle(struct broker *broker);
void __wrap_broker_drain(struct broker *broker);
bool __wrap_broker_drained(const struct broker *broker);
void __wrap_broker_keys_changed(struct broker *broker);
size_t __wrap_large_block_trim(uint64_t now_us, uint64_t idle_us);
int __wrap_malloc_trim(size_t pad);
void __wrap_memory_settle(void);
void __wrap_notify_send(const char *format, ...);
uint64_t __wrap_notify_watchdog_us(void);
bool __wrap_keyring_refresh(struct keyring *keyring, struct pen_error *reterr);
unsigned __wrap_keyring_count(const struct keyring *keyring);
void __wrap_sealed_way_look(struct broker *broker);
void *__wrap_cache_socket(const struct cache *cache);
bool __wrap_cache_poll(struct cache *cache, uint64_t now_us, uint64_t *ret_question, bool *ret_hit,
                       struct cache_value *ret_value);
void __wrap_client_lookup(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value);
void __wrap_shared_message_release(struct shared_message *shared);
void __wrap_log_event(enum log_level level, const char *evt, const char *fmt, ...);

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    uint64_t us = (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec / 1000;
    cr_assert(world.sleeps < SLEEPS_MAX && !mask && time->tv_nsec % 1000 == 0);
    world_letter('s');
    for (nfds_t i = 0; i < count; i++) {
        cr_assert_eq(fds[i].events, POLLIN);
        fds[i].revents = 0;
    }
    world.slept_us[world.sleeps] = us;
    int ready = world.asleep(world.sleeps++, fds);
    for (size_t i = 0; i < 2; i++)
        fds[i].revents = world.waiting[i] > 0 ? POLLIN : fds[i].revents;
    world.now_us += ready == 0 ? us : 0;
    return ready;
}

bool __wrap_port_receive(struct port *port, struct message *message)
{
    unsigned *waiting = &world.waiting[port == world.broker->clients];
    (void)message;
    world.asked[port == world.broker->clients]++;
    port->dry = *waiting == 0;
    if (port->dry)
        return false;
    --*waiting;
    port->bytes_in += world.message_bytes;
    return true;
}

void __wrap_port_losses(struct port *port, void (*lost)(void *context, int fd), void *context)
{
    (void)lost;
    cr_expect_eq(context, world.broker);
    world_letter(port == world.broker->clients ? 'k' : 'l');
    world.losses++;
}

void __wrap_port_settle(struct port *port)
{
    world.settled_ports += port == world.broker->clients ? 1 : 10;
}

void __wrap_client_message(struct broker *broker, struct message *message)
{
    (void)message;
    cr_expect_eq(broker, world.broker);
    world_letter('c');
}

void __wrap_worker_message(struct broker *broker, struct message *message)
{
    (void)message;
    cr_expect_eq(broker, world.broker);
    world_letter('w');
}

void __wrap_sealed_way_look(struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    world.doors++;
}

void __wrap_departure_flush(struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    world_letter('f');
}

void __wrap_broker_tick(struct broker *broker)
{
    world_letter('t');
    broker->schedule = false;
    world.next_us = UINT64_MAX;
}

uint64_t __wrap_broker_next_us(const struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    return world.next_us;
}

void __wrap_broker_settle(struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    world.settled++;
}

void __wrap_broker_drain(struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    world.drains++;
}

bool __wrap_broker_drained(const struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    return world.drained;
}

void __wrap_broker_keys_changed(struct broker *broker)
{
    cr_expect_eq(broker, world.broker);
    world.keys_changed++;
}

size_t __wrap_large_block_trim(uint64_t now_us, uint64_t idle_us)
{
    cr_assert_lt(world.trims, (unsigned)SLEEPS_MAX);
    cr_expect_eq(now_us, world.now_us);
    world.trimmed_us[world.trims++] = now_us;
    world.idle_us = idle_us;
    return 0;
}

int __wrap_malloc_trim(size_t pad)
{
    cr_expect_eq(pad, 0u);
    world_letter('m');
    return 1;
}

void __wrap_memory_settle(void)
{
    world_letter('M');
    world.settles++;
}

void __wrap_notify_send(const char *format, ...)
{
    cr_expect_str_eq(format, "WATCHDOG=1");
    cr_assert_lt(world.alive, sizeof world.alive_us / sizeof *world.alive_us);
    world.alive_us[world.alive++] = world.now_us;
}

uint64_t __wrap_notify_watchdog_us(void)
{
    return world.watchdog_us;
}

bool __wrap_keyring_refresh(struct keyring *keyring, struct pen_error *reterr)
{
    cr_expect_eq(keyring, world.broker->keyring);
    cr_assert_lt(world.looks, (unsigned)SLEEPS_MAX);
    world.looks_us[world.looks++] = world.now_us;
    if (world.keys_status != PEN_OK)
        pen_error_set(reterr, world.keys_status, "line 3 is no key");
    return world.keys_new;
}

unsigned __wrap_keyring_count(const struct keyring *keyring)
{
    (void)keyring;
    return 7;
}

void __wrap_log_event(enum log_level level, const char *evt, const char *fmt, ...)
{
    va_list list;
    int used = snprintf(world.last, sizeof world.last, "%s %s ", log_level_name(level), evt);
    va_start(list, fmt);
    vsnprintf(world.last + used, sizeof world.last - (size_t)used, fmt, list);
    va_end(list);
    cr_assert_lt(world.told, sizeof world.told_us / sizeof *world.told_us);
    world.told_us[world.told++] = world.now_us;
}

void *__wrap_cache_socket(const struct cache *cache)
{
    cr_expect_eq(cache, world.broker->cache);
    return world.questions > 0 ? &world : NULL;
}

bool __wrap_cache_poll(struct cache *cache, uint64_t now_us, uint64_t *ret_question, bool *ret_hit,
                       struct cache_value *ret_value)
{
    cr_expect(cache == world.broker->cache && now_us == world.now_us);
    if (world.questions == 0)
        return false;
    *ret_question = world.questions--;
    *ret_hit = world.questions % 2 != 0;
    *ret_value = (struct cache_value){0};
    world.now_us += 10;
    return true;
}

void __wrap_client_lookup(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value)
{
    cr_expect(broker == world.broker && value && question == world.questions + 1 && hit == (world.questions % 2 != 0));
    cr_expect_eq(broker->now_us, world.now_us, "the clock is read for each answer");
    world_letter('q');
    world.lookups++;
}

void __wrap_shared_message_release(struct shared_message *shared)
{
    (void)shared;
    world.released++;
}

static uint64_t now(void)
{
    return world.now_us;
}

void world_signal(int number)
{
    struct signalfd_siginfo info = {.ssi_signo = (uint32_t)number};
    cr_assert_eq(write(world.pipe[1], &info, sizeof info), (ssize_t)sizeof info);
}

void world_begin(int (*asleep)(unsigned number, struct pollfd *fds))
{
    memset(&world, 0, sizeof world);
    world.desk = desk_new();
    world.desk->options.spin_us = 0;
    desk_open(world.desk);
    world.broker = &world.desk->broker;
    world.broker->clock = now;
    world.broker->now_us = world.now_us = BEGIN_US;
    world.broker->schedule = false;
    world.told = 0;
    world.next_us = world.watchdog_us = UINT64_MAX;
    world.asleep = asleep;
    cr_assert_eq(pipe2(world.pipe, O_NONBLOCK | O_CLOEXEC), 0);
}

enum pen_status world_run(void)
{
    return loop_run(world.broker, world.pipe[0]);
}

void world_end(void)
{
    world.broker->keyring = NULL;
    close(world.pipe[0]);
    close(world.pipe[1]);
    world.questions = 0;
    desk_free(world.desk);
}
