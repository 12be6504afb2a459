#include "train/public_runs.h"

#include <string.h>
#include <strings.h>

#define BILLION INT64_C(1000000000)

/* Pythia: 143,000 steps of 1024 x 2048 tokens, warm-up over 1 % of them. Its trainer let the cosine last as long as the
 * whole run, from the end of the warm-up, and kept the rate from falling below a tenth of the peak, where it is from
 * about step 115,000 on; github.com/EleutherAI/gpt-neox changed that after Pythia (pull request 1008). */
#define PYTHIA_TOKENS INT64_C(2097152)
#define PYTHIA(name, rate, count, config)                                             \
    {                                                                                 \
        "EleutherAI/" name, "step",                                                   \
            {.kind = SCHEDULE_COSINE,                                                 \
             .peak = rate,                                                            \
             .warmup = 1430 * PYTHIA_TOKENS,                                          \
             .total = (1430 + 143000) * PYTHIA_TOKENS},                               \
            PYTHIA_TOKENS, 0, 0, 0, count,                                            \
            "Pythia (arXiv 2304.01373): github.com/EleutherAI/pythia, models/" config \
            " (lr, min_lr, warmup, train-iters); github.com/EleutherAI/gpt-neox,"     \
            " megatron/learning_rates.py of that time (cosine)",                      \
            0.1                                                                       \
    }
#define PYTHIA_1B_NOTE "1B/pythia-1b.yml, whose lr is 2.5e-4 while the README's table says 3.0e-4"

/* OLMo 2, stage 1: warm-up, then cosine to a tenth at `tokens`, before which the run may end. */
#define OLMO2(name, rate, warm, tokens, step, count, where)                                                        \
    {                                                                                                              \
        "allenai/" name, "stage1-",                                                                                \
            {.kind = SCHEDULE_COSINE, .peak = rate, .final = 0.1, .warmup = warm, .total = tokens}, step, 0, 0, 0, \
            count, where, 0                                                                                        \
    }
/* Stage 2: from where stage 1 ended, straight to 0. */
#define OLMO2_ANNEAL(name, prefix, rate, tokens, step, count, where)                                                  \
    {                                                                                                                 \
        "allenai/" name, prefix, {.kind = SCHEDULE_LINEAR, .peak = rate, .final = 0, .total = tokens}, step, 0, 0, 0, \
            count, where, 0                                                                                           \
    }
#define OLMO2_PAPER "OLMo 2 (arXiv 2501.00656): "
#define OLMO_1B     OLMO2_PAPER "github.com/allenai/OLMo, configs/official-0425/OLMo2-1B-"
#define OLMO        OLMO2_PAPER "github.com/allenai/OLMo, configs/official-1124/OLMo2-"
#define OLMO_CORE   OLMO2_PAPER "github.com/allenai/OLMo-core, src/scripts/official/OLMo2/OLMo-2-0325-32B-"
/* It takes the rate over from stage 1, which ended at step 721,901; the lengths are those of the list of
 * checkpoints. */
#define OLMO_32B_ANNEAL \
    OLMO_CORE "anneal.py (from the rate of stage 1 at its step 721,901, by formula), stage2.csv (steps)"
#define STEP_512  INT64_C(2097152)
#define STEP_1024 INT64_C(4194304)
#define STEP_2048 INT64_C(8388608)

#define SMOLLM3_TOKENS INT64_C(2359296)
#define SMOLLM3(revisions, form, rate, warm, fall, steps, config)                \
    {                                                                            \
        "HuggingFaceTB/SmolLM3-3B-checkpoints", revisions,                       \
            {.kind = form,                                                       \
             .peak = rate,                                                       \
             .warmup = (warm)*SMOLLM3_TOKENS,                                    \
             .decay = (fall)*SMOLLM3_TOKENS,                                     \
             .total = (steps)*SMOLLM3_TOKENS},                                   \
            SMOLLM3_TOKENS, 0, 0, 0, INT64_C(3075098624),                        \
            "github.com/huggingface/smollm, text/pretraining/smollm3/" config, 0 \
    }

