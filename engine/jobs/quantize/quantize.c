#include "jobs/quantize/quantize.h"

#include "base/integer.h"
#include "base/members.h"
#include "base/memory.h"
#include "eval/baseline.h"
#include "jobs/quantize/quantize_member.h"
#include "jobs/quantize/quantize_plan.h"
#include "jobs/quantize/quantize_save.h"

/* Quantizations of one checkpoint, and the forward pass that they share. */
struct quantize_batch {
    struct members members;
    struct quantize_pass pass;
    struct quantize_member_state *states;   /* [count]; those of live members are reached through `members` */
    const struct quantize_request *request; /* the first: what all have in common */
    int64_t count;
    int64_t fp_layer; /* the block that comes next for the full-precision stream; `layers` once it has passed all */
    struct hidden fp;
    bool fp_found; /* the full-precision stream behind the last block was read from a baseline, or is lent */
    struct matrix cosine, sine;
    struct loader *loader;
    struct head head;
    void *copy; /* of a block's weights, where there are several members, which all quantize it in place */
    double *losses_fp;
    struct quantize_save save;
};

void quantize_result_reset(struct quantize_result *result)
{
    evaluate_result_reset(&result->fp);
    evaluate_result_reset(&result->q);
    memory_free(result->sequence_kl);
    memory_free(result->sequence_top1);
    memory_free(result->token_kl);
    memory_free(result->layers);
    *result = (struct quantize_result){0};
}

/* ---- Members ---- */

static struct quantize_member_state *state_of(const struct member *member)
{
    return member == NULL ? NULL : member->owner;
}

/* The first member that is not done yet; and the next one after `state`. */
static struct quantize_member_state *first(const struct quantize_batch *batch)
{
    return state_of(members_next(&batch->members, NULL));
}

static struct quantize_member_state *next(const struct quantize_batch *batch, const struct quantize_member_state *state)
{
    return state_of(members_next(&batch->members, &state->member));
}

static void tell(struct quantize_member *given, enum status status, const struct error *error)
{
    given->status = status;
    given->error = *error;
    if (given->ended != NULL) given->ended(given);
}

/* A member is done: its result goes to the caller. The others go on. */
static void ended(struct member *member, enum status status, const struct error *error)
{
    struct quantize_member_state *state = member->owner;
    quantize_member_reset(state);
    state->given->result = state->result;
    if (status != STATUS_OK) quantize_result_reset(&state->given->result);
    tell(state->given, status, error);
}

/* ---- Before the first block ---- */

static enum status step_prepare(struct member *member, struct error *error)
{
    return quantize_member_prepare(member->owner, error);
}

static enum status step_calibration(struct member *member, struct error *error)
{
    return quantize_member_calibration(member->owner, error);
}

static enum status step_begin(struct member *member, struct error *error)
{
    return quantize_member_begin(member->owner, error);
}

static enum status step_open(struct member *member, struct error *error)
{
    return quantize_member_open(member->owner, error);
}

/* Tokens of the longest sequence and of the largest chunk, over the evaluation and every calibration. */
static void longest_and_largest(const struct quantize_batch *batch, int64_t *longest, int64_t *largest)
{
    *longest = batch->pass.evaluation.longest;
    *largest = batch->pass.evaluation.largest;
    for (const struct quantize_member_state *state = first(batch); state != NULL; state = next(batch, state)) {
        *longest = larger(*longest, state->calibration.longest);
        *largest = larger(*largest, state->calibration.largest);
    }
}

/* Allocates the full-precision stream, and fills it where it was computed before: it is lent, or in a baseline, or
 * saved by an earlier attempt. Otherwise it begins at the embeddings: *embed. */
