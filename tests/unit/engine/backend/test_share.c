/* A device that several backends use: what each is promised, with numbers worked out by hand on a card that only
 * counts. */
#include "backend/cuda/open.h"

#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
/* Of all: the reserve, attention's scratch and the stage, each of which is rounded up to 2 MiB or 512 bytes. */
enum { TOTAL = 8192, RESERVE = 512, ATTENTION = 256, STAGE = 17 };

struct card {
    int64_t used; /* bytes, of all backends and of others */
    struct device devices[3];
    char directory[32];
};

struct block {
    int64_t bytes;
};

static int card_memory(struct device *device, int64_t *available, int64_t *total)
{
    const struct card *card = device->state;
    *total = TOTAL * MIB;
    *available = *total - card->used;
    return 0;
}

static int card_allocate(struct device *device, size_t bytes, void **out)
{
    struct card *card = device->state;
    struct block *block = malloc(sizeof *block);
    if (block == NULL || card->used + (int64_t)bytes > TOTAL * MIB) abort(); /* nobody plans with more than there is */
    block->bytes = (int64_t)bytes;
    card->used += block->bytes;
    *out = block;
    return 0;
}

static int card_release(struct device *device, void *block)
{
    ((struct card *)device->state)->used -= ((struct block *)block)->bytes;
    free(block);
    return 0;
}

static int card_allocate_host(struct device *device, size_t bytes, void **out)
{
    (void)device;
    return (*out = malloc(bytes)) == NULL;
}

static int card_release_host(struct device *device, void *block)
{
    (void)device;
    free(block);
    return 0;
}

static int card_upload(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                       size_t width, size_t rows)
{
    (void)device, (void)to, (void)to_pitch, (void)from, (void)from_pitch, (void)width, (void)rows;
    return 0;
}

static int card_clear(struct device *device, void *to, size_t bytes)
{
    (void)device, (void)to, (void)bytes;
    return 0;
}

static int card_synchronize(struct device *device)
{
    (void)device;
    return 0;
}

static void card_close(struct device *device)
{
    (void)device;
}

static int open_card(void **state)
{
    struct card *card = calloc(1, sizeof *card);
    if (card == NULL) return -1;
    (void)snprintf(card->directory, sizeof card->directory, "/tmp/deltaq-share-XXXXXX");
    for (int i = 0; i < 3; i++)
        card->devices[i] = (struct device){.state = card,
                                           .identity = {.uuid = "GPU-1"},
                                           .memory_free = TOTAL * MIB,
                                           .memory_total = TOTAL * MIB,
                                           .memory = card_memory,
                                           .allocate = card_allocate,
                                           .release = card_release,
                                           .allocate_host = card_allocate_host,
                                           .release_host = card_release_host,
                                           .upload = card_upload,
                                           .clear = card_clear,
                                           .synchronize = card_synchronize,
                                           .close = card_close};
    *state = card;
    return mkdtemp(card->directory) == NULL;
}

static int close_card(void **state)
{
    struct card *card = *state;
    char path[64];
    (void)snprintf(path, sizeof path, "%s/GPU-1.promises", card->directory);
    (void)unlink(path);
    (void)rmdir(card->directory);
    free(card);
    return 0;
}