/* The first row of a repository whose prefix matches applies. */
static const struct public_run runs[] = {
    PYTHIA("pythia-14m", 1e-3, INT64_C(14067712), "14M/pythia-14m.yml"),
    PYTHIA("pythia-31m", 1e-3, INT64_C(30494720), "31M/pythia-31m.yml"),
    PYTHIA("pythia-70m", 1e-3, INT64_C(70426624), "70M/pythia-70m.yml"),
    PYTHIA("pythia-70m-deduped", 1e-3, INT64_C(70426624), "70M/pythia-70m-deduped.yml"),
    PYTHIA("pythia-160m", 6e-4, INT64_C(162322944), "160M/pythia-160m.yml"),
    PYTHIA("pythia-160m-deduped", 6e-4, INT64_C(162322944), "160M/pythia-160m-deduped.yml"),
    PYTHIA("pythia-410m", 3e-4, INT64_C(405334016), "410M/pythia-410m.yml"),
    PYTHIA("pythia-410m-deduped", 3e-4, INT64_C(405334016), "410M/pythia-410m-deduped.yml"),
    PYTHIA("pythia-1b", 2.5e-4, INT64_C(1011781632), PYTHIA_1B_NOTE),
    PYTHIA("pythia-1b-deduped", 2.5e-4, INT64_C(1011781632), PYTHIA_1B_NOTE),
    PYTHIA("pythia-1.4b", 2e-4, INT64_C(1414647808), "1.4B/pythia-1.4b.yml"),
    PYTHIA("pythia-1.4b-deduped", 2e-4, INT64_C(1414647808), "1.4B/pythia-1.4b-deduped.yml"),
    PYTHIA("pythia-2.8b", 1.6e-4, INT64_C(2775208960), "2.8B/pythia-2.8b.yml"),
    PYTHIA("pythia-2.8b-deduped", 1.6e-4, INT64_C(2775208960), "2.8B/pythia-2.8b-deduped.yml"),
    PYTHIA("pythia-6.9b", 1.2e-4, INT64_C(6857302016), "6.9B/pythia-6.9b.yml"),
    PYTHIA("pythia-6.9b-deduped", 1.2e-4, INT64_C(6857302016), "6.9B/pythia-6.9b-deduped.yml"),
    PYTHIA("pythia-12b", 1.2e-4, INT64_C(11846072320), "12B/pythia-12b.yml"),
    PYTHIA("pythia-12b-deduped", 1.2e-4, INT64_C(11846072320), "12B/pythia-12b-deduped.yml"),

    OLMO2("OLMo-2-0425-1B", 4e-4, INT64_C(8388608000), 5000 * BILLION, STEP_512, INT64_C(1484916736),
          OLMO_1B "stage1.yaml (scheduler in tokens)"),
    OLMO2_ANNEAL("OLMo-2-0425-1B", "stage2-", 7.4487e-5, 50 * BILLION, STEP_512, INT64_C(1484916736),
                 OLMO_1B "stage2-seed*.yaml"),
    OLMO2("OLMo-2-1124-7B", 3e-4, INT64_C(8388608000), 5000 * BILLION, STEP_1024, INT64_C(7298617344),
          OLMO "7B-stage1.yaml (scheduler in tokens)"),
    OLMO2_ANNEAL("OLMo-2-1124-7B", "stage2-", 6.1499e-5, 50 * BILLION, STEP_1024, INT64_C(7298617344),
                 OLMO "7B-stage2-seed*.yaml"),
    OLMO2("OLMo-2-1124-13B", 9e-4, INT64_C(8388608000), 5000 * BILLION, STEP_2048, INT64_C(13716198400),
          OLMO2_PAPER
          "peak rate of the 13B model, to which the 9e-5 fit at which stage 2 begins (configs/official-1124/"
          "OLMo2-13B-stage2-*.yaml); OLMo2-13B-stage1.yaml has 3e-4"),
    OLMO2_ANNEAL("OLMo-2-1124-13B", "stage2-ingredient4-", 9e-5, 300 * BILLION, STEP_2048, INT64_C(13716198400),
                 OLMO "13B-stage2-seed2662-300B.yaml"),
    OLMO2_ANNEAL("OLMo-2-1124-13B", "stage2-", 9e-5, 100 * BILLION, STEP_2048, INT64_C(13716198400),
                 OLMO "13B-stage2-seed*-100B.yaml"),
    OLMO2("OLMo-2-0325-32B", 6e-4, 2000 * STEP_2048, 6500 * BILLION, STEP_2048, INT64_C(32234279936),
          OLMO_CORE "train.py (warm-up of 2,000 steps, cosine over 6.5T tokens)"),
    OLMO2_ANNEAL("OLMo-2-0325-32B", "stage2-ingredient3-", 6.62322e-5, 300 * BILLION, STEP_2048, INT64_C(32234279936),
                 OLMO_32B_ANNEAL),
    OLMO2_ANNEAL("OLMo-2-0325-32B", "stage2-", 6.62322e-5, 100 * BILLION, STEP_2048, INT64_C(32234279936),
                 OLMO_32B_ANNEAL),

    SMOLLM3("stage", SCHEDULE_WSD, 2e-4, 2000, 522000, 4720000, "stage1_8T.yaml to stage3_9T_11T.yaml (lr_scheduler)"),
    SMOLLM3("lc-4k-to-32k-", SCHEDULE_COSINE, 2e-5, 1000, 0, 20000, "long_context_4k_to_32k.yaml"),
    SMOLLM3("lc-32k-to-64k-", SCHEDULE_COSINE, 2e-5, 1000, 0, 22000, "long_context_32k_to_64.yaml"),

    /* 1,024 sequences of 4,096 tokens, then 2,048 of them; lengths there are in sequences. */
    {.repository = "swiss-ai/Apertus-8B-2509",
     .prefix = "step",
     .schedule = {.kind = SCHEDULE_WSD,
                  .peak = 1.1e-4,
                  .final = 0.1,
                  .warmup = INT64_C(4096000) * 4096,
                  .decay = INT64_C(403905806) * 4096,
                  .shape = SCHEDULE_SHAPE_SQRT,
                  .total = INT64_C(3662109375) * 4096},
     .step_tokens = INT64_C(1024) * 4096,
     .grown_after = 1678000,
     .grown_tokens = INT64_C(2048) * 4096,
     .parameters = INT64_C(8053338176),
     .source = "Apertus (arXiv 2509.14233): github.com/swiss-ai/pretrain-code, pretraining/submit_apertus_8b.sh"},

    /* Revisions count chunks of 1,706,976 sequences of 2,048 tokens: ckpt_000 has seen the first. 2,240 sequences are a
     * batch. */
    {.repository = "LLM360/Amber",
     .prefix = "ckpt_",
     .schedule = {.kind = SCHEDULE_COSINE,
                  .peak = 3e-4,
                  .final = 0.1,
                  .warmup = INT64_C(2000) * 2240 * 2048,
                  .total = INT64_C(360) * 1706976 * 2048},
     .step_tokens = INT64_C(1706976) * 2048,
     .head_start = 1,
     .parameters = INT64_C(6738415616),
     .source = "LLM360 (arXiv 2312.06550; the batch): github.com/LLM360/amber-train, main.py (rates, warm-up, chunks)"},
};

