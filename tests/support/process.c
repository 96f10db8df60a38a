#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS    2
#define ENV_MAX    256
#define OUTPUT_MAX (64u * 1024u * 1024u)

struct stream {
    int fd;     /* unlinked file */
    char *text; /* what was last read of it */
};

struct process {
    pid_t pid;
    int status; /* as process_wait gives it, once ended */
    bool ended;
    char name[64];
    struct stream out, err;
};

void support_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("test support: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

uint64_t support_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

int support_slow(int timeout_ms)
{
    const char *factor = getenv("PENSTOCK_SLOW");
    int by = factor ? atoi(factor) : 1;
    return by > 1 ? timeout_ms * by : timeout_ms;
}

void support_sleep_ms(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* --- output ---------------------------------------------------------------------------------------------------- */

static int stream_open(void)
{
    char path[] = "/tmp/penstock-test-output.XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
    if (fd < 0) {
        support_fail("cannot make a file in /tmp: %s", strerror(errno));
    }
    unlink(path);
    return fd;
}

static const char *stream_read(struct stream *stream)
{
    struct stat info;
    if (fstat(stream->fd, &info) != 0 || info.st_size > OUTPUT_MAX) {
        support_fail("a program's output cannot be read or is beyond %u bytes", OUTPUT_MAX);
    }
    size_t size = (size_t)info.st_size, at = 0;
    free(stream->text);
    stream->text = malloc(size + 1);
    if (!stream->text) {
        support_fail("out of memory");
    }
    while (at < size) {
        ssize_t got = pread(stream->fd, stream->text + at, size - at, (off_t)at);
        if (got <= 0) {
            break;
        }
        at += (size_t)got;
    }
    stream->text[at] = '\0';
    return stream->text;
}

static void stream_close(struct stream *stream)
{
    close(stream->fd);
    free(stream->text);
}

const char *process_out(struct process *process)
{
    return stream_read(&process->out);
}

const char *process_err(struct process *process)
{
    return stream_read(&process->err);
}

/* --- start and end --------------------------------------------------------------------------------------------- */

/* In the child: only async-signal-safe calls until exec. */
static void child_run(const struct process *process, const char *path, char *const argv[], char *const envp[],
                      bool search, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* the test died before the line above */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(process->out.fd, STDOUT_FILENO);
    dup2(process->err.fd, STDERR_FILENO);
    if (search) {
        execvpe(path, argv, envp);
    } else {
        execve(path, argv, envp);
    }
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", path, strerror(errno));
    _exit(127);
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length + 1) == 0;
}

static void env_build(const char *const extra[], char *envp[ENV_MAX])
{
    extern char **environ;
    size_t count = 0;
    for (size_t i = 0; extra && extra[i]; i++) {
        envp[count++] = (char *)(uintptr_t)extra[i];
    }
    size_t extra_count = count;
    for (size_t i = 0; environ[i] && count < ENV_MAX - 1; i++) {
        size_t k = 0;
        while (k < extra_count && !same_name(extra[k], environ[i])) {
            k++;
        }
        if (k == extra_count) {
            envp[count++] = environ[i];
        }
    }
    envp[count] = NULL;
}

static struct process *start(const char *const argv[], const char *const env[], bool search)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", search || strchr(argv[0], '/') ? "" : PENSTOCK_BIN "/", argv[0]);
    struct process *process = calloc(1, sizeof *process);
    if (!process) {
        support_fail("out of memory");
    }
    snprintf(process->name, sizeof process->name, "%.63s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    process->out.fd = stream_open();
    process->err.fd = stream_open();
    char *envp[ENV_MAX];
    env_build(env, envp);
    pid_t parent = getpid();
    process->pid = fork();
    if (process->pid < 0) {
        support_fail("fork: %s", strerror(errno));
    }
    if (process->pid == 0) {
        child_run(process, path, (char *const *)(uintptr_t)argv, envp, search, parent);
    }
    return process;
}

struct process *process_start(const char *const argv[], const char *const env[])
{
    return start(argv, env, false);
}

struct process *process_start_path(const char *const argv[], const char *const env[])
{
    return start(argv, env, true);
}

pid_t process_pid(const struct process *process)
{
    return process->pid;
}

static bool reap(struct process *process)
{
    int status;
    if (!process->ended && waitpid(process->pid, &status, WNOHANG) == process->pid) {
        process->ended = true;
        process->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return process->ended;
}

bool process_alive(struct process *process)
{
    return !reap(process);
}

void process_signal(struct process *process, int signal)
{
    if (!reap(process)) {
        kill(process->pid, signal);
    }
}

int process_wait(struct process *process, int timeout_ms)
{
    uint64_t until = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000u;
    while (!reap(process)) {
        if (support_now_us() >= until) {
            return -1;
        }
        support_sleep_ms(POLL_MS);
    }
    return process->status;
}

int process_stop(struct process *process, int timeout_ms)
{
    process_signal(process, SIGTERM);
    int status = process_wait(process, timeout_ms);
    if (status < 0) {
        process_signal(process, SIGKILL);
        process_wait(process, 5000);
    }
    return status;
}

void process_free(struct process *process)
{
    if (!process) {
        return;
    }
    process_signal(process, SIGKILL);
    process_wait(process, 5000);
    stream_close(&process->out);
    stream_close(&process->err);
    free(process);
}

/* --- log lines ------------------------------------------------------------------------------------------------- */

bool process_wait_text(struct process *process, const char *text, int timeout_ms)
{
    uint64_t until = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000u;
    for (;;) {
        bool ended = reap(process); /* before reading: what it wrote last is then seen */
        if (strstr(process_err(process), text) || strstr(process_out(process), text)) {
            return true;
        }
        if (ended || support_now_us() >= until) {
            return false;
        }
        support_sleep_ms(POLL_MS);
    }
}

static bool value_copy(const char *from, char *ret_value, size_t size)
{
    const char *stops = " \n";
    if (*from == '"') {
        from++;
        stops = "\"\n";
    }
    size_t length = strcspn(from, stops);
    if (length >= size) {
        return false;
    }
    memcpy(ret_value, from, length);
    ret_value[length] = '\0';
    return true;
}

bool process_log_value(struct process *process, const char *text, const char *key, char *ret_value, size_t size)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, " %s=", key);
    const char *hit = strstr(process_err(process), text);
    if (!hit) {
        return false;
    }
    const char *line = hit, *end = strchr(hit, '\n');
    while (line > process->err.text && line[-1] != '\n') {
        line--;
    }
    const char *at = strstr(line, pattern);
    if (!at || (end && at > end)) {
        return false;
    }
    return value_copy(at + strlen(pattern), ret_value, size);
}

/* --- whole runs and figures ------------------------------------------------------------------------------------ */

int process_run(const char *const argv[], int timeout_ms, char **ret_out, char **ret_err)
{
    struct process *process = process_start(argv, NULL);
    int status = process_wait(process, timeout_ms);
    if (status < 0) {
        support_fail("%s did not end within %d ms; it wrote: %s%s", process->name, support_slow(timeout_ms),
                     process_out(process), process_err(process));
    }
    if (ret_out) {
        *ret_out = strdup(process_out(process));
    }
    if (ret_err) {
        *ret_err = strdup(process_err(process));
    }
    process_free(process);
    return status;
}

uint64_t process_rss_bytes(const struct process *process)
{
    char path[64];
    unsigned long long pages_all, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process->pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%llu %llu", &pages_all, &pages) != 2) {
        pages = 0;
    }
    if (file) {
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_cpu_us(const struct process *process)
{
    char path[64];
    unsigned long long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process->pid);
    FILE *file = fopen(path, "re");
    /* fields 14 and 15, after "pid (name) state" and ten more; our names hold no blank */
    if (!file || fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2) {
        user = system = 0;
    }
    if (file) {
        fclose(file);
    }
    return (user + system) * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}
