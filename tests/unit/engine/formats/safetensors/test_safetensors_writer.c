/* Writing safetensors: what was written is read back, and a failure leaves nothing. */
#include "engine/files/scratch.h"
#include "unit.h"

#include "base/random.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/safetensors_writer.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

enum { ROWS = 301, COLUMNS = 257, VALUES = ROWS * COLUMNS };

static const int64_t matrix[] = {ROWS, COLUMNS}, three[] = {3}, none[] = {0, 5};

/* Narrow types before wide ones, odd sizes: the layout has to mend the alignment. */
static const struct safetensors_entry entries[] = {
    {"flags \"x\\y\"", DTYPE_U8, 1, three},
    {"b.f16", DTYPE_F16, 2, matrix},
    {"a.bf16", DTYPE_BF16, 2, matrix},
    {"c.f32\xc3\xa4", DTYPE_F32, 2, matrix},
    {"d.f64", DTYPE_F64, 1, three},
    {"empty", DTYPE_F32, 2, none},
    {"one", DTYPE_F32, 0, NULL},
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

static float *random_values(void)
{
    float *values = malloc(VALUES * sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < VALUES; i++) values[i] = (float)random_normal(5, 6, (uint64_t)i);
    return values;
}

/* The value as it should come back from an entry of this dtype. */
static float stored(enum dtype dtype, float value)
{
    double bytes;
    float back;
    dtype_info(dtype)->from_f32(&value, &bytes, 1);
    dtype_info(dtype)->to_f32(&bytes, &back, 1);
    return back;
}

static enum status write_all(const char *path, const float *values, struct error *error)
{
    enum status status;
    struct safetensors_writer *writer = NULL;
    if ((status = safetensors_writer_open(path, entries, ENTRIES, &writer, error)) != STATUS_OK) return status;
    for (int64_t i = ENTRIES - 1; i >= 0 && status == STATUS_OK; i--) {
        int64_t count = 1;
        for (int axis = 0; axis < entries[i].rank; axis++) count *= entries[i].shape[axis];
        if (entries[i].dtype == DTYPE_U8) {
            status = safetensors_writer_bytes(writer, i, "\1\2\3", 3, error);
            continue;
        }
        const int64_t first = count / 3; /* in two chunks */
        status = safetensors_writer_f32(writer, i, values, first, error);
        if (status == STATUS_OK) status = safetensors_writer_f32(writer, i, values + first, count - first, error);
    }
    if (status == STATUS_OK) status = safetensors_writer_commit(writer, error);
    safetensors_writer_close(writer);
    return status;
}

static void test_what_is_written_is_read_back(void **state)
{
    struct scratch scratch;
    struct error error;
    struct safetensors *file = NULL;
    struct safetensors_tensor tensor;
    float *values = random_values(), *back = malloc(VALUES * sizeof *back);
    unsigned char raw[3];
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(write_all(scratch_path(&scratch, "x.safetensors"), values, &error), STATUS_OK);
    assert_int_equal(scratch_entries(&scratch, 0), 1);
    assert_int_equal(safetensors_open(AT_FDCWD, scratch.path, &file, &error), STATUS_OK);
    assert_int_equal(safetensors_count(file), ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        const int64_t index = safetensors_find(file, entries[i].name);
        assert_true(index >= 0);
        safetensors_tensor(file, index, &tensor);
        assert_true(tensor.dtype == entries[i].dtype && tensor.rank == entries[i].rank);
        assert_int_equal(tensor.offset % (int64_t)(dtype_info(tensor.dtype)->bits / 8), 0);
        if (tensor.dtype == DTYPE_U8) continue;
        assert_int_equal(safetensors_read_f32(file, index, 0, tensor.elements, back, &error), STATUS_OK);
        for (int64_t k = 0; k < tensor.elements; k++) assert_true(back[k] == stored(tensor.dtype, values[k]));
    }
    assert_int_equal(safetensors_read_bytes(file, safetensors_find(file, entries[0].name), 0, 3, raw, &error),
                     STATUS_OK);
    assert_memory_equal(raw, "\1\2\3", 3);
    safetensors_close(file);
    free(values);
    free(back);
    scratch_close(&scratch);
}

static void test_incomplete_and_overfull_tensors_are_refused(void **state)
{
    static const struct safetensors_entry entry[] = {{"a", DTYPE_F16, 1, three}, {"b", DTYPE_U8, 1, three}};
    const float values[4] = {1, 2, 3, 4};
    struct scratch scratch;
    struct error error;
    struct safetensors_writer *writer = NULL;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(safetensors_writer_open(scratch_path(&scratch, "x"), entry, 2, &writer, &error), STATUS_OK);
    assert_int_equal(safetensors_writer_f32(writer, 0, values, 4, &error), STATUS_INVALID);
    assert_int_equal(safetensors_writer_f32(writer, 0, values, 2, &error), STATUS_OK);
    assert_int_equal(safetensors_writer_f32(writer, 0, values, 2, &error), STATUS_INVALID);
    assert_int_equal(safetensors_writer_f32(writer, 1, values, 1, &error), STATUS_INVALID);
    assert_int_equal(safetensors_writer_bytes(writer, 1, values, 4, &error), STATUS_INVALID);
    assert_int_equal(safetensors_writer_commit(writer, &error), STATUS_INVALID);
    safetensors_writer_close(writer);
    assert_int_equal(scratch_entries(&scratch, 0), 0);
    scratch_close(&scratch);
}

static void test_entries_that_no_reader_would_take_are_refused(void **state)
{
    static const int64_t negative[] = {-1}, large[] = {INT64_C(1) << 48},
                         overflow[] = {INT64_C(1) << 40, INT64_C(1) << 40};
    static const struct {
        struct safetensors_entry entries[2];
        int count;
    } wrong[] = {
        {{{"a", DTYPE_F32, 1, three}, {"a", DTYPE_F32, 1, three}}, 2},
        {{{"a\n", DTYPE_F32, 1, three}}, 1},
        {{{"\xff", DTYPE_F32, 1, three}}, 1},
        {{{"__metadata__", DTYPE_F32, 1, three}}, 1},
        {{{"a", DTYPE_F32, 1, negative}}, 1},
        {{{"a", DTYPE_U8, 1, large}}, 1},
        {{{"a", DTYPE_F32, 2, overflow}}, 1},
        {{{"a", DTYPE_F32, 17, three}}, 1},
        {{{"a", DTYPE_F32, -1, three}}, 1},
    };
    struct scratch scratch;
    struct error error;
    struct safetensors_writer *writer = NULL;
    (void)state;
    scratch_open(&scratch);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            safetensors_writer_open(scratch_path(&scratch, "x"), wrong[i].entries, wrong[i].count, &writer, &error),
            STATUS_INVALID);
        assert_null(writer);
    }
    assert_int_equal(scratch_entries(&scratch, 0), 0);
    scratch_close(&scratch);
}

