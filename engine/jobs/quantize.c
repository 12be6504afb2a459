#include "jobs/quantize.h"

#include "base/memory.h"
#include "eval/baseline.h"
#include "jobs/quantize_keep.h"
#include "jobs/quantize_plan.h"
#include "jobs/quantize_recipe.h"

struct walker;

/* A member's place on the walk. `monitor` is in place of its own while it is worked on: it asks everybody's. */
struct seat {
    struct walker *walker;
    struct quantize_member *member;
    struct quantize_recipe recipe;
    struct monitor monitor;
    bool live, embedded;
};

struct walker {
    struct quantize_shared shared;
    const struct quantize_request *request; /* the first: what all have in common */
    struct seat *seats;
    int64_t count, live;
    int64_t fp_layer; /* the block that is next for the full-precision stream; all are behind it when that came from elsewhere */
    struct hidden fp;
    bool fp_found; /* it is a baseline's, or lent */
    struct matrix cosine, sine;
    struct loader *loader;
    struct head head;
    void *copy; /* of a block, where several recipes change it */
    double *losses_fp;
    struct quantize_keep keep;
};

void quantize_result_reset(struct quantize_result *result)
{
    evaluate_result_reset(&result->fp);
    evaluate_result_reset(&result->q);
    memory_free(result->layers);
    *result = (struct quantize_result){0};
}

/* ---- Who is on the walk ---- */

/* From here on the member is done with, and the others go on. */
static void settle(struct seat *seat, enum status status, const struct error *error)
{
    struct quantize_member *member = seat->member;
    seat->live = false;
    seat->walker->live--;
    quantize_recipe_reset(&seat->recipe);
    member->status = status;
    member->error = *error;
    member->result = seat->recipe.result;
    if (status != STATUS_OK) quantize_result_reset(&member->result);
    if (member->ended != NULL) member->ended(member);
}

/* What befalls all of them. */
static void settle_all(struct walker *walker, enum status status, const struct error *error)
{
    for (int64_t i = 0; i < walker->count; i++)
        if (walker->seats[i].live) settle(&walker->seats[i], status, error);
}

/* Lets those go whose monitors say so, but for `except`, who is being worked on. */
static void attend(struct walker *walker, const struct seat *except)
{
    for (int64_t i = 0; i < walker->count; i++) {
        struct seat *seat = &walker->seats[i];
        struct error error;
        if (!seat->live || seat == except) continue;
        const enum status status = monitor_check(seat->member->request.monitor, &error);
        if (status != STATUS_OK) settle(seat, status, &error);
    }
}

static enum status seat_check(void *owner, struct error *error)
{
    struct seat *seat = owner;
    attend(seat->walker, seat);
    return monitor_check(seat->member->request.monitor, error);
}

/* A step that each of them takes for itself. */
static void each(struct walker *walker, enum status (*step)(struct seat *seat, struct error *error))
{
    struct error error = {0};
    for (int64_t i = 0; i < walker->count; i++) {
        struct seat *seat = &walker->seats[i];
        const enum status status = seat->live ? step(seat, &error) : STATUS_OK;
        if (status != STATUS_OK) settle(seat, status, &error);
    }
}

/* ---- Before the first block ---- */

static enum status seat_prepare(struct seat *seat, struct error *error)
{
    return quantize_recipe_prepare(&seat->recipe, error);
}

static enum status seat_calibration(struct seat *seat, struct error *error)
{
    return quantize_recipe_calibration(&seat->recipe, error);
}

static enum status seat_begin(struct seat *seat, struct error *error)
{
    return quantize_recipe_begin(&seat->recipe, &seat->embedded, error);
}