static enum status fp_begin(struct quantize_batch *batch, bool *embed, struct error *error)
{
    const struct quantize_pass *pass = &batch->pass;
    const int64_t width = pass->model->config.hidden_size;
    bool kept = false;
    enum status status = STATUS_OK;
    *embed = false;
    batch->fp_found = batch->request->fp_hidden.data != NULL;
    if (batch->fp_found)
        batch->fp = hidden_of(pass->backend, batch->request->fp_hidden);
    else
        status = hidden_init(&batch->fp, pass->backend, &pass->evaluation, width, &pass->place, error);
    if (status == STATUS_OK && !batch->fp_found && batch->request->baseline != NULL)
        status = baseline_load(batch->request->baseline, &batch->fp, &batch->fp_found, error);
    if (batch->fp_found) batch->fp_layer = pass->model->config.layers;
    for (const struct quantize_member_state *state = first(batch);
         state != NULL && !batch->fp_found && !kept && status == STATUS_OK; state = next(batch, state))
        status = quantize_save_fp_read(state, &batch->fp, &kept, &batch->fp_layer, error);
    *embed = !batch->fp_found && !kept;
    return status;
}

/* Fills every stream that begins at the embeddings. The embeddings are read again after a member has quantized them. */
static enum status embed_all(struct quantize_batch *batch, bool embed_fp, int64_t largest, struct error *error)
{
    const struct quantize_pass *pass = &batch->pass;
    struct embed embed = {0};
    bool changed = true; /* the embeddings are not loaded yet, or were quantized */
    enum status status = STATUS_OK;
    if (embed_fp) {
        if ((status = embed_load(&embed, pass->model, pass->backend, largest, error)) != STATUS_OK) goto done;
        if ((status = hidden_embed(&embed, &pass->evaluation, &batch->fp, error)) != STATUS_OK) goto done;
        changed = false;
    }
    for (struct quantize_member_state *state = first(batch); state != NULL; state = next(batch, state)) {
        struct error own;
        if (!state->embedded) continue;
        if (changed) {
            embed_reset(&embed);
            if ((status = embed_load(&embed, pass->model, pass->backend, largest, error)) != STATUS_OK) goto done;
        }
        const enum status taken = quantize_member_embed(state, &embed, &changed, &own);
        if (taken != STATUS_OK) members_end(&state->member, taken, &own);
    }
done:
    embed_reset(&embed); /* blocks need the memory; the head reads a tied embedding again */
    return status;
}

/* The memory that members' calibrations use one after another, large enough for each of them. */
static enum status scratch_open(struct quantize_batch *batch, int64_t hold, struct error *error)
{
    unsigned needs = 0;
    int64_t tokens = 0;
    for (const struct quantize_member_state *state = first(batch); state != NULL; state = next(batch, state)) {
        if (state->calibration.count == 0) continue;
        needs |= quantizer_by_id(state->request->method.quantizer)->needs;
        tokens = larger(tokens, state->calibration.tokens);
    }
    if (tokens == 0) return STATUS_OK;
    return sequential_scratch_init(&batch->pass.scratch, batch->pass.model, batch->pass.backend, needs, tokens, hold,
                                   error);
}

/* Decides where streams lie and what is held between cuts. Nothing large is allocated yet, so that the budget is what a
 * run may take in all. */
static enum status plan(struct quantize_batch *batch, struct quantize_choice *choice, struct error *error)
{
    struct quantize_pass *pass = &batch->pass;
    const struct quantize_member_state **states = NULL;
    struct plan_budget budget;
    struct run_plan needed;
    int64_t count = 0;
    enum status status = memory_new(batch->count, sizeof *states, "members", &states, error);
    if (status != STATUS_OK) return status;
    for (const struct quantize_member_state *state = first(batch); state != NULL; state = next(batch, state))
        states[count++] = state;
    for (bool again = true; again && status == STATUS_OK;) {
        budget = backend_budget(pass->backend, batch->request->directory);
        quantize_plan_choose(states, count, &budget, choice, &needed);
        status = backend_claim(pass->backend, needed.peak[PLAN_DEVICE], &batch->members.monitor, &again, error);
    }
    memory_free(states);
    if (status != STATUS_OK) return status;
    if (!plan_fits(&needed, &budget))
        return plan_refuse(&needed, &budget,
                           "give it fewer or shorter sequences, or more memory (--memory, --device-memory)", error);
    pass->place = choice->place;
    pass->calibration = choice->calibration;
    if (needed.spilled_tokens > 0)
        monitor_log(&batch->members.monitor,
                    "memory is short: hidden states of %lld of %lld tokens are kept %s between blocks",
                    (long long)needed.spilled_tokens, (long long)needed.stream_tokens,
                    choice->place.directory != NULL ? "on disk" : "in host memory");
    return STATUS_OK;
}

