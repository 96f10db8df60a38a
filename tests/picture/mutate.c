/*
 * mutate.c - mutated pictures through decoding and steps, by hand: no crash, and no more memory than the cap.
 *
 *   mutate COUNT SEED FILE...
 *
 * Each round takes one of the files, changes, cuts, doubles or splices some of its bytes, and makes an input of what comes out. The process may have CAP_BYTES of address
 * space beyond what it has at the start (RLIMIT_AS), twice what the limits of the library allow; a picture that needs more is refused or ends without memory, and both
 * are sentences. The last line is `COUNT pictures: N usable, N refused, peak KiB`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "steps.h"

#define FILES_MAX 4096
#define CAP_BYTES (256u << 20)

struct file {
    uint8_t *bytes;
    size_t size;
};

static uint64_t state;

static uint64_t any(uint64_t below)
{
    uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15)); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return below ? (z ^ (z >> 31)) % below : 0;
}

static struct file file_take(const char *path)
{
    struct file f = {0};
    struct pen_error error;
    if (picture_file(path, 0, NULL, &f.bytes, &f.size, &error) != PEN_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
    return f;
}

/* One change; most lie near the beginning, where headers are. */
static size_t change(uint8_t *to, size_t size, size_t room, const struct file *other)
{
    size_t at = any(2) ? any(size < 600 ? size : 600) : any(size);
    size_t length = 1 + any(16), from = any(other->size);
    length = at + length > size ? size - at : length;
    switch (any(6)) {
    case 0:
        to[at] ^= (uint8_t)(1u << any(8));
        break;
    case 1:
        memset(to + at, any(2) ? 0xFF : 0, length);
        break;
    case 2:
        to[at] = (uint8_t)any(256);
        break;
    case 3: /* another file's bytes */
        length = from + length > other->size ? other->size - from : length;
        memcpy(to + at, other->bytes + from, length);
        break;
    case 4: /* a part goes */
        memmove(to + at, to + at + length, size - at - length);
        return size - length > 0 ? size - length : 1;
    default: /* a part comes twice */
        if (size + length <= room) {
            memmove(to + at + length, to + at, size - at);
            return size + length;
        }
    }
    return size;
}

static void steps_choose(struct picture_steps *steps)
{
    const struct picture_numbers numbers = {.dtype = PEN_DTYPE_F32, .scale = 1.0f, .std = {1.0f, 1.0f, 1.0f}};
    *steps = (struct picture_steps){.limits = {.pixels = 16u << 20, .memory_bytes = CAP_BYTES / 4},
                                    .options = {.alpha_dropped = any(2), .as_stored = any(4) == 0},
                                    .scaled = any(4) == 0,
                                    .count = 1 + any(2),
                                    .width = 32,
                                    .height = 24,
                                    .channels = any(3) ? 3 : 1};
    steps->steps[0] = (struct picture_step){.kind = (enum picture_step_kind)any(4),
                                            .x = (uint32_t)any(100),
                                            .y = (uint32_t)any(100),
                                            .width = steps->count == 1 ? 32 : (uint32_t)(1 + any(300)),
                                            .height = steps->count == 1 ? 24 : (uint32_t)(1 + any(300)),
                                            .filter = (enum scale_filter)any(4),
                                            .fit = (enum picture_fit)any(3)};
    steps->steps[1] = (struct picture_step){.kind = PICTURE_STEP_MIDDLE, .width = 32, .height = 24};
    picture_steps_ready(steps, &numbers);
}

static void cap_set(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld", &pages) != 1) {
        exit(2);
    }
    fclose(statm);
    rlim_t most = (rlim_t)pages * 4096 + CAP_BYTES;
    setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
}

int main(int argc, char **argv)
{
    static struct file files[FILES_MAX];
    static float out[32 * 24 * 3];
    static struct picture_steps steps;
    int count = argc - 3 < FILES_MAX ? argc - 3 : FILES_MAX;
    if (argc < 4) {
        fprintf(stderr, "mutate COUNT SEED FILE...\n");
        return 2;
    }
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        files[i] = file_take(argv[3 + i]);
        most = files[i].size > most ? files[i].size : most;
    }
    uint64_t rounds = strtoull(argv[1], NULL, 10), usable = 0, refused = 0;
    size_t room = most + 4096;
    uint8_t *work = malloc(room);
    state = strtoull(argv[2], NULL, 10);
    cap_set();
    for (uint64_t i = 0; i < rounds; i++) {
        const struct file *file = &files[any((uint64_t)count)];
        size_t size = file->size;
        struct picture_map map;
        struct pen_error error = {.text = ""};
        memcpy(work, file->bytes, size);
        for (uint64_t k = 1 + any(4); k > 0; k--) {
            size = change(work, size, room, &files[any((uint64_t)count)]);
        }
        size = any(8) ? size : 1 + any(size);
        steps_choose(&steps);
        enum pen_status status = picture_steps_run(&steps, work, size, "x", out, &map, &error);
        usable += status == PEN_OK;
        refused += status != PEN_OK;
        if (status != PEN_OK && !error.text[0]) {
            fprintf(stderr, "round %llu: a refusal without a sentence\n", (unsigned long long)i);
            return 1;
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%llu pictures: %llu usable, %llu refused, peak %ld KiB\n", (unsigned long long)rounds,
           (unsigned long long)usable, (unsigned long long)refused, usage.ru_maxrss);
    return 0;
}