static enum status seat_open(struct seat *seat, struct error *error)
{
    return quantize_recipe_open(&seat->recipe, seat->embedded, error);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Over the evaluation and every calibration. */
static void longest_and_largest(const struct walker *walker, int64_t *longest, int64_t *largest)
{
    *longest = walker->shared.evaluation.longest;
    *largest = walker->shared.evaluation.largest;
    for (int64_t i = 0; i < walker->count; i++) {
        *longest = larger(*longest, walker->seats[i].recipe.calibration.longest);
        *largest = larger(*largest, walker->seats[i].recipe.calibration.largest);
    }
}

/* The full-precision stream where it need not start at the embeddings: lent, in a baseline, or kept by an earlier attempt. */
static enum status fp_begin(struct walker *walker, bool *embed, struct error *error)
{
    const struct quantize_shared *shared = &walker->shared;
    const int64_t width = shared->model->config.hidden_size;
    bool kept = false;
    enum status status = STATUS_OK;
    *embed = false;
    walker->fp_found = walker->request->fp_hidden.data != NULL;
    if (walker->fp_found)
        walker->fp = hidden_of(shared->backend, walker->request->fp_hidden);
    else
        status = hidden_init(&walker->fp, shared->backend, &shared->evaluation, width, &shared->place, error);
    if (status == STATUS_OK && !walker->fp_found && walker->request->baseline != NULL)
        status = baseline_load(walker->request->baseline, &walker->fp, &walker->fp_found, error);
    if (walker->fp_found) walker->fp_layer = shared->model->config.layers;
    for (int64_t i = 0; i < walker->count && !walker->fp_found && !kept && status == STATUS_OK; i++)
        if (walker->seats[i].live)
            status = quantize_keep_fp_read(&walker->seats[i].recipe, &walker->fp, &kept, &walker->fp_layer, error);
    *embed = !walker->fp_found && !kept;
    return status;
}

static enum status embed_all(struct walker *walker, bool embed_fp, int64_t largest, struct error *error)
{
    struct embed embed = {0};
    struct error own;
    bool changed = true; /* the embeddings are not there, or no longer those of the checkpoint */
    enum status status = STATUS_OK;
    for (int64_t i = -1; i < walker->count && status == STATUS_OK; i++) {
        struct seat *seat = i < 0 ? NULL : &walker->seats[i];
        if (seat == NULL ? !embed_fp : !seat->live || !seat->embedded) continue;
        if (changed) {
            embed_reset(&embed);
            status = embed_load(&embed, walker->shared.model, walker->shared.backend, largest, error);
            changed = false;
        }
        if (status != STATUS_OK) break;
        if (seat == NULL) {
            status = hidden_embed(&embed, &walker->shared.evaluation, &walker->fp, error);
            continue;
        }
        const enum status taken = quantize_recipe_embed(&seat->recipe, &embed, &changed, &own);
        if (taken != STATUS_OK) settle(seat, taken, &own);
    }
    embed_reset(&embed); /* a tied one is read again at the end: while blocks pass, its room is theirs */
    return status;
}

/* What calibrations take turns in, as the most demanding of them needs it. */
static enum status room_open(struct walker *walker, int64_t hold, struct error *error)
{
    unsigned needs = 0;
    int64_t tokens = 0;
    for (int64_t i = 0; i < walker->count; i++) {
        const struct quantize_recipe *recipe = &walker->seats[i].recipe;
        if (!walker->seats[i].live || recipe->calibration.count == 0) continue;
        needs |= quantizer_by_id(recipe->request->method.quantizer)->needs;
        tokens = larger(tokens, recipe->calibration.tokens);
    }
    if (tokens == 0) return STATUS_OK;
    return sequential_room_init(&walker->shared.room, walker->shared.model, walker->shared.backend, needs, tokens, hold, error);
}

/* Where streams lie and what is held: by the memory that there is. Nothing large has been taken yet. */
static enum status plan(struct walker *walker, struct quantize_choice *choice, struct error *error)
{
    struct quantize_shared *shared = &walker->shared;
    const struct plan_budget budget = backend_budget(shared->backend, walker->request->directory);
    const struct quantize_recipe **recipes = NULL;
    struct run_plan needed;
    int64_t count = 0;
    const enum status status = memory_new(walker->count, sizeof *recipes, "recipes", &recipes, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < walker->count; i++)
        if (walker->seats[i].live) recipes[count++] = &walker->seats[i].recipe;
    quantize_plan_choose(recipes, count, &budget, choice, &needed);
    memory_free(recipes);
    if (!plan_fits(&needed, &budget))
        return plan_refuse(&needed, &budget, "give it fewer or shorter sequences, or more memory (--memory, DELTAQ_CUDA_MEMORY)",
                           error);
    shared->place = choice->place;
    shared->calibration = choice->calibration;
    for (int64_t i = 0; i < walker->count && needed.spilled_tokens > 0; i++)
        if (walker->seats[i].live)
            monitor_log(walker->seats[i].member->request.monitor,
                        "memory is short: hidden states of %lld of %lld tokens are kept %s between blocks",
                        (long long)needed.spilled_tokens, (long long)needed.stream_tokens,
                        choice->place.directory != NULL ? "on disk" : "in host memory");
    return STATUS_OK;
}

/* Texts, in their order, and the plan. */
static enum status begin(struct walker *walker, struct quantize_choice *choice, struct error *error)
{
    const enum status status = quantize_recipe_evaluation(&walker->shared, walker->request->evaluation, error);
    if (status != STATUS_OK) return status;
    each(walker, seat_calibration);
    return walker->live == 0 ? STATUS_OK : plan(walker, choice, error);
}

static enum status prepare(struct walker *walker, struct error *error)
{
    struct quantize_shared *shared = &walker->shared;
    const struct model_config *config = &shared->model->config;
    struct quantize_choice choice = {.hold_bytes = 0};
    int64_t longest, largest;
    bool embed_fp;
    enum status status;
    if ((status = begin(walker, &choice, error)) != STATUS_OK || walker->live == 0) return status;
    each(walker, seat_prepare);
    longest_and_largest(walker, &longest, &largest);
    status = memory_new(shared->evaluation.tokens, sizeof(double), "token losses", &walker->losses_fp, error);
    if (status != STATUS_OK) return status;
    if ((status = shared->backend->ops->prepare(shared->backend, longest, config->vocabulary_size, error)) != STATUS_OK)
        return status;
    if ((status = model_rope_tables(config, shared->backend, longest, &walker->cosine, &walker->sine, error)) != STATUS_OK)
        return status;
    each(walker, seat_begin);
    if ((status = fp_begin(walker, &embed_fp, error)) != STATUS_OK) return status;
    if ((status = embed_all(walker, embed_fp, largest, error)) != STATUS_OK) return status;
    status = walk_init(&shared->walk, config, shared->backend, WALK_FORWARD, largest, walker->cosine, walker->sine, error);
    if (status != STATUS_OK) return status;
    if ((status = room_open(walker, choice.hold_bytes, error)) != STATUS_OK) return status;
    each(walker, seat_open);
    if (walker->live < 2) return STATUS_OK;
    return shared->backend->ops->allocate(shared->backend, loader_elements(shared->model), "block weights", &walker->copy, error);
}

/* ---- The blocks ---- */

static enum status fp_pass(struct walker *walker, const struct block *block, struct error *error)
{
    const struct chunks *chunks = &walker->shared.evaluation;
    for (int64_t i = 0; i < chunks->count && walker->live > 0; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        struct matrix rows;
        enum status status = hidden_lend(&walker->fp, chunk, &rows, error);
        if (status != STATUS_OK) return status;
        walk_forward(&walker->shared.walk, block->program, &chunk->batch, block->parameters, rows);
        if ((status = hidden_return(&walker->fp, chunk, error)) != STATUS_OK) return status;
        attend(walker, NULL);
    }
    walker->fp_layer++;
    return STATUS_OK;
}

/* Each of those that come to this block quantizes a copy, the last of them the block itself. */
static void recipes_pass(struct walker *walker, struct block *block)
{
    int64_t last = -1;
    for (int64_t i = 0; i < walker->count; i++)
        if (walker->seats[i].live && walker->seats[i].recipe.layer == block->layer) last = i;
    for (int64_t i = 0; i <= last; i++) {
        struct seat *seat = &walker->seats[i];
        struct block own;
        struct error error;
        if (!seat->live || seat->recipe.layer != block->layer) continue;
        if (i < last) loader_copy(walker->shared.backend, block, walker->copy, &own);
        const enum status status = quantize_recipe_block(&seat->recipe, i < last ? &own : block, &error);
        if (status != STATUS_OK) settle(seat, status, &error);
    }
}

/* Streams may come from different blocks: those that are further wait for the others. */
static int64_t first_layer(const struct walker *walker)
{
    int64_t first = walker->fp_layer;
    for (int64_t i = 0; i < walker->count; i++)
        if (walker->seats[i].live && walker->seats[i].recipe.layer < first) first = walker->seats[i].recipe.layer;
    return first;
}

static void keep(struct walker *walker)
{
    struct quantize_recipe *recipes[QUANTIZE_KEEP_MOST];
    int64_t count = 0;
    for (int64_t i = 0; i < walker->count; i++)
        if (walker->seats[i].live && count < QUANTIZE_KEEP_MOST) recipes[count++] = &walker->seats[i].recipe;
    quantize_keep_write(&walker->keep, recipes, count, walker->fp_found ? NULL : &walker->fp, walker->fp_layer);
}

static enum status blocks_walk(struct walker *walker, struct error *error)
{
    const int64_t layers = walker->shared.model->config.layers, first = first_layer(walker);
    enum status status;
    if (first == layers) return STATUS_OK;
    status = loader_open_at(walker->shared.model, walker->shared.backend, first, &walker->loader, error);
    for (int64_t layer = first; layer < layers && status == STATUS_OK && walker->live > 0; layer++) {
        struct block *block = NULL;
        if ((status = loader_next(walker->loader, &block, error)) != STATUS_OK) return status;
        if (walker->fp_layer == layer && (status = fp_pass(walker, block, error)) != STATUS_OK) return status;
        recipes_pass(walker, block);
        keep(walker);
    }
    loader_close(walker->loader);
    walker->loader = NULL;
    return status;
}

/* Only a help to later runs: a full disk does not fail this one. */
static void baseline_keep(struct walker *walker)
{
    struct error cause;
    if (walker->request->baseline == NULL || walker->fp_found) return;
    if (baseline_save(walker->request->baseline, &walker->fp, &cause) != STATUS_OK)
        monitor_log(walker->request->monitor, "the baseline is not kept for later runs: %s", cause.detail);
}

/* ---- Behind the last block ---- */

static enum status seat_leave(struct seat *seat, struct error *error)
{
    const enum status status = quantize_recipe_visit(&seat->recipe, error);
    return status == STATUS_OK ? quantize_recipe_leave(&seat->recipe, error) : status;
}

static enum status seat_head(struct seat *seat, struct error *error)
{
    return quantize_recipe_head(&seat->recipe, &seat->walker->head, error);
}

static enum status seat_summarise(struct seat *seat, struct error *error)
{
    const int64_t total = seat->walker->shared.model->config.layers + 1;
    const enum status status = quantize_recipe_summarise(&seat->recipe, seat->walker->losses_fp, error);
    if (status != STATUS_OK) return status;
    monitor_progress(seat->member->request.monitor, total, total, "block");
    settle(seat, STATUS_OK, &(struct error){0});
    return STATUS_OK;
}

/* One chunk of the full-precision stream and beside it that of each recipe. */
static enum status head_chunk(struct walker *walker, const struct chunk *chunk, struct head_other *others, struct error *error)
{
    struct matrix rows;
    int64_t count = 0;
    const enum status status = hidden_lend(&walker->fp, chunk, &rows, error);
    if (status != STATUS_OK) return status;
    for (int64_t k = 0; k < walker->count; k++) {
        struct seat *seat = &walker->seats[k];
        struct error own;
        if (!seat->live) continue;
        const enum status lent = quantize_recipe_other(&seat->recipe, chunk, &others[count], &own);
        if (lent == STATUS_OK)
            count++;
        else
            settle(seat, lent, &own);
    }
    head_compare(&walker->head, rows, others, count, &chunk->batch, walker->losses_fp + chunk->first_token);
    attend(walker, NULL);
    return STATUS_OK;
}

static enum status head_walk(struct walker *walker, struct error *error)
{
    const struct chunks *chunks = &walker->shared.evaluation;
    struct backend *backend = walker->shared.backend;
    struct head_other *others = NULL;
    enum status status;
    each(walker, seat_leave);
    /* what the blocks needed makes room for the output matrix and the logits */
    sequential_room_reset(&walker->shared.room);
    walk_reset(&walker->shared.walk);
    if (walker->copy != NULL) backend->ops->release(backend, walker->copy);
    walker->copy = NULL;
    status = head_load(&walker->head, walker->shared.model, backend, (struct matrix){0}, HEAD_COMPARE, error);
    if (status != STATUS_OK) return status;
    each(walker, seat_head);
    if ((status = memory_new(walker->count, sizeof *others, "streams", &others, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < chunks->count && walker->live > 0 && status == STATUS_OK; i++)
        status = head_chunk(walker, &chunks->chunks[i], others, error);
    memory_free(others);
    return status == STATUS_OK ? backend->ops->sync(backend, error) : status;
}

static enum status work(struct walker *walker, struct error *error)
{
    enum status status;
    if ((status = prepare(walker, error)) != STATUS_OK || walker->live == 0) return status;
    if ((status = blocks_walk(walker, error)) != STATUS_OK || walker->live == 0) return status;
    baseline_keep(walker);
    if ((status = head_walk(walker, error)) != STATUS_OK || walker->live == 0) return status;
    if ((status = weights_check_unchanged(walker->shared.model->weights, error)) != STATUS_OK) return status;
    each(walker, seat_summarise);
    return STATUS_OK;
}

static void walker_reset(struct walker *walker)
{
    struct quantize_shared *shared = &walker->shared;
    struct backend *backend = shared->backend;
    loader_close(walker->loader);
    if (walker->head.backend != NULL) head_reset(&walker->head);
    if (walker->copy != NULL) backend->ops->release(backend, walker->copy);
    sequential_room_reset(&shared->room);
    if (shared->walk.backend != NULL) walk_reset(&shared->walk);
    hidden_reset(&walker->fp);
    matrix_release(backend, &walker->cosine); /* sine lies in the same block */
    memory_free(walker->losses_fp);
    chunks_reset(&shared->evaluation);
    memory_free(walker->seats);
}

static void seat_take(struct walker *walker, struct seat *seat, struct quantize_member *member)
{
    *seat = (struct seat){.walker = walker, .member = member, .live = true};
    seat->monitor = (struct monitor){.owner = seat, .check = seat_check};
    seat->recipe = (struct quantize_recipe){
        .shared = &walker->shared, .request = &member->request, .monitor = &seat->monitor, .result = {.layer_count = 0}};
}

void quantize_together(struct quantize_member *members, int64_t count)
{
    struct error error = {0};
    const struct quantize_request *request = &members[0].request;
    struct walker walker = {.shared = {.model = request->model, .backend = request->backend}, .request = request};
    enum status status = memory_new(count, sizeof *walker.seats, "recipes", &walker.seats, &error);
    if (status != STATUS_OK) {
        for (int64_t i = 0; i < count; i++) {
            members[i].status = status;
            members[i].error = error;
            members[i].result = (struct quantize_result){0};
            if (members[i].ended != NULL) members[i].ended(&members[i]);
        }
        return;
    }
    walker.count = walker.live = count;
    quantize_keep_begin(&walker.keep);
    for (int64_t i = 0; i < count; i++) seat_take(&walker, &walker.seats[i], &members[i]);
    if ((status = work(&walker, &error)) != STATUS_OK) settle_all(&walker, status, &error);
    walker_reset(&walker);
}

enum status quantize_run(const struct quantize_request *request, struct quantize_result *out, struct error *error)
{
    struct quantize_member member = {.request = *request};
    quantize_together(&member, 1);
    *out = member.result;
    if (member.status != STATUS_OK) *error = member.error;
    return member.status;
}

/* ---- Memory ---- */

int64_t quantize_together_most(const struct quantize_request *request, int64_t memory)
{
    const struct quantize_request both[] = {*request, *request};
    const enum plan_room room = backend_room(request->backend);
    struct plan_budget budget = backend_budget(request->backend, NULL);
    const struct plan_budget unbounded = {{INT64_MAX, INT64_MAX, INT64_MAX}};
    struct run_plan one, two;
    struct error error;
    if (memory > 0) budget.bytes[room] = memory;
    if (quantize_plan(both, 1, &unbounded, &one, &error) != STATUS_OK ||
        quantize_plan(both, 2, &unbounded, &two, &error) != STATUS_OK)
        return 1; /* what is wrong shows when it runs */
    const int64_t more = two.peak[room] - one.peak[room], left = budget.bytes[room] - one.peak[room];
    return left < more || more <= 0 ? 1 : 1 + left / more;
}