static void test_a_file_without_tensors_is_valid(void **state)
{
    struct scratch scratch;
    struct error error;
    struct safetensors_writer *writer = NULL;
    struct safetensors *file = NULL;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(safetensors_writer_open(scratch_path(&scratch, "x"), NULL, 0, &writer, &error), STATUS_OK);
    assert_int_equal(safetensors_writer_commit(writer, &error), STATUS_OK);
    safetensors_writer_close(writer);
    assert_int_equal(safetensors_open(AT_FDCWD, scratch.path, &file, &error), STATUS_OK);
    assert_int_equal(safetensors_count(file), 0);
    safetensors_close(file);
    scratch_close(&scratch);
}

static void test_a_size_limit_leaves_the_old_file(void **state)
{
    struct scratch scratch;
    struct error error;
    struct rlimit before, small;
    float *values = random_values();
    struct stat info;
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "x.safetensors", "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum status status = write_all(scratch_path(&scratch, "x.safetensors"), values, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, STATUS_DISK_FULL);
    assert_int_equal(scratch_entries(&scratch, 0), 1);
    assert_int_equal(stat(scratch.path, &info), 0);
    assert_int_equal(info.st_size, 3);
    free(values);
    scratch_close(&scratch);
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    struct scratch scratch;
    struct error error;
    float *values = random_values();
    (void)state;
    scratch_open(&scratch);
    if (mount("none", scratch.directory, "tmpfs", 0, "size=200k") != 0) {
        print_message("skip: cannot mount a small file system here\n");
        free(values);
        scratch_close(&scratch);
        skip();
    }
    const enum status status = write_all(scratch_path(&scratch, "x.safetensors"), values, &error);
    const int left = scratch_entries(&scratch, 1);
    assert_int_equal(umount(scratch.directory), 0);
    scratch_close(&scratch);
    free(values);
    assert_int_equal(status, STATUS_DISK_FULL);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_incomplete_and_overfull_tensors_are_refused),
        cmocka_unit_test(test_entries_that_no_reader_would_take_are_refused),
        cmocka_unit_test(test_a_file_without_tensors_is_valid),
        cmocka_unit_test(test_a_size_limit_leaves_the_old_file),
        cmocka_unit_test(test_a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
