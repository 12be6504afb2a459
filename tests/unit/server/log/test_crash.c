/* What a process that crashes says at last, and that it still ends by the signal. */
#include "log/crash.h"
#include "log/log.h"
#include "unit.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum crash { CALLS_NULL, CALLS_UNMAPPED, READS_NULL, ABORTS, IS_KILLED, BREAKS_ITS_STACK };

static void call_null(void)
{
    void (*volatile nothing)(void) = NULL;
    nothing();
}

/* As of a library that was closed. */
static void *unmapped(void)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)munmap(page, size);
    return page;
}

static void call_unmapped(void)
{
    void *page = unmapped();
    void (*volatile gone)(void);
    memcpy((void *)(uintptr_t)&gone, &page, sizeof page);
    gone();
}

/* The unwinder reads the instruction this function would return to, and crashes. */
static __attribute__((noinline)) void break_stack(void)
{
    void *volatile *frame = __builtin_frame_address(0);
    frame[1] = unmapped();
    (void)raise(SIGBUS);
}

static void crash(enum crash how)
{
    const volatile int *volatile nothing = NULL;
    if (how == CALLS_NULL) call_null();
    if (how == CALLS_UNMAPPED) call_unmapped();
    if (how == READS_NULL) _exit(*nothing);
    if (how == ABORTS) abort();
    if (how == BREAKS_ITS_STACK) break_stack();
    (void)raise(SIGBUS);
}

static _Noreturn void become_crash(enum crash how, const char *form, int output)
{
    static const struct rlimit no_core = {0};
    struct error error;
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (dup2(output, STDERR_FILENO) < 0 || log_set(form, "error", &error) != STATUS_OK) _exit(1);
    crash_report();
    crash(how);
    _exit(2);
}

/* The signal that ended the process, and what it wrote. */
static int die(enum crash how, const char *form, char text[4096])
{
    int ends[2], end = 0;
    size_t used = 0;
    ssize_t length;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) become_crash(how, form, ends[1]);
    (void)close(ends[1]);
    while (used < 4095 && (length = read(ends[0], text + used, 4095 - used)) > 0) used += (size_t)length;
    text[used] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &end, 0), pid);
    return WIFSIGNALED(end) ? WTERMSIG(end) : -1;
}

static void test_a_crash_says_where_and_ends_by_its_signal(void **state)
{
    static const struct {
        enum crash how;
        int signal;
        const char *said;
    } cases[] = {
        {CALLS_NULL, SIGSEGV, ": crashed by signal 11 (Segmentation fault) at 0x0 in 0x0\n"},
        {CALLS_UNMAPPED, SIGSEGV, ": crashed by signal 11 (Segmentation fault) at 0x"},
        {READS_NULL, SIGSEGV, ": crashed by signal 11 (Segmentation fault) at 0x0 in deltaq+0x"},
        {ABORTS, SIGABRT, ": crashed by signal 6 (Aborted) in "},
        {IS_KILLED, SIGBUS, ": crashed by signal 7 (Bus error) in "},
    };
    char text[4096];
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* crash_report does nothing there */
#endif
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(die(cases[i].how, "text", text), cases[i].signal);
        const char *said = strstr(text, cases[i].said);
        assert_non_null(said);
        const char *calls = strchr(said, '\n') + 1;
        assert_ptr_equal(strchr(calls, '\n'), text + strlen(text) - 1); /* two lines */
        assert_non_null(strstr(calls, ": called from "));
        assert_non_null(strstr(calls, "deltaq+0x")); /* our own functions */
        assert_non_null(strstr(calls, "libcmocka")); /* which called this test */
    }
}

static void test_the_place_is_said_where_the_stack_is_broken(void **state)
{
    char text[4096];
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    assert_int_equal(die(BREAKS_ITS_STACK, "text", text), SIGSEGV); /* the unwinder's */
    assert_non_null(strstr(text, ": crashed by signal 7 (Bus error) in libc.so.6+0x"));
    assert_null(strstr(text, "called from"));
}

static void test_the_line_has_the_form_of_the_log(void **state)
{
    char text[4096];
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    assert_int_equal(die(CALLS_NULL, "json", text), SIGSEGV);
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "component")), "crash");
    assert_string_equal(json_string_value(json_object_get(line, "level")), "error");
    assert_non_null(strstr(json_string_value(json_object_get(line, "message")), "crashed by signal 11"));
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_crash_says_where_and_ends_by_its_signal),
        cmocka_unit_test(test_the_place_is_said_where_the_stack_is_broken),
        cmocka_unit_test(test_the_line_has_the_form_of_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
