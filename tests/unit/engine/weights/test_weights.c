/* Weights: one file, a directory, shards with an index; and what is refused. */
#include "engine/files/scratch.h"
#include "shared.h"
#include "unit.h"

#include "files/file_writer.h"
#include "formats/safetensors/safetensors_writer.h"
#include "weights/weights.h"

/* Writes a file of F32 tensors [2]; each is filled with the first letter of its name. */
static void write_tensors(struct scratch *scratch, const char *file, const char *const *names)
{
    static const int64_t two[] = {2};
    struct safetensors_entry entries[8];
    struct safetensors_writer *writer = NULL;
    struct error error;
    int64_t count = 0;
    for (; names[count] != NULL; count++) entries[count] = (struct safetensors_entry){names[count], DTYPE_F32, 1, two};
    assert_int_equal(safetensors_writer_open(scratch_path(scratch, file), entries, count, &writer, &error), STATUS_OK);
    for (int64_t i = 0; i < count; i++) {
        const float values[2] = {(float)names[i][0], 1};
        assert_int_equal(safetensors_writer_f32(writer, i, values, 2, &error), STATUS_OK);
    }
    assert_int_equal(safetensors_writer_commit(writer, &error), STATUS_OK);
    safetensors_writer_close(writer);
}

static const char *const names_ac[] = {"a", "c", NULL}, *const names_b[] = {"b", NULL};

/* Two shards, a and c in the first, b in the second, with this index. */
static enum status open_shards(struct scratch *scratch, const char *index, struct weights **out, struct error *error)
{
    write_tensors(scratch, "m-1.safetensors", names_ac);
    write_tensors(scratch, "m-2.safetensors", names_b);
    scratch_write(scratch, "model.safetensors.index.json", index, strlen(index));
    return weights_open(scratch->directory, out, error);
}

#define MAP_A "\"a\":\"m-1.safetensors\""
#define MAP_B "\"b\":\"m-2.safetensors\""
#define MAP_C "\"c\":\"m-1.safetensors\""

static void test_shards_are_one_set_of_tensors(void **state)
{
    struct scratch scratch;
    struct error error;
    struct weights *weights = NULL;
    struct weights_tensor tensor;
    struct weights_file file;
    float values[2];
    bool mixed = true;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(open_shards(&scratch,
                                 "{\"metadata\":{\"total_size\":25.0,\"x\":1},\"weight_map\":{" MAP_B "," MAP_C
                                 "," MAP_A "}}",
                                 &weights, &error),
                     STATUS_OK);
    assert_int_equal(weights_count(weights), 3);
    assert_int_equal(weights_bytes(weights), 24);
    assert_int_equal(weights_dtype(weights, &mixed), DTYPE_F32);
    assert_false(mixed);
    for (int i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        assert_int_equal(weights_find(weights, name), i);
        weights_tensor(weights, i, &tensor);
        assert_string_equal(tensor.name, name);
        assert_true(tensor.rank == 1 && tensor.shape[0] == 2 && tensor.elements == 2 && tensor.bytes == 8);
        weights_readahead(weights, i);
        assert_int_equal(weights_read_f32(weights, i, 0, 2, values, &error), STATUS_OK);
        assert_true(values[0] == (float)name[0] && values[1] == 1);
    }
    assert_int_equal(weights_find(weights, "d"), -1);
    assert_int_equal(weights_file_count(weights), 3);
    weights_file(weights, 0, &file);
    assert_string_equal(file.name, "m-1.safetensors");
    weights_file(weights, 2, &file);
    assert_string_equal(file.name, "model.safetensors.index.json");
    assert_string_equal(weights_directory(weights), scratch.directory);
    assert_int_equal(weights_check_unchanged(weights, &error), STATUS_OK);
    assert_int_equal(file_writer_put(scratch_path(&scratch, "model.safetensors.index.json"), "{}", 2, &error),
                     STATUS_OK);
    assert_int_equal(weights_check_unchanged(weights, &error), STATUS_INPUT_CHANGED);
    weights_close(weights);
    scratch_close(&scratch);
}

