/* Runs of the engine over a tiny model: evaluation, every method, every export, curvature, training. */
#include "faults.h"
#include "scenario.h"

#include "engine/jobs/tiny_model.h"
#include "eval/evaluate.h"
#include "jobs/export/export.h"
#include "jobs/quantize/quantize.h"
#include "jobs/sharpness/sharpness.h"
#include "jobs/train/train.h"

#define KINDS (1U << FAULT_MEMORY | 1U << FAULT_READING | 1U << FAULT_WRITING | 1U << FAULT_FULL)

enum { LENGTH = 8 };

static const char small[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 31, \"hidden_size\": 32, \"num_attention_heads\": 2,"
    " \"num_key_value_heads\": 2, \"num_hidden_layers\": 1, \"intermediate_size\": 32, \"max_position_embeddings\": 24,"
    " \"tie_word_embeddings\": true, \"initializer_range\": 0.1}";

/* Of this process. */
static struct scratch checkpoint;
static struct backend *backend;
static struct model *model;
static uint32_t tokens[2 * LENGTH];
static int64_t starts[] = {0, LENGTH, 2 * LENGTH};
static const struct sequences data = {2, starts, tokens};

/* On one thread, so that calls come in one order. */
static void prepare(struct room *room)
{
    struct error error;
    scenario_require(setenv("TMPDIR", room->inputs, 1) == 0, "TMPDIR", NULL);
    tiny_write(&checkpoint, small, (struct tiny_change){0});
    scenario_require(backend_cpu_new(NULL, &backend, &error) == STATUS_OK, "backend", &error);
    scenario_require(model_open(checkpoint.directory, &model, &error) == STATUS_OK, "model", &error);
    for (int i = 0; i < 2 * LENGTH; i++) tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, 31);
}

static void add_number(struct checksum *sum, double number)
{
    checksum_add(sum, &number, sizeof number);
}

static enum status run_backend(const struct room *room, struct checksum *sum, struct error *error)
{
    struct team *team = NULL;
    struct backend *made = NULL;
    (void)room, (void)sum;
    enum status status = team_new(2, &team, error);
    if (status == STATUS_OK) status = backend_reference_new(false, team, &made, error);
    backend_free(made);
    team_free(team);
    return status;
}

static enum status run_evaluate(const struct room *room, struct checksum *sum, struct error *error)
{
    struct evaluate_result result = {0};
    const struct evaluate_request request = {
        .model = model, .backend = backend, .sequences = &data, .directory = room->outputs, .per_token = true};
    const enum status status = evaluate_asked(&request, &result, error);
    if (status == STATUS_OK) {
        add_number(sum, result.loss);
        checksum_add(sum, result.token_losses, (size_t)result.predictions * sizeof *result.token_losses);
    }
    evaluate_result_reset(&result);
    return status;
}

static enum status quantize(struct quantize_method method, struct sequential_hook hook, const char *directory,
                            struct checksum *sum, struct error *error)
{
    struct quantize_result result = {0};
    const struct quantize_request request = {.model = model,
                                             .backend = backend,
                                             .method = method,
                                             .calibration = &data,
                                             .evaluation = &data,
                                             .directory = directory,
                                             .hook = hook};
    const enum status status = quantize_run(&request, &result, error);
    if (status == STATUS_OK) {
        add_number(sum, result.q.loss);
        add_number(sum, result.kl);
    }
    quantize_result_reset(&result);
    return status;
}

static enum status run_method(const struct room *room, struct quantize_method method, struct checksum *sum,
                              struct error *error)
{
    const enum status status = quantize_method_complete(&method, error);
    return status == STATUS_OK ? quantize(method, (struct sequential_hook){0}, room->outputs, sum, error) : status;
}

static enum status run_export(const struct room *room, int format, struct quantize_method method, struct checksum *sum,
                              struct error *error)
{
    char directory[SCENARIO_PATH], path[2 * SCENARIO_PATH];
    struct export_job *job = NULL;
    (void)scenario_path(directory, room->outputs, "export");
    enum status status = quantize_method_complete(&method, error);
    if (status == STATUS_OK) status = export_open(format, &method, model, directory, &job, error);
    if (status == STATUS_OK) status = quantize(method, export_hook(job, backend), NULL, sum, error);
    if (status == STATUS_OK) status = export_finish(job, NULL, error);
    if (status == STATUS_OK) (void)snprintf(path, sizeof path, "%s/%s", directory, export_weights_name(job));
    export_close(job);
    if (status == STATUS_OK) scenario_add_file(sum, path);
    return status;
}

/* A function for each method and format: a scenario is one. */
#define METHOD(name, ...)                                                                             \
    static enum status run_##name(const struct room *room, struct checksum *sum, struct error *error) \
    {                                                                                                 \
        return run_method(room, (struct quantize_method){__VA_ARGS__}, sum, error);                   \
    }
#define EXPORT(name, format, ...)                                                                            \
    static enum status run_export_##name(const struct room *room, struct checksum *sum, struct error *error) \
    {                                                                                                        \
        return run_export(room, format, (struct quantize_method){__VA_ARGS__}, sum, error);                  \
    }

static const struct quantize_override skipped = {.pattern = "k_proj", .skip = true};

METHOD(rtn, .quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}, .options = {.override_count = 1, .overrides = &skipped})
METHOD(rotated, .quantizer = QUANTIZER_RTN, .rtn = {4, 16, true},
       .options = {.rotation = ROTATION_HADAMARD, .keep_outliers = 2, .activation_bits = 8, .lm_head_bits = 8})
