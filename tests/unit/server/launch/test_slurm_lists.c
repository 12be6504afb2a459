/* What is made of Slurm's lists of jobs: programs of the names of its commands stand in for them. */
#include "unit.h"

#include "launch/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/deltaq-slurm-XXXXXX";

static void put(const char *name, const char *text, mode_t mode)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* A program that appends its arguments to `calls`, then does what the text says, in the directory. */
static void put_program(const char *name, const char *text)
{
    char script[2048];
    assert_true(snprintf(script, sizeof script, "#!/bin/sh\ncd %s\necho \"%s $*\" >> calls\n%s\n", directory, name,
                         text) < (int)sizeof script);
    put(name, script, 0700);
}

static int set_up(void **state)
{
    char path[4096];
    const char *before = getenv("PATH");
    (void)state;
    if (mkdtemp(directory) == NULL) return 1;
    (void)snprintf(path, sizeof path, "%s:%s", directory, before != NULL ? before : "/usr/bin:/bin");
    return setenv("PATH", path, 1);
}

static int tear_down(void **state)
{
    static const char *const names[] = {"squeue", "sacct", "scancel", "calls", "answer"};
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void)unlink(path);
    }
    return rmdir(directory);
}

/* The file `calls`, the caller's. */
static char *read_calls(void)
{
    enum { BYTES = 1 << 16 };
    char path[128], *text = calloc(1, BYTES);
    (void)snprintf(path, sizeof path, "%s/calls", directory);
    FILE *file = fopen(path, "r");
    assert_non_null(text);
    assert_non_null(file);
    text[fread(text, 1, BYTES - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static void test_what_slurm_holds_is_told_from_what_waits(void **state)
{
    static const struct {
        const char *line;
        bool held, delayed;
    } rows[] = {
        {"1|1|lab-00000001-600|PENDING|Resources", false, false},
        {"2|2|lab-00000001-600|PENDING|BeginTime", false, true},
        {"3|3|lab-00000001-600|PENDING|JobHeldUser", true, true},
        {"4|4|lab-00000001-600|PENDING|JobHeldAdmin", true, true},
        {"5|5|lab-00000001-600|PENDING|launch failed requeued held", true, true},
        {"6|6|lab-00000001-600|PENDING|launch_failed_requeued_held", true, true},
        {"7|7|lab-00000001-600|PENDING|BadConstraints", true, true},
        {"8|8|lab-00000001-600|PENDING|DependencyNeverSatisfied", true, true},
        {"9|9|lab-00000001-600|REQUEUE_HOLD|None", true, true},
        {"10|10|lab-00000001-600|SPECIAL_EXIT|None", true, true},
        {"11|11|lab-00000001-600|PENDING|JobHoldMaxRequeue", true, true},
        {"12|12|lab-00000001-600|RUNNING|JobHeldUser", false, false},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct error error;
    struct slurm_job *jobs = NULL;
    size_t count = 0, length = 0;
    char text[2048];
    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", rows[i].line);
    put("answer", text, 0600);
    put_program("squeue", "exec cat answer");
    assert_int_equal(slurm_jobs("lab", &jobs, &count, &error), STATUS_OK);
    assert_int_equal(count, ROWS);
    for (size_t i = 0; i < ROWS; i++)
        if (jobs[i].held != rows[i].held || jobs[i].delayed != rows[i].delayed) fail_msg("%s", rows[i].line);
    assert_string_equal(jobs[4].reason, "launch_failed_requeued_held");
    free(jobs);
}

static void test_jobs_of_a_launcher_whose_name_begins_alike_are_not_listed(void **state)
{
    struct error error;
    struct slurm_job *jobs = NULL;
    size_t count = 0;
    (void)state;
    put("answer",
        "1|1|lab-1600c861-600|PENDING|Priority\n"
        "2|2|lab-2-1600c861-0|PENDING|Priority\n"
        "3|3|lab-1600c861-0-1600c861-0|PENDING|Priority\n"
        "4|4|lab2-1600c861-600|PENDING|Priority\n"
        "5|5|lab-1600c86-600|PENDING|Priority\n"
        "6|6|lab-1600c8610-600|PENDING|Priority\n"
        "7|7|lab-1600C861-600|PENDING|Priority\n"
        "8|8|lab-1600c861-600x|PENDING|Priority\n"
        "9|9|lab-1600c861-|PENDING|Priority\n"
        "10|10|lab-1600c861|PENDING|Priority\n"
        "11|11|lab|PENDING|Priority\n"
        "12|12|another-1600c861-600|PENDING|Priority\n",
        0600);
    put_program("squeue", "exec cat answer");
    assert_int_equal(slurm_jobs("lab", &jobs, &count, &error), STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(jobs[0].handle, "1");
    assert_int_equal(jobs[0].hash, 0x1600c861);
    assert_int_equal(jobs[0].memory_mib, 600);
    free(jobs);
    assert_int_equal(slurm_jobs("lab-2", &jobs, &count, &error), STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(jobs[0].handle, "2");
    assert_int_equal(jobs[0].memory_mib, 0);
    free(jobs);
}

static void test_a_held_job_is_cancelled_whatever_its_state_is_called(void **state)
{
    struct error error;
    const struct slurm_job held = {.handle = "12_3", .pending = true, .held = true};
    const struct slurm_job waiting = {.handle = "13", .pending = true};
    (void)state;
    put("calls", "", 0600);
    put_program("scancel", "exit 0");
    assert_int_equal(slurm_cancel_pending(&held, &error), STATUS_OK);
    assert_int_equal(slurm_cancel_pending(&waiting, &error), STATUS_OK);
    char *calls = read_calls();
    assert_string_equal(calls, "scancel 12_3\nscancel --state=PENDING 13\n");
    free(calls);
}

static void test_the_ends_of_many_jobs_are_asked_for_in_few_commands(void **state)
{
    enum { JOBS = 401, ALL = JOBS + 2, KNOWN = 250, NOBODY_KNOWS = 400 };
    struct slurm_end *ends = calloc(ALL, sizeof *ends);
    char(*ids)[8] = calloc(JOBS, sizeof *ids);
    int squeue = 0, sacct = 0;
    (void)state;
    assert_non_null(ends);
    assert_non_null(ids);
    for (int i = 0; i < JOBS; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%d", i + 1);
        ends[i].job = ids[i];
    }
    ends[JOBS].job = "what"; /* the last is NULL */
    put("calls", "", 0600);
    put_program("squeue", "for ids; do :; done\n"
                          "echo \"$ids\" | tr , '\\n' | awk '$1 <= 250 {print $1 \"|COMPLETED\"}'");
    put_program("sacct", "echo \"$4\" | tr , '\\n' |"
                         " awk '$1 != 400 {print $1 \"|NODE_FAIL\"; print $1 \".batch|CANCELLED\"}'");
    slurm_ends(ends, ALL);
    for (int i = 0; i < JOBS; i++) {
        const char *known = i < KNOWN ? "COMPLETED" : "NODE_FAIL";
        assert_string_equal(ends[i].state, i + 1 == NOBODY_KNOWS ? "" : known);
    }
    assert_string_equal(ends[JOBS].state, "");
    char *calls = read_calls(), *kept = NULL;
    assert_null(strstr(calls, "what"));
    assert_non_null(strstr(calls, "--jobs 1,2,3,"));
    assert_non_null(strstr(calls, "--jobs 251,252,"));
    for (const char *line = strtok_r(calls, "\n", &kept); line != NULL; line = strtok_r(NULL, "\n", &kept)) {
        squeue += strncmp(line, "squeue ", 7) == 0;
        sacct += strncmp(line, "sacct ", 6) == 0;
    }
    assert_int_equal(squeue, 3); /* 200, 200 and 1 */
    assert_int_equal(sacct, 1);  /* the 151 that squeue does not know */
    free(calls);
    free(ids);
    free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_slurm_holds_is_told_from_what_waits),
        cmocka_unit_test(test_jobs_of_a_launcher_whose_name_begins_alike_are_not_listed),
        cmocka_unit_test(test_a_held_job_is_cancelled_whatever_its_state_is_called),
        cmocka_unit_test(test_the_ends_of_many_jobs_are_asked_for_in_few_commands),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
