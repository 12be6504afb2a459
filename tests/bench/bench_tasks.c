/* bench_tasks MODEL FOLDER SHOTS LIMIT TASK...: times tasks (FOLDER/TASK.eval.jsonl and TASK.fewshot.jsonl) in full
 * precision, from the files to the scores; LIMIT records of each, 0: all; of mmlu a twentieth of that of each subject,
 * as there are twenty. A line of JSON. */
#include "bench.h"
#include "jobs/tasks/tasks.h"

#include <string.h>

enum { TASKS_MOST = 12, SUBJECTS = 20 };

static void give_up(const struct error *error)
{
    (void)fprintf(stderr, "%s\n", error->detail);
    exit(1);
}

static struct task_set *open_set(const char *folder, const char *name, int shots, int64_t limit)
{
    char path[4096], fewshot[4096];
    struct task_set *set = NULL;
    struct error error = {0};
    if (strcmp(name, "mmlu") == 0) limit = (limit + SUBJECTS - 1) / SUBJECTS;
    const struct task_set_source source = {task_find(name), path, shots > 0 ? fewshot : NULL, shots, limit};
    (void)snprintf(path, sizeof path, "%s/%s.eval.jsonl", folder, name);
    (void)snprintf(fewshot, sizeof fewshot, "%s/%s.fewshot.jsonl", folder, name);
    if (source.task == NULL) (void)error_set(&error, STATUS_INVALID, "%s: no such task", name);
    if (source.task == NULL || task_set_open(&source, &set, &error) != STATUS_OK) give_up(&error);
    return set;
}

static double sum_of(const struct tasks_result *result, struct task_set *const *sets)
{
    double sum = 0;
    for (int64_t i = 0; i < result->item_count; i++) {
        const struct tasks_outcome *outcome = &result->outcomes[i];
        const int choices = sets[outcome->set]->items[outcome->item].prompt.choices;
        for (int choice = 0; choice < choices; choice++) sum += outcome->log_likelihoods[choice];
    }
    return sum;
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void measure(struct bench *bench, char **names, int64_t count, const char *folder, int shots, int64_t limit,
                    const struct tokenizer *tokenizer)
{
    struct task_set *sets[TASKS_MOST] = {0};
    struct tasks_result result = {0};
    struct error error = {0};
    const double began = bench_seconds(), worked = processor_seconds();
    for (int64_t i = 0; i < count; i++) sets[i] = open_set(folder, names[i], shots, limit);
    const struct tasks_request request = {
        .model = bench->model,
        .backend = bench->backend,
        .tokenizer = tokenizer,
        .sets = (const struct task_set *const *)sets,
        .set_count = count,
        .special_tokens = true,
    };
    if (tasks_run(&request, &result, &error) != STATUS_OK) give_up(&error);
    const double took = bench_seconds() - began, work = processor_seconds() - worked;
    printf("{\"seconds\": %.6f, \"processor_seconds\": %.3f, \"tokens\": %lld, \"items\": %lld, \"sum\": %.6f,"
           " \"accuracy\": %.6f, "
           "\"peak_mib\": %.0f, \"what\": \"%s\"}\n",
           took, work, (long long)result.tokens_computed, (long long)result.item_count, sum_of(&result, sets),
           result.mean.plain.accuracy[TASKS_FULL].value, bench_peak_mib(), bench->description);
    tasks_result_reset(&result);
    for (int64_t i = 0; i < count; i++) task_set_close(sets[i]);
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 5 + TASKS_MOST) {
        (void)fputs("usage: bench_tasks MODEL FOLDER SHOTS LIMIT TASK...\n", stderr);
        return 2;
    }
    struct bench bench = bench_open(argv[1]);
    struct tokenizer *tokenizer = NULL;
    struct error error = {0};
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", argv[1]);
    if (tokenizer_open(path, &tokenizer, &error) != STATUS_OK) give_up(&error);
    measure(&bench, argv + 5, argc - 5, argv[2], (int)strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10), tokenizer);
    tokenizer_close(tokenizer);
    bench_close(&bench);
    return 0;
}