static void test_indexes_are_held_to_every_rule(void **state)
{
    static const struct {
        const char *index;
        enum status status;
        const char *detail;
    } wrong[] = {
        {"{\"weight_map\":{" MAP_A "," MAP_B "}}", STATUS_CORRUPT, "does not list tensor \"c\""},
        {"{\"weight_map\":{" MAP_A "," MAP_B "," MAP_C ",\"d\":\"m-2.safetensors\"}}", STATUS_CORRUPT,
         "\"d\" is not in any"},
        {"{\"weight_map\":{" MAP_A ",\"b\":\"m-1.safetensors\"," MAP_C "}}", STATUS_CORRUPT, "\"b\" is not in any"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"m-2.safetensors\"}}", STATUS_CORRUPT,
         "\"c\" is in another file"},
        {"{\"weight_map\":{" MAP_A "," MAP_B "," MAP_C ",\"\\u0061\":\"m-1.safetensors\"}}", STATUS_CORRUPT,
         "given twice"},
        {"{\"weight_map\":{" MAP_A "," MAP_B "," MAP_C "},\"weight_map\":{}}", STATUS_CORRUPT, "given twice"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"m-3.safetensors\"}}", STATUS_NOT_FOUND, "m-3.safetensors"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"../m-1.safetensors\"}}", STATUS_CORRUPT, "same directory"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"/m-1.safetensors\"}}", STATUS_CORRUPT, "same directory"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"x\\\\m-1.safetensors\"}}", STATUS_CORRUPT, "same directory"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"..\"}}", STATUS_CORRUPT, "same directory"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"\"}}", STATUS_CORRUPT, "same directory"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"config.json\"}}", STATUS_CORRUPT, "same directory"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":\"m-1.safetensors\\u0000\"}}", STATUS_CORRUPT, "NUL"},
        {"{\"weight_map\":{" MAP_A "," MAP_B ",\"c\":7}}", STATUS_CORRUPT, "expected a string"},
        {"{\"weight_map\":{}}", STATUS_CORRUPT, "empty"},
        {"{}", STATUS_CORRUPT, "missing"},
        {"", STATUS_CORRUPT, "the text ends"},
    };
    struct scratch scratch;
    struct error error;
    struct weights *weights = NULL;
    (void)state;
    scratch_open(&scratch);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const enum status status = open_shards(&scratch, wrong[i].index, &weights, &error);
        if (status != wrong[i].status || strstr(error.detail, wrong[i].detail) == NULL)
            fail_msg("%s: %s: %s", wrong[i].index, status_info(status)->name, error.detail);
        assert_null(weights);
    }
    scratch_close(&scratch);
}

static void test_a_tensor_in_two_shards_is_refused(void **state)
{
    static const char index[] = "{\"weight_map\":{" MAP_A "," MAP_B "," MAP_C "}}";
    static const char *const names_ab[] = {"a", "b", NULL};
    struct scratch scratch;
    struct error error;
    struct weights *weights = NULL;
    (void)state;
    scratch_open(&scratch);
    write_tensors(&scratch, "m-1.safetensors", names_ac);
    write_tensors(&scratch, "m-2.safetensors", names_ab);
    scratch_write(&scratch, "model.safetensors.index.json", index, sizeof index - 1);
    assert_int_equal(weights_open(scratch.directory, &weights, &error), STATUS_CORRUPT);
    assert_string_equal(error.detail, "tensor \"a\" is in two files");
    scratch_close(&scratch);
}

static enum status try_open(const char *path, struct error *error)
{
    struct weights *weights = NULL;
    const enum status status = weights_open(path, &weights, error);
    weights_close(weights);
    return status;
}

/* Trainers leave files with the same endings beside the weights. */
static void test_training_state_is_not_weights(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "optimizer.pt", "x", 1);
    scratch_write(&scratch, "training_args.bin", "x", 1);
    scratch_write(&scratch, "rng_state_0.pth", "x", 1);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_NOT_FOUND);
    scratch_write(&scratch, "ckpt_2.pt", "x", 1);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.detail, "ckpt_2.pt"));
    scratch_write(&scratch, "ckpt_3.pt", "x", 1);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_INVALID);
    assert_string_equal(error.detail, "the directory has 2 .pt files; name one of them");
    scratch_close(&scratch);
}

static void test_a_directory_must_say_which_file(void **state)
{
    struct scratch scratch;
    struct error error;
    (void)state;
    scratch_open(&scratch);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.detail, "expected model.safetensors"));
    assert_int_equal(try_open(scratch_path(&scratch, "absent"), &error), STATUS_NOT_FOUND);
    scratch_write(&scratch, "pytorch_model.bin", "PK", 2);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.detail, "torch.save"));
    assert_int_equal(try_open(scratch_path(&scratch, "pytorch_model.bin"), &error), STATUS_CORRUPT);
    scratch_write(&scratch, "notes.txt", "x", 1);
    assert_int_equal(try_open(scratch.path, &error), STATUS_UNSUPPORTED);
    assert_int_equal(unlink(scratch_path(&scratch, "pytorch_model.bin")), 0);
    write_tensors(&scratch, "one.safetensors", names_ac);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_OK);
    write_tensors(&scratch, "two.safetensors", names_b);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "2 .safetensors files"));
    assert_int_equal(try_open(scratch_path(&scratch, "two.safetensors"), &error), STATUS_OK);
    write_tensors(&scratch, "model.safetensors", names_b);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_OK);
    scratch_write(&scratch, "model.safetensors", "broken", 6);
    assert_int_equal(try_open(scratch.directory, &error), STATUS_CORRUPT);
    assert_null(strstr(error.detail, scratch.directory));
    scratch_close(&scratch);
}