/* Cuts the texts into chunks, which the plan needs, and plans. */
static enum status begin(struct quantize_batch *batch, struct quantize_choice *choice, struct error *error)
{
    const enum status status = quantize_member_evaluation(&batch->pass, batch->request->evaluation, error);
    if (status != STATUS_OK) return status;
    members_each(&batch->members, step_calibration);
    return batch->members.live == 0 ? STATUS_OK : plan(batch, choice, error);
}

static enum status prepare(struct quantize_batch *batch, struct error *error)
{
    struct quantize_pass *pass = &batch->pass;
    const struct model_config *config = &pass->model->config;
    struct quantize_choice choice = {.hold_bytes = 0};
    int64_t longest, largest;
    bool embed_fp;
    enum status status;
    if ((status = begin(batch, &choice, error)) != STATUS_OK || batch->members.live == 0) return status;
    members_each(&batch->members, step_prepare);
    longest_and_largest(batch, &longest, &largest);
    status = memory_new(pass->evaluation.tokens, sizeof(double), "token losses", &batch->losses_fp, error);
    if (status != STATUS_OK) return status;
    if ((status = pass->backend->ops->prepare(pass->backend, longest, config->vocabulary_size, error)) != STATUS_OK)
        return status;
    if ((status = model_rope_tables(config, pass->backend, longest, &batch->cosine, &batch->sine, error)) != STATUS_OK)
        return status;
    members_each(&batch->members, step_begin);
    if ((status = fp_begin(batch, &embed_fp, error)) != STATUS_OK) return status;
    if ((status = embed_all(batch, embed_fp, largest, error)) != STATUS_OK) return status;
    status = walk_init(&pass->walk, config, pass->backend, WALK_FORWARD, largest, batch->cosine, batch->sine, error);
    if (status != STATUS_OK) return status;
    if ((status = scratch_open(batch, choice.hold_bytes, error)) != STATUS_OK) return status;
    members_each(&batch->members, step_open);
    if (batch->members.live < 2) return STATUS_OK;
    return pass->backend->ops->allocate(pass->backend, loader_elements(pass->model), "block weights", &batch->copy,
                                        error);
}

/* ---- The blocks ---- */

static enum status fp_pass(struct quantize_batch *batch, const struct block *block, struct error *error)
{
    const struct chunks *chunks = &batch->pass.evaluation;
    for (int64_t i = 0; i < chunks->count && batch->members.live > 0; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        struct matrix rows;
        enum status status = hidden_lend(&batch->fp, chunk, &rows, error);
        if (status != STATUS_OK) return status;
        walk_forward(&batch->pass.walk, block->program, &chunk->batch, block->parameters, rows);
        if ((status = hidden_return(&batch->fp, chunk, error)) != STATUS_OK) return status;
        members_check(&batch->members, NULL);
    }
    batch->fp_layer++;
    return STATUS_OK;
}

/* The next member after `state` (NULL: the first) whose streams stand before this block. */
static struct quantize_member_state *next_at(const struct quantize_batch *batch,
                                             const struct quantize_member_state *state, int64_t layer)
{
    struct quantize_member_state *found = state == NULL ? first(batch) : next(batch, state);
    while (found != NULL && found->layer != layer) found = next(batch, found);
    return found;
}

/* Each member whose streams stand before this block quantizes a copy of it; the last one quantizes the block itself. */
static void members_pass(struct quantize_batch *batch, struct block *block)
{
    const struct quantize_member_state *last = NULL;
    for (const struct quantize_member_state *state = next_at(batch, NULL, block->layer); state != NULL;
         state = next_at(batch, state, block->layer))
        last = state;
    for (struct quantize_member_state *state = next_at(batch, NULL, block->layer); state != NULL;
         state = next_at(batch, state, block->layer)) {
        struct block own;
        struct error error;
        if (state != last) loader_copy(batch->pass.backend, block, batch->copy, &own);
        const enum status status = quantize_member_block(state, state == last ? block : &own, &error);
        if (status != STATUS_OK) members_end(&state->member, status, &error);
    }
}

/* Streams that were saved or handed over may stand before different blocks. The pass begins at the first of these; the
 * streams that are further on wait. */
