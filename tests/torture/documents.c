/* Requests and answers: bodies held to tables, addresses, answers and problems as JSON, XML, command lines. */
#include "faults.h"
#include "scenario.h"

#include "cli/options.h"
#include "http/encoding.h"
#include "http/exchange.h"
#include "http/json_answer.h"
#include "http/json_body.h"
#include "http/problem.h"
#include "http/response_writer.h"
#include "http/router.h"
#include "hub/revision_name.h"
#include "kinds/kind.h"
#include "launch/slurm.h"
#include "objects/answer_xml.h"
#include "postgres/value.h"
#include "runs/requirements.h"
#include "schema/schema.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY (1U << FAULT_MEMORY)

static void prepare(struct room *room)
{
    (void)room;
    json_set_alloc_funcs(malloc, free); /* those that fail: what jansson cannot do is ours to handle */
}

static void add_text(struct checksum *sum, const char *text)
{
    checksum_add(sum, text, strlen(text));
}

/* What is added: the document with its defaults, or its faults. */
static enum status fill(const struct kind *kind, const char *text, struct checksum *sum, struct error *error)
{
    struct faults *faults = calloc(1, sizeof *faults);
    struct schema_filled filled = {0};
    json_t *body = NULL;
    char *said = NULL;
    enum status status = faults != NULL ? STATUS_OK : error_no_memory(error, "a scenario");
    if (status == STATUS_OK) status = json_body_parse(text, strlen(text), &body, error);
    if (status == STATUS_OK)
        status = schema_fill(kind->params, kind->params_size, body, "/params", faults, &filled, error);
    if (status == STATUS_OK && (said = json_answer_dump(body)) == NULL) status = error_no_memory(error, "a scenario");
    if (said != NULL) add_text(sum, said);
    if (status == STATUS_INVALID) {
        for (size_t i = 0; i < faults_kept(faults); i++) add_text(sum, faults->items[i].detail);
        status = STATUS_OK;
    }
    schema_filled_reset(&filled);
    json_decref(body);
    free(said);
    free(faults);
    return status;
}

static enum status run_bodies(const struct room *room, struct checksum *sum, struct error *error)
{
    enum status status = STATUS_OK;
    (void)room;
    for (int i = 0; kinds[i] != NULL && status == STATUS_OK; i++)
        status = fill(kinds[i],
                      "{\"checkpoint\": \"c\", \"dataset\": \"d\", \"method\": {\"name\": \"awq\", \"bits\": 4.0},"
                      " \"calibration\": {\"dataset\": \"e\"}, \"model\": {\"a\": [1]}, \"x\": 1}",
                      sum, error);
    return status;
}

static enum status run_described(const struct room *room, struct checksum *sum, struct error *error)
{
    json_t *document = json_object();
    char *said = NULL;
    (void)room;
    enum status status = document != NULL ? STATUS_OK : error_no_memory(error, "a scenario");
    if (status == STATUS_OK) status = schema_describe(document, "Evaluate", evaluate_kind.params, error);
    if (status == STATUS_OK) status = schema_describe(document, "Requires", requirements_params, error);
    if (status == STATUS_OK && (said = json_answer_dump(document)) == NULL)
        status = error_no_memory(error, "a scenario");
    if (status == STATUS_OK) add_text(sum, said);
    free(said);
    json_decref(document);
    return status;
}

static enum status run_requirements(const struct room *room, struct checksum *sum, struct error *error)
{
    static const char text[] = "{\"device\": \"cuda\", \"labels\": [\"gpu=h100\"], \"memory_bytes\": null}";
    json_t *body = NULL, *made = NULL;
    char *said = NULL;
    struct value_arguments *arguments = calloc(1, sizeof *arguments);
    (void)room;
    enum status status = arguments != NULL ? STATUS_OK : error_no_memory(error, "a scenario");
    if (status == STATUS_OK) status = json_body_parse(text, sizeof text - 1, &body, error);
    if (status == STATUS_OK) status = requirements_make(body, &made, error);
    if (status == STATUS_OK) status = value_arguments_fill(arguments, VALUES(value_json(made), value_text("a")), error);
    if (status == STATUS_OK) add_text(sum, arguments->values[0]);
    if (arguments != NULL) value_arguments_reset(arguments);
    free(arguments);
    json_decref(made);
    json_decref(body);
    free(said);
    return status;
}

static enum status run_problem(const struct room *room, struct checksum *sum, struct error *error)
{
    struct error cause;
    const struct problem problem = problem_of_status(STATUS_INVALID);
    (void)room;
    (void)error_set_at(&cause, STATUS_INVALID, "/params/bits", "expected 4");
    char *said = problem_render(&problem, &cause, NULL, "/v1/runs", "1");
    if (said == NULL) return error_no_memory(error, "a scenario");
    add_text(sum, said);
    free(said);
    return STATUS_OK;
}

