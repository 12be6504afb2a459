#include "jobs/train/train.h"

#define AT(member)     offsetof(struct train_params, member)
#define TOKENS_MAXIMUM 1e15
/* From where a variant's index lies. */
#define IN_TOKENIZER(member) (AT(tokenizer.member) - AT(tokenizer.name))
#define IN_SCHEDULE(member)  (AT(schedule.member) - AT(schedule.name))

static const char *const dtype_choices[] = {"f32", "bf16", NULL};

static const struct param no_params[] = {{0}};

static const struct param tokenizer_file_params[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .offset = IN_TOKENIZER(path),
     .help = "a tokenizer.json below one of the path roots"},
    {0},
};

static const struct param tokenizer_learned_params[] = {
    {.name = "vocabulary_size",
     .type = PARAM_INTEGER,
     .offset = IN_TOKENIZER(vocabulary_size),
     .minimum = 257,
     .maximum = 1 << 20,
     .help = "tokens of a byte-level BPE learned from the dataset"},
    {0},
};

/* The order of enum train_tokenizer. */
static const struct param_variant tokenizer_variants[] = {
    {"none", no_params, 0},
    {"bytes", no_params, 0},
    {"file", tokenizer_file_params, 0},
    {"train", tokenizer_learned_params, 0},
    {0},
};

static const struct param_variant optimizer_variants[] = {
#define VARIANT(id, own) \
    [OPTIMIZER_##id] = {#own, optimizer_##own##_params, AT(optimizer.settings) - AT(optimizer.name)},
    OPTIMIZERS(VARIANT)
#undef VARIANT
        [OPTIMIZER_COUNT] = {0},
};

static const struct param ema_params[] = {
    {.name = "decay",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct train_ema, decay),
     .fallback = "0.999",
     .minimum = 1e-6,
     .maximum = 0.9999,
     .help = "what each update leaves of the average before it; the average is a float, in which longer memories would "
             "lose digits"},
    {0},
};

#define PEAK                                                                                                     \
    {                                                                                                            \
        .name = "peak", .type = PARAM_NUMBER, .offset = IN_SCHEDULE(peak), .fallback = "3e-3", .minimum = 1e-12, \
        .maximum = 1e3, .help = "largest learning rate"                                                          \
    }
#define WARMUP                                                                                                 \
    {                                                                                                          \
        .name = "warmup", .type = PARAM_INTEGER, .offset = IN_SCHEDULE(warmup), .fallback = "0", .minimum = 0, \
        .maximum = TOKENS_MAXIMUM, .help = "tokens over which the rate rises linearly to its peak"             \
    }
#define FINAL                                                                                               \
    {                                                                                                       \
        .name = "final", .type = PARAM_NUMBER, .offset = IN_SCHEDULE(final), .fallback = "0", .minimum = 0, \
        .maximum = 1, .help = "rate that the decay ends at, as a share of the peak"                         \
    }

static const struct param wsd_params[] = {
    PEAK,
    WARMUP,
    {.name = "decay",
     .type = PARAM_INTEGER,
     .offset = IN_SCHEDULE(decay),
     .fallback = "0",
     .minimum = 0,
     .maximum = TOKENS_MAXIMUM,
     .help = "tokens at the end over which the rate decays; 0: it stays at its peak"},
    {.name = "shape",
     .type = PARAM_CHOICE,
     .offset = IN_SCHEDULE(shape),
     .fallback = "\"linear\"",
     .choices = schedule_shape_names,
     .help = "how it decays"},
    FINAL,
    {0},
};

static const struct param cosine_params[] = {PEAK, WARMUP, FINAL, {0}};
static const struct param linear_params[] = {PEAK, WARMUP, FINAL, {0}};
static const struct param constant_params[] = {PEAK, WARMUP, {0}};

#define CYCLES(period_help)                                                                                         \
    {.name = "start",                                                                                               \
     .type = PARAM_INTEGER,                                                                                         \
     .offset = IN_SCHEDULE(start),                                                                                  \
     .fallback = "0",                                                                                               \
     .minimum = 0,                                                                                                  \
     .maximum = TOKENS_MAXIMUM,                                                                                     \
     .help =                                                                                                        \
         "tokens until which the rate stays at its peak, for a branch of a stable run: fewer than the run has; 0: " \
         "after the warm-up"},                                                                                      \
        {.name = "period",                                                                                          \
         .type = PARAM_INTEGER,                                                                                     \
         .offset = IN_SCHEDULE(period),                                                                             \
         .minimum = 1,                                                                                              \
         .maximum = TOKENS_MAXIMUM,                                                                                 \
         .help = period_help},                                                                                      \
        FINAL

static const struct param sgdr_params[] = {
    PEAK,
    WARMUP,
    CYCLES("tokens of the first cycle, two steps or more: a cosine from the peak down, then a restart at the peak"),
    {.name = "growth",
     .type = PARAM_NUMBER,
     .offset = IN_SCHEDULE(growth),
     .fallback = "1",
     .minimum = 1,
     .maximum = 100,
     .help = "each cycle is so many times as long as the one before it"},
    {0},
};

static const struct param oscillating_params[] = {
    PEAK,
    WARMUP,
    CYCLES("tokens from peak to peak, four steps or more: the rate falls along a cosine and rises again"),
    {0},
};

