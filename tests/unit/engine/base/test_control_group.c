/* The memory of a process's control groups, over trees made up of files. */
#include "base/control_group.h"
#include "base/directory.h"
#include "unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char place[32];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof place, "/tmp/deltaq-group-XXXXXX");
    return mkdtemp(place) == NULL || chdir(place) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    directory_remove(AT_FDCWD, place);
    return access(place, F_OK) == 0;
}

static void put(const char *path, const char *text)
{
    assert_int_equal(directory_make_above(path, 0700), 0);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void expect(int64_t limit, int64_t left)
{
    const struct control_group_memory memory = control_group_read("proc", "cgroup");
    assert_int_equal(memory.limit, limit);
    assert_int_equal(memory.left, left);
}

/* As Slurm has it: the job is bounded, the step and the task below it are not, nor is what is above. */
static void test_v2_takes_the_smallest_of_the_group_and_those_above(void **state)
{
    (void)state;
    put("proc", "0::/system.slice/slurmstepd.scope/job_7/step_0/task_0\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/step_0/task_0/memory.max", "max\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", "6000\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.current", "500\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/memory.max", "4000\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/memory.current", "1500\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/memory.stat", "anon 1000\ninactive_file 200\nactive_file 300\n");
    put("cgroup/system.slice/slurmstepd.scope/memory.max", "max\n");
    put("cgroup/system.slice/memory.max", "9000\n");
    put("cgroup/system.slice/memory.current", "8000\n");
    expect(4000, 1000); /* the slice has 1000 left for all of its jobs, the job 2700 */
    put("cgroup/system.slice/memory.max", "max\n");
    expect(4000, 2700);
    put("cgroup/system.slice/slurmstepd.scope/job_7/memory.current", "5000\n");
    put("cgroup/system.slice/slurmstepd.scope/job_7/memory.stat", "anon 5000\n");
    expect(4000, 0);
}

static void test_v1_reads_the_memory_controller_of_its_own_line(void **state)
{
    (void)state;
    put("proc", "12:cpu,cpuacct:/other\n5:cpuset,memory:/slurm/uid_0/job_3\n4:memory_not:/wrong\n1:name=systemd:/x\n"
                "0::/unified\n");
    put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
    put("cgroup/memory/slurm/uid_0/job_3/memory.limit_in_bytes", "3000\n");
    put("cgroup/memory/slurm/uid_0/job_3/memory.usage_in_bytes", "2000\n");
    put("cgroup/memory/slurm/uid_0/job_3/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
    put("cgroup/memory/other/memory.limit_in_bytes", "1\n");
    put("cgroup/memory/wrong/memory.limit_in_bytes", "2\n");
    expect(3000, 1500);
}

/* The path is that within the namespace, or one of the host that the mount does not have. */
static void test_a_container_has_its_own_group_at_the_root(void **state)
{
    static const char *const paths[] = {"0::/\n", "0::/../../kubepods/pod1\n", "0::/docker/0123456789abcdef\n", ""};
    (void)state;
    put("cgroup/memory.max", "2000\n");
    put("cgroup/memory.current", "700\n");
    put("kubepods/pod1/memory.max", "1\n"); /* "cgroup/../../kubepods" would be outside; so is this */
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        put("proc", paths[i]);
        expect(2000, 1300);
    }
    assert_int_equal(unlink("proc"), 0);
    expect(2000, 1300);
}

static void test_long_paths_are_read_to_their_end(void **state)
{
    char path[1200] = "cgroup", line[1300];
    (void)state;
    for (int i = 0; i < 5; i++) {
        const size_t length = strlen(path);
        (void)snprintf(path + length, sizeof path - length, "/%0200d", i);
    }
    (void)snprintf(line, sizeof line, "0::%s\n", path + strlen("cgroup"));
    put("proc", line);
    (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/memory.max");
    put(path, "1234\n");
    expect(1234, INT64_MAX);
}

static void test_no_limit_is_none(void **state)
{
    (void)state;
    expect(INT64_MAX, INT64_MAX);
    put("proc", "0::/user.slice\n");
    put("cgroup/user.slice/memory.max", "max\n");
    put("cgroup/user.slice/memory.current", "700\n");
    expect(INT64_MAX, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_v2_takes_the_smallest_of_the_group_and_those_above, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_v1_reads_the_memory_controller_of_its_own_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_container_has_its_own_group_at_the_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_paths_are_read_to_their_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_limit_is_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