static enum status run_response(const struct room *room, struct checksum *sum, struct error *error)
{
    struct response *response = calloc(1, sizeof *response);
    char *zipped = NULL, text[2000], etag[ETAG_SIZE];
    size_t length = 0;
    (void)room;
    if (response == NULL) return error_no_memory(error, "a scenario");
    memset(text, 'a', sizeof text);
    response_init(response, NULL);
    enum status status = response_json(response, 200, json_pack("{s:[i,f,s]}", "a", 1, 0.1, "b"), error);
    if (status == STATUS_OK) status = response_header(response, "Location", "/v1/runs/1", error);
    if (status == STATUS_OK) status = encoding_etag(response->bytes, response->length, etag, error);
    if (status == STATUS_OK) status = encoding_gzip(text, sizeof text, 6, &zipped, &length, error);
    if (status == STATUS_OK) checksum_add(sum, response->bytes, response->length);
    if (status == STATUS_OK) checksum_add(sum, zipped, length);
    if (status == STATUS_OK) add_text(sum, etag);
    free(zipped);
    response_reset(response);
    free(response);
    return status;
}

static enum status run_address(const struct room *room, struct checksum *sum, struct error *error)
{
    static const struct route routes[] = {{.method = "GET", .pattern = "/v1/runs/{id}/artifacts/{name}"}};
    struct request *request = calloc(1, sizeof *request);
    enum route_match match = ROUTE_UNKNOWN;
    const struct route *row;
    char allow[64];
    (void)room;
    if (request == NULL) return error_no_memory(error, "a scenario");
    request->method = "GET";
    request->path = "/v1/runs/a%20b/artifacts/c";
    enum status status = router_find(routes, 1, request, &match, &row, allow, sizeof allow, error);
    if (status == STATUS_OK) status = router_query(request, "a=1&b=%C3%A9", error);
    if (status == STATUS_OK) add_text(sum, request_parameter(request, "id"));
    if (status == STATUS_OK) add_text(sum, request_query(request, "b"));
    free(request->target_text);
    free(request->query_text);
    free(request);
    return status;
}

static enum status add_leaf(void *context, const char *path, const char *text, struct error *error)
{
    (void)error;
    add_text(context, path);
    if (text != NULL) add_text(context, text);
    return STATUS_OK;
}

static enum status run_xml(const struct room *room, struct checksum *sum, struct error *error)
{
    static const char text[] = "<a><b>c</b><d>e</d></a>";
    (void)room;
    return answer_xml_read(text, sizeof text - 1, add_leaf, sum, error);
}

static enum status run_submission(const struct room *room, struct checksum *sum, struct error *error)
{
    static const char *const worker[] = {"deltaq", "worker", "--label", "it's", NULL};
    struct template template = {0};
    json_t *words = NULL, *script = NULL;
    (void)room;
    enum status status = template_parse("device=cuda, gpu=h100: --partition=h100 --gres=gpu:1", &template, error);
    const struct slurm_submission submission = {.name = "deltaq",
                                                .template = &template,
                                                .memory_mib = 1024,
                                                .minutes = 60,
                                                .count = 2,
                                                .log_directory = "/tmp",
                                                .worker = worker};
    if (status == STATUS_OK) status = slurm_command(&submission, &words, &script, error);
    if (status == STATUS_OK) add_text(sum, json_string_value(script));
    for (size_t i = 0; i < json_array_size(words); i++) add_text(sum, json_string_value(json_array_get(words, i)));
    json_decref(words);
    json_decref(script);
    template_reset(&template);
    return status;
}

static enum status run_options(const struct room *room, struct checksum *sum, struct error *error)
{
    static const struct option_row rows[] = {
        {"--listen", "ADDRESS", "TORTURE_LISTEN", "127.0.0.1:1", OPTION_COLONS, "where"},
        {"--token", "TOKEN", "TORTURE_TOKEN", NULL, OPTION_ONCE, "secret"},
        {"--help", NULL, NULL, NULL, OPTION_ONCE, "help"},
        {0},
    };
    char line[4][32] = {"--listen", "a:1", "--token=b", "word"}, *words[] = {line[0], line[1], line[2], line[3]};
    struct options options;
    (void)room;
    const enum status status = options_parse(rows, 4, words, 1, &options, error);
    if (status == STATUS_OK) add_text(sum, options_text(&options, "--listen"));
    if (status == STATUS_OK) add_text(sum, options_text(&options, "--token"));
    options_reset(&options);
    return status;
}

static enum status run_revisions(const struct room *room, struct checksum *sum, struct error *error)
{
    struct revision_names *names = NULL;
    struct revision_name found;
    (void)room;
    const enum status status = revision_names_new(&names, error);
    if (status == STATUS_OK) {
        revision_name_read(names, "step1000", &found);
        checksum_add(sum, &found.step, sizeof found.step);
    }
    revision_names_free(names);
    return status;
}

const struct scenario scenarios_of_documents[] = {
    {"document bodies", MEMORY, prepare, run_bodies, NULL, 0},
    {"document described", MEMORY, prepare, run_described, NULL, 0},
    {"document requirements", MEMORY, prepare, run_requirements, NULL, 0},
    {"document problem", MEMORY, prepare, run_problem, NULL, 0},
    {"document response", MEMORY, prepare, run_response, NULL, 0},
    {"document address", MEMORY, prepare, run_address, NULL, 0},
    {"document xml", MEMORY, prepare, run_xml, NULL, 0},
    {"document submission", MEMORY, prepare, run_submission, NULL, 0},
    {"document options", MEMORY, prepare, run_options, NULL, 0},
    {"document revisions", MEMORY, prepare, run_revisions, NULL, 0},
    {0},
};
