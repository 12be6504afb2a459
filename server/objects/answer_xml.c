#include "objects/answer_xml.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 256, TEXT_BYTES = 8192 };

struct reading {
    XML_Parser parser;
    answer_xml_visitor *visit;
    void *context;
    char path[PATH_BYTES];
    char text[TEXT_BYTES];
    size_t length;
    bool leaf; /* no element has ended inside the open one */
    enum status status;
    struct error *error;
};

static void stop(struct reading *reading, const char *why)
{
    if (reading->status == STATUS_OK)
        reading->status = error_set(reading->error, STATUS_CORRUPT, "the answer of object storage is %s", why);
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

static void XMLCALL on_start(void *owner, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = owner;
    const size_t used = strlen(reading->path);
    const char *colon = strrchr(name, ':');
    const char *local = colon != NULL ? colon + 1 : name; /* without the prefix of a name space */
    (void)attributes;
    if (used + strlen(local) + 2 > sizeof reading->path) {
        stop(reading, "nested too deeply");
        return;
    }
    (void)snprintf(reading->path + used, sizeof reading->path - used, "%s%s", used > 0 ? "/" : "", local);
    reading->length = 0;
    reading->leaf = true;
}

static void XMLCALL on_text(void *owner, const XML_Char *text, int length)
{
    struct reading *reading = owner;
    if (reading->length + (size_t)length >= sizeof reading->text) {
        stop(reading, "longer than any answer");
        return;
    }
    memcpy(reading->text + reading->length, text, (size_t)length);
    reading->length += (size_t)length;
}

static void XMLCALL on_end(void *owner, const XML_Char *name)
{
    struct reading *reading = owner;
    (void)name;
    reading->text[reading->length] = '\0';
    if (reading->status == STATUS_OK)
        reading->status =
            reading->visit(reading->context, reading->path, reading->leaf ? reading->text : NULL, reading->error);
    if (reading->status != STATUS_OK) (void)XML_StopParser(reading->parser, XML_FALSE);
    char *slash = strrchr(reading->path, '/');
    *(slash != NULL ? slash : reading->path) = '\0';
    reading->length = 0;
    reading->leaf = false;
}

static void XMLCALL on_doctype(void *owner, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                               int subset)
{
    (void)name, (void)system, (void)public, (void)subset;
    stop(owner, "XML with a document type");
}

enum status answer_xml_read(const char *bytes, size_t length, answer_xml_visitor *visit, void *context,
                            struct error *error)
{
    struct reading *reading = calloc(1, sizeof *reading);
    XML_Parser parser = XML_ParserCreate("UTF-8");
    enum status status = STATUS_OK;
    if (reading == NULL || parser == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the answer of object storage");
        goto done;
    }
    *reading = (struct reading){.parser = parser, .visit = visit, .context = context, .error = error};
    XML_SetUserData(parser, reading);
    XML_SetElementHandler(parser, on_start, on_end);
    XML_SetCharacterDataHandler(parser, on_text);
    XML_SetStartDoctypeDeclHandler(parser, on_doctype);
    const bool good = length < INT32_MAX && XML_Parse(parser, bytes, (int)length, XML_TRUE) == XML_STATUS_OK;
    status = reading->status;
    if (status == STATUS_OK && !good)
        status = error_set(error, STATUS_CORRUPT, "the answer of object storage is no XML: %s",
                           XML_ErrorString(XML_GetErrorCode(parser)));
done:
    if (parser != NULL) XML_ParserFree(parser);
    if (reading != NULL) explicit_bzero(reading->text, sizeof reading->text); /* maybe a key */
    free(reading);
    return status;
}

static enum status take_refusal(void *context, const char *path, const char *text, struct error *error)
{
    struct transfer_head *head = context;
    (void)error;
    if (text == NULL) return STATUS_OK;
    if (strncmp(path, "ErrorResponse/", 14) == 0) path += 14; /* around it in answers of STS */
    if (strcmp(path, "Error/Code") == 0) (void)snprintf(head->code, sizeof head->code, "%s", text);
    if (strcmp(path, "Error/Message") == 0) (void)snprintf(head->message, sizeof head->message, "%s", text);
    if (strcmp(path, "Error/Region") == 0) (void)snprintf(head->region, sizeof head->region, "%s", text);
    return STATUS_OK;
}

static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~') *text = '?';
}

void answer_xml_refusal(const char *body, size_t length, struct transfer_head *head)
{
    struct error ignored; /* a truncated refusal is parsed as far as it goes */
    if (length > 0) (void)!answer_xml_read(body, length, take_refusal, head, &ignored);
    make_printable(head->code);
    make_printable(head->message);
    make_printable(head->region);
}
