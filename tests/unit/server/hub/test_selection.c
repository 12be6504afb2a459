#include "unit.h"

#include "hub/selection.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

/* The names that are chosen of `names`, sorted as they come, in one text. */
static enum status choose(const char *const *names, const char *const *wanted, size_t wanted_count, char out[500],
                          struct error *error)
{
    struct repository_file files[MOST];
    size_t count = 0, chosen = 0;
    memset(files, 0, sizeof files);
    for (; names[count] != NULL; count++) {
        (void)snprintf(files[count].name, sizeof files[count].name, "%s", names[count]);
        files[count].bytes = 1;
    }
    const enum status status = selection_make(files, count, wanted, wanted_count, &chosen, error);
    out[0] = '\0';
    for (size_t i = 0; i < chosen; i++) {
        const size_t used = strlen(out);
        (void)snprintf(out + used, 500 - used, "%s%s", used > 0 ? " " : "", files[i].name);
    }
    return status;
}

static void test_one_format_is_enough(void **state)
{
    static const struct {
        const char *names[MOST], *chosen;
    } rows[] = {
        {{"README.md", "config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json"},
         "config.json model.safetensors tokenizer.json"},
        {{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
          "model.safetensors.index.json", "consolidated.safetensors"},
         "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
        {{"pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json", "training_args.bin",
          "flax_model.msgpack"},
         "pytorch_model-00001-of-00001.bin pytorch_model.bin.index.json"},
        {{"config.json", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx"}, "config.json pytorch_model.bin"},
        {{"weights.gguf", "README.md"}, "weights.gguf"},
        {{"model.safetensors", "chat_template.jinja", "merges.txt", "tokenizer.model", "training.json",
          "merges.txt.orig"},
         "model.safetensors chat_template.jinja merges.txt tokenizer.model training.json"},
    };
    char chosen[500];
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(choose(rows[i].names, NULL, 0, chosen, &error), STATUS_OK);
        assert_string_equal(chosen, rows[i].chosen);
    }
}

static void test_what_cannot_be_chosen_is_refused(void **state)
{
    static const char *const none[] = {"README.md", "sub/model.safetensors", NULL};
    static const char *const two[] = {"a.gguf", "b.gguf", NULL};
    char chosen[500];
    struct error error;
    (void)state;
    assert_int_equal(choose(none, NULL, 0, chosen, &error), STATUS_UNSUPPORTED);
    assert_int_equal(choose(two, NULL, 0, chosen, &error), STATUS_UNSUPPORTED);
}

static void test_named_files_are_taken_once(void **state)
{
    static const char *const names[] = {"a", "b/c", "d", NULL};
    static const char *const wanted[] = {"d", "b/c", "d"}, *const absent[] = {"a", "e"};
    char chosen[500];
    struct error error;
    (void)state;
    assert_int_equal(choose(names, wanted, 3, chosen, &error), STATUS_OK);
    assert_string_equal(chosen, "d b/c");
    assert_int_equal(choose(names, absent, 2, chosen, &error), STATUS_NOT_FOUND);
}

static void test_sizes_are_added_without_overflow(void **state)
{
    struct repository_file files[2] = {{.name = "model.safetensors", .bytes = INT64_MAX},
                                       {.name = "config.json", .bytes = 1}};
    size_t chosen;
    struct error error;
    (void)state;
    assert_int_equal(selection_make(files, 2, NULL, 0, &chosen, &error), STATUS_TOO_LARGE);
}

static void test_configuration_files_of_more_than_256_mib_are_left(void **state)
{
    struct repository_file files[3] = {{.name = "model.safetensors", .bytes = INT64_C(1) << 40},
                                       {.name = "config.json", .bytes = 256 << 20},
                                       {.name = "tokenizer.json", .bytes = (256 << 20) + 1}};
    size_t chosen;
    struct error error;
    (void)state;
    assert_int_equal(selection_make(files, 3, NULL, 0, &chosen, &error), STATUS_OK);
    assert_int_equal(chosen, 2);
    assert_string_equal(files[2].name, "tokenizer.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_format_is_enough),
        cmocka_unit_test(test_what_cannot_be_chosen_is_refused),
        cmocka_unit_test(test_named_files_are_taken_once),
        cmocka_unit_test(test_configuration_files_of_more_than_256_mib_are_left),
        cmocka_unit_test(test_sizes_are_added_without_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