METHOD(gptq, .quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, true, true, 0.05})
METHOD(nf4, .quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64, .double_quant = true})
METHOD(fp4, .quantizer = QUANTIZER_FP4, .fp4 = {.block_size = 64})
METHOD(awq, .quantizer = QUANTIZER_AWQ, .awq = {4, 16, 3, false, true})
METHOD(awq_block, .quantizer = QUANTIZER_AWQ, .awq = {4, 16, 2, .clip = true, .judge = AWQ_JUDGE_BLOCK})
METHOD(llm_int8, .quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {3, 1})
METHOD(smoothquant, .quantizer = QUANTIZER_SMOOTHQUANT, .smoothquant = {8, 8, 0.5, true})
METHOD(mxfp4, .quantizer = QUANTIZER_MXFP4)
METHOD(nvfp4, .quantizer = QUANTIZER_NVFP4)
METHOD(fp8, .quantizer = QUANTIZER_FP8, .fp8 = {FP8_SCALES_BLOCK})
METHOD(gptq_fp4, .quantizer = QUANTIZER_GPTQ_FP4, .gptq_fp4 = {.act_group_aware = true, .damp_percent = 0.05})
EXPORT(gptq, EXPORT_GPTQ, .quantizer = QUANTIZER_RTN, .rtn = {4, 32, true})
EXPORT(compressed, EXPORT_COMPRESSED_TENSORS, .quantizer = QUANTIZER_RTN, .rtn = {4, 32, true})
EXPORT(dequantized, EXPORT_DEQUANTIZED, .quantizer = QUANTIZER_NF4, .nf4 = {.block_size = 64})
EXPORT(awq, EXPORT_AWQ, .quantizer = QUANTIZER_AWQ, .awq = {4, 32, 2, false, true})
EXPORT(gguf, EXPORT_GGUF, .quantizer = QUANTIZER_RTN, .rtn = {4, 32, true})

static enum status run_sharpness(const struct room *room, struct checksum *sum, struct error *error)
{
    struct quantize_method direction = {.quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}};
    struct sharpness_result result = {0};
    enum status status = quantize_method_complete(&direction, error);
    const struct sharpness_request request = {
        .model = model,
        .backend = backend,
        .sequences = &data,
        .settings = {.critical = true,
                     .top_eigenvalue = true,
                     .trace = true,
                     .spectrum = true,
                     .preconditioned = true,
                     .max_iterations = 4,
                     .tolerance = 0.5,
                     .probes = 2,
                     .spectrum_probes = 1,
                     .spectrum_steps = 2,
                     .preconditioner = {SHARPNESS_MOMENTS_OF_GRADIENTS, 0, 0, 1e-3, 2}},
        .direction = &direction,
        .random_directions = 2,
        .calibration = &data,
        .work_directory = room->outputs,
        .save_seconds = 1e-9};
    if (status == STATUS_OK) status = sharpness_run(&request, &result, error);
    if (status == STATUS_OK) {
        add_number(sum, result.ends.largest);
        add_number(sum, result.preconditioned.ends.largest);
        add_number(sum, result.trace.trace);
        add_number(sum, result.direction.predicted_delta);
        add_number(sum, result.direction.random.curvature_term);
        add_number(sum, result.direction.random.delta);
    }
    sharpness_result_reset(&result);
    return status;
}

/* Two steps, with a checkpoint behind each. */
static enum status run_train(const struct room *room, struct checksum *sum, struct error *error)
{
    const struct dataset_source source = {.format = DATASET_INLINE, .inlined = &data};
    struct train_params params = {.trajectory = "t",
                                  .model = small,
                                  .dataset = "d",
                                  .validation_sequences = 1,
                                  .tokens = 2 * LENGTH,
                                  .batch_sequences = 1,
                                  .sequence_length = LENGTH - 1,
                                  .checkpoint_every = LENGTH - 1,
                                  .ema = {0.5},
                                  .keep_state = true};
    char path[SCENARIO_PATH];
    struct train_result result = {0};
    params.optimizer.settings =
        (struct optimizer_settings){.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .clip = 1};
    params.schedule.peak = 1e-2;
    const struct train_request request = {.params = &params,
                                          .dataset = &source,
                                          .validation = &source,
                                          .directory = room->outputs,
                                          .work_directory = room->work,
                                          .backend = backend,
                                          .save_seconds = 1e-9};
    const enum status status = train_run(&request, &result, error);
    if (status == STATUS_OK) {
        add_number(sum, result.final_loss);
        scenario_add_file(sum, scenario_path(path, room->outputs, "step0000002/model.safetensors"));
    }
    train_result_reset(&result);
    return status;
}

const struct scenario scenarios_of_runs[] = {
    {"run backend", KINDS, prepare, run_backend, NULL, 0},
    {"run evaluate", KINDS, prepare, run_evaluate, NULL, 0},
#define QUANTIZE(id, name) {"run quantize " #name, KINDS, prepare, run_##name, NULL, 0},
    QUANTIZERS(QUANTIZE) /* one that has no METHOD above does not compile */
#undef QUANTIZE
    {"run quantize rotated", KINDS, prepare, run_rotated, NULL, 0},
    {"run quantize awq block", KINDS, prepare, run_awq_block, NULL, 0},
    {"run export gptq", KINDS, prepare, run_export_gptq, NULL, 0},
    {"run export compressed-tensors", KINDS, prepare, run_export_compressed, NULL, 0},
    {"run export dequantized", KINDS, prepare, run_export_dequantized, NULL, 0},
    {"run export awq", KINDS, prepare, run_export_awq, NULL, 0},
    {"run export gguf", KINDS, prepare, run_export_gguf, NULL, 0},
    {"run sharpness", KINDS, prepare, run_sharpness, NULL, 0},
    {"run train", KINDS, prepare, run_train, NULL, 0},
    {0},
};