static struct backend *user(struct card *card, int which, int64_t limit)
{
    struct error error;
    struct backend *backend = NULL;
    if (cuda_open_device(&card->devices[which], 7 * MIB, NULL, &backend, &error) != STATUS_OK ||
        backend_share(backend, limit, card->directory, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    return backend;
}

/* MiB that it may plan with now, rounded down. */
static int64_t available(struct backend *backend)
{
    return backend_budget(backend, NULL).bytes[PLAN_DEVICE] / MIB;
}

static bool near(int64_t a, int64_t b)
{
    return a - b < 3 && b - a < 3; /* they are rounded */
}

static bool keep(struct backend *backend, int64_t mebibytes)
{
    struct error error;
    bool again;
    if (backend_claim(backend, mebibytes * MIB, NULL, &again, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return again;
}

static void *take(struct backend *backend, int64_t mebibytes)
{
    struct error error;
    void *block = NULL;
    /* without the 2 MiB that a large block is rounded up by */
    if (backend->ops->allocate(backend, (mebibytes - 2) * MIB / 4, "a block", &block, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    return block;
}

static void test_two_plan_with_what_there_is(void **state)
{
    struct card *card = *state;
    struct backend *a = user(card, 0, 0), *b = user(card, 1, 0);
    const int64_t all = TOTAL - RESERVE - ATTENTION - STAGE, mine = 1000 + 250 + ATTENTION + STAGE;
    assert_int_equal(available(a), all);
    assert_int_equal(available(b), 0);
    assert_int_equal(b->ops->memory(b) / MIB, all); /* once the other is done */
    assert_false(keep(a, 1000));
    assert_true(near(available(b), all - mine));
    (void)take(a, 800); /* a promise kept: of what is free, and of what is promised, as much less */
    assert_int_equal(card->used, 800 * MIB);
    assert_true(near(available(b), all - mine));
    backend_free(a);
    assert_int_equal(card->used, 0); /* between runs nothing is kept */
    assert_int_equal(available(b), all);
    backend_free(b);
}

static void test_others_programs_and_the_limit_count(void **state)
{
    struct card *card = *state;
    struct backend *a = user(card, 0, 3000 * MIB);
    char words[240];
    assert_int_equal(available(a), 3000 - ATTENTION - STAGE);
    card->used += 6000 * MIB; /* a trainer comes: a plan is made with what is free then */
    assert_int_equal(available(a), TOTAL - 6000 - RESERVE - ATTENTION - STAGE);
    backend_device_words(a, words, sizeof words);
    assert_string_equal(words, "of 2298478592 free on the device 536870912 are reserve and 0 promised to other workers;"
                               " --device-memory allows 3145728000");
    assert_false(keep(a, 4000)); /* nobody of ours is in the way: the caller refuses */
    card->used += 2190 * MIB;
    assert_int_equal(available(a), 0);
    card->used = 0;
    backend_free(a);
}

static void test_a_plan_may_need_more_than_it_said(void **state)
{
    struct card *card = *state;
    struct error error;
    struct backend *a = user(card, 0, 0), *b = user(card, 1, 0);
    void *block = NULL;
    (void)available(a);
    (void)keep(a, 100);
    (void)take(a, 2000); /* there is space */
    (void)available(b);
    assert_int_equal(a->ops->allocate(a, 1000 * MIB / 4, "a block", &block, &error), STATUS_NO_MEMORY);
    assert_non_null(strstr(error.detail, "--device-memory"));
    backend_free(b);
    assert_int_equal(a->ops->allocate(a, 1000 * MIB / 4, "a block", &block, &error), STATUS_OK);
    backend_free(a);
}

/* A part of a run's plan gives back nothing of the whole. */
static void test_a_part_keeps_what_the_run_planned(void **state)
{
    struct card *card = *state;
    struct backend *a = user(card, 0, 0), *b = user(card, 1, 0);
    const int64_t all = TOTAL - RESERVE - ATTENTION - STAGE, mine = 4000 + 1000 + ATTENTION + STAGE;
    (void)available(a);
    (void)keep(a, 4000);
    void *block = take(a, 1000);
    (void)available(a);
    (void)keep(a, 200);
    assert_true(near(available(b), all - mine));
    (void)keep(b, 0);
    a->ops->release(a, block);
    (void)keep(a, 200); /* another run's work, which holds nothing */
    assert_true(available(b) > all - mine);
    backend_free(a);
    backend_free(b);
}

struct waiting {
    struct backend *leaves; /* at the third look */
    int looks, lines;
    enum status stop;
};

static enum status look(void *owner, struct error *error)
{
    struct waiting *waiting = owner;
    if (++waiting->looks == 3) backend_free(waiting->leaves);
    return waiting->looks == 3 && waiting->stop != STATUS_OK ? error_set(error, waiting->stop, "stopped") : STATUS_OK;
}

static void note(void *owner, const char *line)
{
    struct waiting *waiting = owner;
    waiting->lines++;
    assert_non_null(strstr(line, "waits for memory of the device: 6291456000 bytes are needed"));
}

static void wait_for(struct card *card, enum status stop)
{
    struct error error;
    bool again;
    struct backend *a = user(card, 0, 0), *b = user(card, 1, 0), *c = user(card, 2, 0);
    struct waiting waiting = {.leaves = a, .stop = stop};
    const struct monitor monitor = {.owner = &waiting, .log = note, .check = look};
    void *block = take(b, 10); /* what it staged in for earlier work is nothing that it holds */
    b->ops->write_bytes(b, block, "deltaq", 6);
    b->ops->release(b, block);
    (void)available(a);
    (void)keep(a, 3000);
    assert_int_equal(backend_claim(b, 6000 * MIB, &monitor, &again, &error), stop);
    assert_true(again);
    assert_int_equal(waiting.looks, 3);
    assert_int_equal(waiting.lines, 1);
    assert_int_equal(card->used, 0);
    if (stop == STATUS_OK) assert_true(available(c) == 0); /* promised to b */
    backend_free(b);
    backend_free(c);
}

static void test_what_does_not_fit_now_waits(void **state)
{
    wait_for(*state, STATUS_OK);
    wait_for(*state, STATUS_CANCELLED);
}

static void test_nobody_waits_with_anything_in_hand(void **state)
{
    struct card *card = *state;
    struct error error;
    bool again;
    struct waiting waiting = {.stop = STATUS_CANCELLED};
    const struct monitor monitor = {.owner = &waiting, .log = note, .check = look};
    struct backend *a = user(card, 0, 0), *b = user(card, 1, 0);
    (void)available(a);
    (void)keep(a, 3000);
    (void)take(b, 100);
    assert_int_equal(backend_claim(b, 6000 * MIB, &monitor, &again, &error), STATUS_NO_MEMORY);
    assert_int_equal(waiting.looks, 1);
    assert_int_equal(backend_claim(b, 9000 * MIB, NULL, &again, &error), STATUS_OK); /* never: it is refused */
    backend_free(a);
    backend_free(b);
}

static void test_the_dead_were_promised_nothing(void **state)
{
    struct card *card = *state;
    struct backend *b = user(card, 1, 0);
    int ready[2], ended;
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct backend *a = user(card, 0, 0);
        if (available(a) > 0 && write(ready[1], "", 1) == 1) (void)pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(available(b), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(available(b), TOTAL - RESERVE - ATTENTION - STAGE);
    (void)close(ready[0]);
    (void)close(ready[1]);
    backend_free(b);
}

static void test_backends_of_the_host_share_nothing(void **state)
{
    struct error error;
    bool again = true;
    struct backend *host = NULL;
    char words[240] = "x";
    (void)state;
    assert_int_equal(backend_reference_new(false, NULL, &host, &error), STATUS_OK);
    assert_int_equal(backend_share(host, 1, "/nonexistent", &error), STATUS_OK);
    assert_int_equal(backend_claim(host, INT64_MAX, NULL, &again, &error), STATUS_OK);
    backend_device_words(host, words, sizeof words);
    assert_true(!again && words[0] == '\0');
    backend_free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, open_card, close_card)
        TEST(two_plan_with_what_there_is),       TEST(others_programs_and_the_limit_count),
        TEST(a_plan_may_need_more_than_it_said), TEST(a_part_keeps_what_the_run_planned),
        TEST(what_does_not_fit_now_waits),       TEST(nobody_waits_with_anything_in_hand),
        TEST(the_dead_were_promised_nothing),    TEST(backends_of_the_host_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
