/* Templates, and what sbatch is told. */
#include "unit.h"

#include "launch/launcher.h"
#include "launch/slurm.h"

#include <stdlib.h>
#include <string.h>

static void test_a_template_says_what_its_workers_are_and_what_sbatch_is_told(void **state)
{
    struct error error;
    struct template template;
    (void)state;
    static const char text[] = "device_memory=76G,device=cuda,gpu=h100 big: --partition=h100  --gres=gpu:1";
    assert_int_equal(template_parse(text, &template, &error), STATUS_OK);
    assert_string_equal(template.device, "cuda");
    assert_int_equal(template.device_memory, (int64_t)76 << 30);
    assert_int_equal(json_array_size(template.labels), 2);
    assert_string_equal(json_string_value(json_array_get(template.labels, 1)), "big");
    assert_string_equal(template.options[0], "--partition=h100");
    assert_string_equal(template.options[1], "--gres=gpu:1");
    assert_null(template.options[2]);
    template_reset(&template);
}

/* "aaaa…0001,aaaa…0002,…": `count` labels of 60 characters. */
static void write_labels(char *out, size_t size, int count)
{
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%056d%04d", i > 0 ? "," : "", 0, i);
    (void)snprintf(out + length, size - length, ":");
}

static void test_more_labels_than_a_worker_takes_are_refused_at_the_start(void **state)
{
    struct error error;
    struct template template;
    struct launcher *launcher = NULL;
    char text[4096];
    (void)state;
    for (int count = 32; count <= 34; count++) {
        write_labels(text, sizeof text, count);
        assert_int_equal(template_parse(text, &template, &error), STATUS_OK);
        const struct launcher_options options = {
            .name = "lab", .templates = &template, .template_count = 1, .dry_run = true};
        const enum status status = launcher_new(&options, &launcher, &error);
        /* "launcher=lab" and 61 characters for each */
        assert_int_equal(status, 12 + 61 * count < 2048 ? STATUS_OK : STATUS_INVALID);
        if (status != STATUS_OK) assert_non_null(strstr(error.detail, "--template"));
        launcher_free(launcher);
        template_reset(&template);
    }
}

static void test_a_template_meets_what_it_has_all_of(void **state)
{
    static const struct {
        const char *device, *labels;
        int64_t memory;
        bool meets;
    } rows[] = {{NULL, "[]", 0, true},       {"cuda", "[\"a\"]", 0, true},
                {"cpu", "[]", 0, false},     {NULL, "[\"b=1\", \"a\"]", 0, true},
                {NULL, "[\"c\"]", 0, false}, {NULL, "[\"a\", \"b=2\"]", 0, false},
                {"cuda", "[]", 3072, true},  {"cuda", "[]", 3073, false}};
    struct error error;
    struct template template;
    (void)state;
    assert_int_equal(template_parse("a,b=1,device=cuda,device_memory=3M:", &template, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *labels = json_loads(rows[i].labels, 0, NULL);
        if (template_meets(&template, rows[i].device, rows[i].memory << 10, labels) != rows[i].meets)
            fail_msg("row %zu", i);
        json_decref(labels);
    }
    template_reset(&template);
}

static void test_bad_templates_are_told(void **state)
{
    static const char *const rows[][2] = {{"gpu=h100", "expected LABELS: OPTIONS"},
                                          {"device=tpu:", "must be cpu or cuda"},
                                          {"a=b=c:", "must be NAME=VALUE"},
                                          {"device_memory=80000:", "add device=cuda"},
                                          {"device=cuda,device_memory=80GB:", "a size like 76G"},
                                          {"device=cuda,device_memory=-1:", "a size like 76G"},
                                          {"device=cuda,device_memory=0:", "a size like 76G"},
                                          {"device=cuda,device_memory=:", "a size like 76G"},
                                          {": partition=x", "is no option"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error;
        struct template template;
        assert_int_equal(template_parse(rows[i][0], &template, &error), STATUS_INVALID);
        if (strstr(error.detail, rows[i][1]) == NULL) fail_msg("%s: %s", rows[i][0], error.detail);
        template_reset(&template);
    }
}

static void test_words_of_a_worker_are_no_shell(void **state)
{
    static const char *const worker[] = {"/opt/my lab/deltaq", "worker", "it's $HOME `ls`; \"x\"", NULL};
    struct error error;
    struct template template;
    json_t *words, *script;
    (void)state;
    assert_int_equal(template_parse(": --partition=work", &template, &error), STATUS_OK);
    const struct slurm_submission submission = {.name = "lab",
                                                .template = &template,
                                                .memory_mib = 600,
                                                .minutes = 60,
                                                .threads = 2,
                                                .count = 3,
                                                .log_directory = "/lab/log",
                                                .worker = worker};
    assert_int_equal(slurm_command(&submission, &words, &script, &error), STATUS_OK);
    assert_string_equal(json_string_value(script),
                        "#!/bin/sh\nexec '/opt/my lab/deltaq' 'worker' 'it'\\''s $HOME `ls`; \"x\"'\n");
    char *text = json_dumps(words, JSON_COMPACT);
    assert_non_null(strstr(text, "\"--array=0-2\",\"--partition=work\""));
    assert_non_null(strstr(text, "\"--mem=600M\",\"--cpus-per-task=2\""));
    assert_non_null(strstr(text, "\"--output=/lab/log/slurm-%j.log\",\"--time=60\""));
    free(text);
    json_decref(words);
    json_decref(script);
    template_reset(&template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_template_says_what_its_workers_are_and_what_sbatch_is_told),
        cmocka_unit_test(test_more_labels_than_a_worker_takes_are_refused_at_the_start),
        cmocka_unit_test(test_a_template_meets_what_it_has_all_of),
        cmocka_unit_test(test_bad_templates_are_told),
        cmocka_unit_test(test_words_of_a_worker_are_no_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