static int64_t first_layer(const struct quantize_batch *batch)
{
    int64_t layer = batch->fp_layer;
    for (const struct quantize_member_state *state = first(batch); state != NULL; state = next(batch, state))
        if (state->layer < layer) layer = state->layer;
    return layer;
}

static void keep(struct quantize_batch *batch)
{
    struct quantize_member_state *states[QUANTIZE_SAVE_MOST];
    int64_t count = 0;
    for (struct quantize_member_state *state = first(batch); state != NULL && count < QUANTIZE_SAVE_MOST;
         state = next(batch, state))
        states[count++] = state;
    quantize_save_write(&batch->save, states, count, batch->fp_found ? NULL : &batch->fp, batch->fp_layer);
}

static enum status blocks_pass(struct quantize_batch *batch, struct error *error)
{
    const int64_t layers = batch->pass.model->config.layers, from = first_layer(batch);
    enum status status;
    if (from == layers) return STATUS_OK;
    status = loader_open_at(batch->pass.model, batch->pass.backend, from, &batch->loader, error);
    for (int64_t layer = from; layer < layers && status == STATUS_OK && batch->members.live > 0; layer++) {
        struct block *block = NULL;
        if ((status = loader_next(batch->loader, &block, error)) != STATUS_OK) return status;
        if (batch->fp_layer == layer && (status = fp_pass(batch, block, error)) != STATUS_OK) return status;
        members_pass(batch, block);
        keep(batch);
    }
    loader_close(batch->loader);
    batch->loader = NULL;
    return status;
}

/* The baseline only saves work of later runs, so that a failure to write it does not fail this one. */
static void baseline_keep(struct quantize_batch *batch)
{
    struct error cause;
    if (batch->request->baseline == NULL || batch->fp_found) return;
    if (baseline_save(batch->request->baseline, &batch->fp, &cause) != STATUS_OK)
        monitor_log(batch->request->monitor, "the baseline is not kept for later runs: %s", cause.detail);
}

/* ---- Behind the last block ---- */

static enum status step_leave(struct member *member, struct error *error)
{
    const enum status status = quantize_member_visit(member->owner, error);
    return status == STATUS_OK ? quantize_member_leave(member->owner, error) : status;
}

static enum status step_head(struct member *member, struct error *error)
{
    const struct quantize_batch *batch = member->members->owner;
    return quantize_member_head(member->owner, &batch->head, error);
}

static enum status step_summarise(struct member *member, struct error *error)
{
    const struct quantize_batch *batch = member->members->owner;
    const int64_t total = batch->pass.model->config.layers + 1;
    const enum status status = quantize_member_summarise(member->owner, batch->losses_fp, error);
    if (status != STATUS_OK) return status;
    monitor_progress(&member->monitor, total, total, "block");
    members_end(member, STATUS_OK, &(struct error){0});
    return STATUS_OK;
}

/* Compares one chunk of the full-precision stream with the same chunk of each member. */
static enum status head_chunk(struct quantize_batch *batch, const struct chunk *chunk, struct head_other *others,
                              struct error *error)
{
    struct matrix rows;
    int64_t count = 0;
    const enum status status = hidden_lend(&batch->fp, chunk, &rows, error);
    if (status != STATUS_OK) return status;
    for (struct quantize_member_state *state = first(batch); state != NULL; state = next(batch, state)) {
        struct error own;
        const enum status lent = quantize_member_other(state, chunk, &others[count], &own);
        if (lent == STATUS_OK)
            count++;
        else
            members_end(&state->member, lent, &own);
    }
    head_compare(&batch->head, rows, others, count, &chunk->batch, batch->losses_fp + chunk->first_token);
    members_check(&batch->members, NULL);
    return STATUS_OK;
}