const struct public_run *public_runs_all(int64_t *count)
{
    *count = sizeof runs / sizeof runs[0];
    return runs;
}

const struct public_run *public_runs_find(const char *repository, const char *revision)
{
    const bool whole = strchr(repository, '/') != NULL;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const char *name = whole ? runs[i].repository : strchr(runs[i].repository, '/') + 1;
        if (strcasecmp(name, repository) == 0 && strncmp(revision, runs[i].prefix, strlen(runs[i].prefix)) == 0)
            return &runs[i];
    }
    return NULL;
}

static double scheduled_rate(const struct public_run *run, int64_t step)
{
    const int64_t all = step + run->head_start,
                  small = run->grown_after > 0 && all > run->grown_after ? run->grown_after : all;
    const int64_t most = run->schedule.total / run->step_tokens + 1;
    if (small > most) return schedule_rate(&run->schedule, run->schedule.total);
    const int64_t grown = all - small, space = (run->schedule.total - small * run->step_tokens) /
                                               (run->grown_tokens > 0 ? run->grown_tokens : 1);
    const int64_t tokens = small * run->step_tokens + (grown > space ? space + 1 : grown) * run->grown_tokens;
    return schedule_rate(&run->schedule, tokens < run->schedule.total ? tokens : run->schedule.total);
}

double public_runs_rate(const struct public_run *run, int64_t step)
{
    const double rate = scheduled_rate(run, step), floor = run->floor * run->schedule.peak;
    return step > run->schedule.warmup / run->step_tokens && rate < floor ? floor : rate;
}
