/* A body in a child process: what it tells its parent, and what becomes of one that crashes, hangs or leaves. */
#include "base/trial.h"
#include "unit.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct told {
    struct trial_progress progress;
    pid_t pid;
    int number;
};

enum behaviour { RETURNS, CRASHES, HANGS, LEAVES, STEPS };

static void behave(void *memory, const void *context)
{
    static const struct timespec rest = {.tv_nsec = 100 * 1000 * 1000};
    struct told *told = memory;
    const enum behaviour how = *(const enum behaviour *)context;
    told->pid = getpid();
    told->number++;
    if (how == CRASHES) memcpy(told->progress.current, "a crash", sizeof "a crash");
    if (how == CRASHES) (void)signal(SIGSEGV, SIG_DFL); /* which cmocka catches */
    if (how == CRASHES) (void)raise(SIGSEGV);
    if (how == LEAVES) _exit(3);
    while (how == HANGS) (void)pause();
    for (int i = 0; i < 16 && how == STEPS; i++) {
        told->progress.steps++;
        (void)nanosleep(&rest, NULL);
    }
}

static struct told once(enum behaviour behaviour, double deadline_seconds, char failure[TRIAL_FAILURE])
{
    struct told *told = NULL;
    struct error error;
    assert_int_equal(trial_memory_new(sizeof *told, "a test", &told, &error), STATUS_OK);
    told->number = 70; /* cleared before the body runs */
    const struct trial trial = {behave, &behaviour, &told->progress, sizeof *told, deadline_seconds, "the first step"};
    assert_int_equal(trial_run(&trial, failure, &error), STATUS_OK);
    const struct told found = *told;
    trial_memory_free(told, sizeof *told);
    return found;
}

static struct told attempt(enum behaviour behaviour, double deadline_seconds, char failure[TRIAL_FAILURE])
{
    struct told found;
    do found = once(behaviour, deadline_seconds, failure);
    while (found.pid == 0);                   /* on a busy machine the deadline may pass before the body runs */
    assert_int_equal(kill(found.pid, 0), -1); /* nothing is left of it */
    assert_int_equal(found.number, 1);
    assert_true(found.pid != getpid());
    return found;
}

static void test_what_a_body_tells_is_there(void **state)
{
    char failure[TRIAL_FAILURE];
    (void)state;
    assert_true(attempt(RETURNS, 60, failure).progress.ended);
    assert_string_equal(failure, "");
}

static void test_a_crash_is_told_with_what_the_body_was_at(void **state)
{
    char failure[TRIAL_FAILURE];
    (void)state;
    assert_false(attempt(CRASHES, 60, failure).progress.ended);
    assert_memory_equal(failure, "a crash: crash by signal 11 (", 29);
    (void)attempt(LEAVES, 60, failure);
    assert_string_equal(failure, "the first step: the process ended with exit status 3");
}

static void test_a_hang_ends_at_the_deadline_and_steps_put_it_off(void **state)
{
    char failure[TRIAL_FAILURE];
    (void)state;
    assert_false(attempt(HANGS, 0.05, failure).progress.ended);
    assert_string_equal(failure, "the first step: no end within 0.05 s");
    assert_int_equal(attempt(STEPS, 0.6, failure).progress.steps, 16); /* takes 1.6 s */
    assert_string_equal(failure, "");
}

/* The parent is killed while the body hangs. This process inherits the child, and so sees what became of it. */
static void test_a_body_dies_with_its_parent(void **state)
{
    static const struct timespec rest = {.tv_nsec = 10 * 1000 * 1000};
    const enum behaviour behaviour = HANGS;
    struct told *told = NULL;
    struct error error;
    char failure[TRIAL_FAILURE];
    int end = 0;
    (void)state;
    assert_int_equal(trial_memory_new(sizeof *told, "a test", &told, &error), STATUS_OK);
    const struct trial trial = {behave, &behaviour, &told->progress, sizeof *told, 600, "the first step"};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) { /* an emulated system */
        print_message("skip: the system gives no orphans to whoever asks for them\n");
        trial_memory_free(told, sizeof *told);
        skip();
    }
    const pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) _exit(trial_run(&trial, failure, &error) == STATUS_OK ? 0 : 1);
    const volatile struct told *seen = told;
    while (seen->number == 0) (void)nanosleep(&rest, NULL); /* it hangs now */
    const pid_t child = seen->pid;
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, &end, 0), parent);
    pid_t gone = 0;
    for (int i = 0; i < 6000 && gone == 0; i++) {
        gone = waitpid(child, &end, WNOHANG);
        (void)nanosleep(&rest, NULL);
    }
    if (gone == 0) (void)kill(child, SIGKILL);
    assert_int_equal(gone, child);
    assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
    trial_memory_free(told, sizeof *told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_body_tells_is_there),
        cmocka_unit_test(test_a_crash_is_told_with_what_the_body_was_at),
        cmocka_unit_test(test_a_hang_ends_at_the_deadline_and_steps_put_it_off),
        cmocka_unit_test(test_a_body_dies_with_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