/* The bytes of a plain tensor, from its middle on, are its numbers. Others are not for weights_read_bytes. */
static void check_bytes(const struct weights *weights, int64_t index, const float *values)
{
    struct weights_tensor tensor;
    struct error error;
    weights_tensor(weights, index, &tensor);
    const struct dtype_info *dtype = dtype_info(tensor.dtype);
    const int64_t width = (int64_t)dtype->bits / 8, first = tensor.elements / 2, count = tensor.elements - first;
    if (!tensor.plain) return;
    char *bytes = malloc((size_t)(count * width));
    float *found = malloc((size_t)count * sizeof *found);
    assert_int_equal(weights_read_bytes(weights, index, first * width, count * width, bytes, &error), STATUS_OK);
    dtype->to_f32(bytes, found, count);
    assert_memory_equal(found, values + first, (size_t)count * sizeof *found);
    assert_int_equal(weights_read_bytes(weights, index, first * width, count * width + 1, bytes, &error),
                     STATUS_INVALID);
    free(bytes);
    free(found);
}

/* FNV-1a-like digest of all values as float32, in the order of names: made once with the reference Python reader. */
static void check_reference(const char *relative, int64_t bytes, enum dtype dtype, bool mixed, bool plain,
                            uint64_t digest)
{
    char path[512];
    struct weights *weights = NULL;
    struct weights_tensor tensor;
    struct error error;
    uint64_t hash = 0;
    bool found_mixed;
    assert_int_equal(weights_open(shared_require(relative, path, sizeof path), &weights, &error), STATUS_OK);
    float *values = malloc(22176 * sizeof *values);
    assert_non_null(values);
    assert_int_equal(weights_count(weights), 21);
    assert_int_equal(weights_bytes(weights), bytes);
    assert_int_equal(weights_dtype(weights, &found_mixed), dtype);
    assert_true(found_mixed == mixed);
    for (int64_t i = 0; i < 21; i++) {
        weights_tensor(weights, i, &tensor);
        assert_int_equal(weights_read_f32(weights, i, 0, tensor.elements, values, &error), STATUS_OK);
        assert_true(tensor.plain == !tensor.scattered && (tensor.plain || !plain));
        check_bytes(weights, i, values);
        for (int64_t k = 0; k < tensor.elements; k++) {
            uint32_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x100000001b3);
        }
    }
    assert_true(hash == digest);
    weights_close(weights);
    free(values);
}

static void test_reference_bf16_values_are_equal(void **state)
{
    (void)state;
    check_reference("reference/formats/bf16", 44352, DTYPE_BF16, false, true, UINT64_C(0x9c968c847ce80000));
}

static void test_reference_f16_values_are_equal(void **state)
{
    (void)state;
    check_reference("reference/formats/f16", 44352, DTYPE_F16, false, true, UINT64_C(0xb496517e540b6000));
}

static void test_reference_mixed_values_are_equal(void **state)
{
    (void)state;
    check_reference("reference/formats/mixed", 44672, DTYPE_BF16, true, true, UINT64_C(0x37c058e83d1eb08d));
}

static void test_reference_sharded_values_are_equal(void **state)
{
    (void)state;
    check_reference("reference/formats/sharded_safetensors", 88704, DTYPE_F32, false, true,
                    UINT64_C(0xb96799dfbe229f13));
}

/* The same weights, so the digest of the shards above: bit by bit, whatever holds them. */
static void test_reference_torch_values_are_equal(void **state)
{
    (void)state;
    check_reference("reference/formats/pytorch_bin", 88704, DTYPE_F32, false, true, UINT64_C(0xb96799dfbe229f13));
    check_reference("reference/formats/sharded_bin", 88704, DTYPE_F32, false, true, UINT64_C(0xb96799dfbe229f13));
    check_reference("reference/formats/views_bin", 88704, DTYPE_F32, false, false, UINT64_C(0xb96799dfbe229f13));
}

static void test_a_reference_training_state_is_its_weights(void **state)
{
    char path[512];
    struct weights *weights = NULL;
    struct weights_progress progress;
    struct error error;
    (void)state;
    assert_int_equal(weights_open(shared_require("reference/formats/trainer_pth", path, sizeof path), &weights, &error),
                     STATUS_OK);
    assert_int_equal(weights_count(weights), 16);
    assert_true(weights_find(weights, "gpt_neox.layers.0.mlp.dense_4h_to_h.weight") >= 0);
    weights_progress(weights, &progress);
    assert_true(progress.step == 4000 && progress.tokens == -1);
    weights_close(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_are_one_set_of_tensors),
        cmocka_unit_test(test_indexes_are_held_to_every_rule),
        cmocka_unit_test(test_a_tensor_in_two_shards_is_refused),
        cmocka_unit_test(test_training_state_is_not_weights),
        cmocka_unit_test(test_a_directory_must_say_which_file),
        cmocka_unit_test(test_reference_bf16_values_are_equal),
        cmocka_unit_test(test_reference_f16_values_are_equal),
        cmocka_unit_test(test_reference_mixed_values_are_equal),
        cmocka_unit_test(test_reference_sharded_values_are_equal),
        cmocka_unit_test(test_reference_torch_values_are_equal),
        cmocka_unit_test(test_a_reference_training_state_is_its_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
