#include "inputs/recipes.h"

#include "resources/answer.h"
#include "resources/handlers.h"

enum status recipes_get(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    json_t *document = recipes_list();
    (void)context, (void)request;
    if (document == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the recipes");
    return response_json(response, 200, json_pack("{so}", "items", document), error);
}