static const struct param_variant schedule_variants[] = {
#define VARIANT(id, name) [SCHEDULE_##id] = {#name, name##_params, 0},
    SCHEDULES(VARIANT)
#undef VARIANT
        [SCHEDULE_COUNT] = {0},
};

const struct param train_params[] = {
    {.name = "trajectory",
     .type = PARAM_TRAJECTORY,
     .offset = AT(trajectory),
     .help = "where the checkpoints are registered; made anew. Others there have none of their names; beside fresh"
             " weights there are no others"},
    {.name = "model",
     .type = PARAM_JSON,
     .offset = AT(model),
     .fallback = "null",
     .nullable = true,
     .help = "configuration in the Hugging Face form; null when continuing from a checkpoint. A key that is neither "
             "read nor known to mean nothing is refused: it would leave a default in its place"},
    {.name = "from",
     .type = PARAM_CHECKPOINT,
     .offset = AT(from),
     .fallback = "null",
     .nullable = true,
     .help = "checkpoint of an earlier train run to continue from: its step, optimizer state and place in the data go "
             "on; seed, optimizer and schedule, where left out, are those of the run that made it"},
    {.name = "dataset", .type = PARAM_DATASET, .offset = AT(dataset), .help = "what to train on"},
    {.name = "validation",
     .type = PARAM_DATASET,
     .offset = AT(validation),
     .fallback = "null",
     .nullable = true,
     .help = "what each checkpoint's loss is measured on"},
    {.name = "validation_sequences",
     .type = PARAM_INTEGER,
     .offset = AT(validation_sequences),
     .fallback = "64",
     .minimum = 1,
     .maximum = 1e9,
     .help = "most sequences of the validation data that are used"},
    {.name = "tokenizer",
     .type = PARAM_VARIANT,
     .offset = AT(tokenizer.name),
     .fallback = "null",
     .nullable = true,
     .schema = "Tokenizer",
     .variants = tokenizer_variants,
     .help = "how text becomes tokens; null for token data and when continuing from a checkpoint"},
    {.name = "tokens",
     .type = PARAM_INTEGER,
     .offset = AT(tokens),
     .minimum = 1,
     .maximum = TOKENS_MAXIMUM,
     .help = "tokens in all, counted from the first step of the first run"},
    {.name = "batch_sequences",
     .type = PARAM_INTEGER,
     .offset = AT(batch_sequences),
     .fallback = "8",
     .minimum = 1,
     .maximum = 1 << 20,
     .help = "sequences a step"},
    {.name = "sequence_length",
     .type = PARAM_INTEGER,
     .offset = AT(sequence_length),
     .fallback = "256",
     .minimum = 2,
     .maximum = 1 << 20,
     .help = "tokens a sequence"},
    {.name = "optimizer",
     .type = PARAM_VARIANT,
     .offset = AT(optimizer.name),
     .fallback = "{\"name\": \"adamw\"}",
     .absent_differs = true,
     .schema = "Optimizer",
     .variants = optimizer_variants,
     .help = "how gradients become updates; left out: adamw, or that of the run that made `from`"},
    {.name = "ema",
     .type = PARAM_OBJECT,
     .offset = AT(ema),
     .fallback = "null",
     .nullable = true,
     .schema = "WeightAverage",
     .children = ema_params,
     .help = "exponential moving average of the weights, written beside each checkpoint into a trajectory of its own"},
    {.name = "schedule",
     .type = PARAM_VARIANT,
     .offset = AT(schedule.name),
     .fallback = "{\"name\": \"wsd\"}",
     .absent_differs = true,
     .schema = "Schedule",
     .variants = schedule_variants,
     .help =
         "learning rate against tokens; all its lengths are in tokens; a branch needs one that begins with the rate "
         "that the run that made `from` had there, or one at another peak, which is posted, from its warm-up to "
         "`from`; left out: wsd, or the one of that run"},
    {.name = "checkpoint_every",
     .type = PARAM_INTEGER,
     .offset = AT(checkpoint_every),
     .fallback = "0",
     .minimum = 0,
     .maximum = TOKENS_MAXIMUM,
     .help = "tokens from a checkpoint to the next, for at most 100000 checkpoints; 0: only the last; each length is "
             "rounded up to whole steps"},
    {.name = "dtype",
     .type = PARAM_CHOICE,
     .offset = AT(dtype),
     .fallback = "\"f32\"",
     .choices = dtype_choices,
     .help = "how checkpoints store weights"},
    {.name = "precision",
     .type = PARAM_CHOICE,
     .offset = AT(precision),
     .fallback = "\"f32\"",
     .schema = "Precision",
     .choices = dtype_choices,
     .help = "the format that factors of the model's products are rounded to; weights stay in f32"},
    {.name = "keep_state",
     .type = PARAM_BOOLEAN,
     .offset = AT(keep_state),
     .fallback = "true",
     .help = "keep the optimizer's state beside each checkpoint, so that runs can branch from it"},
    {.name = "seed",
     .type = PARAM_INTEGER,
     .offset = AT(seed),
     .fallback = "0",
     .minimum = 0,
     .maximum = 9007199254740991.0,
     .absent_differs = true,
     .help = "of fresh weights and of the order of the data; left out: 0, or that of the run that made `from`"},
    {0},
};