static enum status head_pass(struct quantize_batch *batch, struct error *error)
{
    const struct chunks *chunks = &batch->pass.evaluation;
    struct backend *backend = batch->pass.backend;
    struct head_other *others = NULL;
    enum status status;
    members_each(&batch->members, step_leave);
    /* the output matrix and the logits get the memory that the blocks needed */
    sequential_scratch_reset(&batch->pass.scratch);
    walk_reset(&batch->pass.walk);
    if (batch->copy != NULL) backend->ops->release(backend, batch->copy);
    batch->copy = NULL;
    status = head_load(&batch->head, batch->pass.model, backend, (struct matrix){0}, HEAD_COMPARE, error);
    if (status != STATUS_OK) return status;
    members_each(&batch->members, step_head);
    if ((status = memory_new(batch->count, sizeof *others, "streams", &others, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < chunks->count && batch->members.live > 0 && status == STATUS_OK; i++)
        status = head_chunk(batch, &chunks->chunks[i], others, error);
    memory_free(others);
    return status == STATUS_OK ? backend->ops->sync(backend, error) : status;
}

static enum status work(struct quantize_batch *batch, struct error *error)
{
    enum status status;
    if ((status = prepare(batch, error)) != STATUS_OK || batch->members.live == 0) return status;
    if ((status = blocks_pass(batch, error)) != STATUS_OK || batch->members.live == 0) return status;
    baseline_keep(batch);
    if ((status = head_pass(batch, error)) != STATUS_OK || batch->members.live == 0) return status;
    if ((status = weights_check_unchanged(batch->pass.model->weights, error)) != STATUS_OK) return status;
    members_each(&batch->members, step_summarise);
    return STATUS_OK;
}

static void batch_reset(struct quantize_batch *batch)
{
    struct quantize_pass *pass = &batch->pass;
    struct backend *backend = pass->backend;
    loader_close(batch->loader);
    if (batch->head.backend != NULL) head_reset(&batch->head);
    if (batch->copy != NULL) backend->ops->release(backend, batch->copy);
    sequential_scratch_reset(&pass->scratch);
    if (pass->walk.backend != NULL) walk_reset(&pass->walk);
    hidden_reset(&batch->fp);
    matrix_release(backend, &batch->cosine); /* sine lies in the same block */
    memory_free(batch->losses_fp);
    chunks_reset(&pass->evaluation);
    memory_free(batch->states);
}

void quantize_batch(struct quantize_member *members, int64_t count)
{
    struct error error = {0};
    const struct quantize_request *request = &members[0].request;
    struct quantize_batch batch = {.pass = {.model = request->model, .backend = request->backend}, .request = request};
    enum status status = memory_new(count, sizeof *batch.states, "members", &batch.states, &error);
    if (status != STATUS_OK) {
        for (int64_t i = 0; i < count; i++) {
            members[i].result = (struct quantize_result){0};
            tell(&members[i], status, &error);
        }
        return;
    }
    batch.count = count;
    members_init(&batch.members, &batch, ended);
    quantize_save_begin(&batch.save);
    for (int64_t i = 0; i < count; i++) {
        struct quantize_member_state *state = &batch.states[i];
        *state =
            (struct quantize_member_state){.pass = &batch.pass, .request = &members[i].request, .given = &members[i]};
        members_enter(&batch.members, &state->member, state, members[i].request.monitor);
    }
    if ((status = work(&batch, &error)) != STATUS_OK) members_end_all(&batch.members, status, &error);
    batch_reset(&batch);
}

enum status quantize_run(const struct quantize_request *request, struct quantize_result *out, struct error *error)
{
    struct quantize_member member = {.request = *request};
    quantize_batch(&member, 1);
    *out = member.result;
    if (member.status != STATUS_OK) *error = member.error;
    return member.status;
}

/* ---- Memory ---- */

int64_t quantize_batch_most(const struct quantize_request *request, int64_t memory)
{
    const struct quantize_request both[] = {*request, *request};
    const enum plan_space space = backend_space(request->backend);
    struct plan_budget budget = backend_budget(request->backend, NULL);
    const struct plan_budget unbounded = {.bytes = {INT64_MAX, INT64_MAX, INT64_MAX}};
    struct run_plan one, two;
    struct error error;
    if (memory > 0) budget.bytes[space] = memory;
    if (quantize_plan(both, 1, &unbounded, &one, &error) != STATUS_OK ||
        quantize_plan(both, 2, &unbounded, &two, &error) != STATUS_OK)
        return 1; /* the run refuses what cannot be planned */
    const int64_t more = two.peak[space] - one.peak[space], left = budget.bytes[space] - one.peak[space];
    return left < more || more <= 0 ? 1 : 1 + left / more;
}
