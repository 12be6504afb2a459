#include "http/head_guard.h"

#include "base/hex.h"

#include <string.h>

enum { LENGTH_DIGITS = 19, CHUNK_DIGITS = 15 }; /* below 2^64 */
enum { EXTENSION_MOST = 1024 }; /* for a chunk extension that fills its buffer the library answers 500 */

enum state {
    STATE_START, /* of a request line, or of empty lines before it */
    STATE_START_LF,
    STATE_METHOD,
    STATE_TARGET,
    STATE_VERSION,
    STATE_FIELD, /* the beginning of a header line */
    STATE_NAME,
    STATE_VALUE,
    STATE_LENGTH,
    STATE_CODING,
    STATE_FIELD_LF, /* after the CR of a request line or a header line */
    STATE_END_LF,   /* after the CR of the empty line that ends a head or a trailer */
    STATE_BODY,
    STATE_SIZE,
    STATE_EXTENSION,
    STATE_SIZE_LF,
    STATE_DATA,
    STATE_DATA_CR,
    STATE_DATA_LF,
    STATE_COUNT
};

/* Names that mean something to the library; the values are bit numbers. */
enum { NAME_LENGTH, NAME_CODING, NAME_COOKIE, NAME_HOST, NAME_COUNT };
static const char *const names[NAME_COUNT] = {"content-length", "transfer-encoding", "cookie", "host"};

static const char bare_cr[] = "a carriage return without a line feed";
static const char bad_name[] = "a header name holds a character that is not allowed";

static void enter(struct head_guard *guard, enum state state)
{
    guard->state = state;
    guard->at = 0;
}

static bool control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool token(char c)
{
    return digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* --- The request line --- */
static const char *read_start(struct head_guard *guard, char *c)
{
    if (*c == '\r') {
        enter(guard, STATE_START_LF);
        return NULL;
    }
    guard->messages++;
    guard->left = 0;
    guard->has_length = guard->chunked = guard->trailer = guard->has_host = false;
    if (!token(*c)) return "a method is a word of letters";
    enter(guard, STATE_METHOD);
    return NULL;
}

static const char *read_start_lf(struct head_guard *guard, char *c)
{
    if (*c == '\n') {
        enter(guard, STATE_START);
        return NULL;
    }
    guard->messages++;
    return bare_cr;
}

static const char *read_method(struct head_guard *guard, char *c)
{
    if (*c == ' ')
        enter(guard, STATE_TARGET);
    else if (!token(*c))
        return "a method is a word of letters, and one space follows it";
    return NULL;
}

static const char *read_target(struct head_guard *guard, char *c)
{
    if (*c == ' ' && guard->at > 0) {
        enter(guard, STATE_VERSION);
        return NULL;
    }
    if (control(*c) || *c == ' ' || *c == '#')
        return "the request line must be METHOD TARGET VERSION with one space between them, and the target holds no"
               " control character and no #";
    if (*c == '?') *c = '#';
    guard->at++;
    return NULL;
}

static const char *read_version(struct head_guard *guard, char *c)
{
    static const char form[] = "HTTP/0.0";
    const char wanted = form[guard->at];
    if (wanted == '\0' ? *c != '\r' : wanted == '0' ? !digit(*c) : *c != wanted)
        return "the request line must end with HTTP/1.1 or HTTP/1.0, a carriage return and a line feed";
    if (wanted == '\0')
        enter(guard, STATE_FIELD_LF);
    else
        guard->at++;
    return NULL;
}

/* --- Header lines --- */
static const char *read_name(struct head_guard *guard, char *c);

static const char *read_field(struct head_guard *guard, char *c)
{
    if (*c == '\r') {
        enter(guard, STATE_END_LF);
        return NULL;
    }
    if (*c == ':') return "a header line begins with a colon";
    if (*c == ' ' || *c == '\t') return "a header line begins with a blank: folded lines are not taken";
    if (!token(*c)) return bad_name;
    enter(guard, STATE_NAME);
    guard->names = (1U << NAME_COUNT) - 1;
    return read_name(guard, c);
}

/* The colon after the name of a header outside a trailer. */
static const char *name_ends(struct head_guard *guard)
{
    const bool length = guard->names & 1U << NAME_LENGTH && names[NAME_LENGTH][guard->at] == '\0';
    const bool coding = guard->names & 1U << NAME_CODING && names[NAME_CODING][guard->at] == '\0';
    if (length && guard->has_length) return "Content-Length may come once";
    if (coding && guard->chunked) return "Transfer-Encoding may come once";
    if ((length && guard->chunked) || (coding && guard->has_length))
        return "Content-Length and Transfer-Encoding may not come together";
    guard->has_length = guard->has_length || length;
    guard->chunked = guard->chunked || coding;
    guard->has_host = guard->has_host || (guard->names & 1U << NAME_HOST && names[NAME_HOST][guard->at] == '\0');
    enter(guard, length ? STATE_LENGTH : coding ? STATE_CODING : STATE_VALUE);
    return NULL;
}

static const char *read_name(struct head_guard *guard, char *c)
{
    if (*c == ':') {
        if (!guard->trailer) return name_ends(guard);
        enter(guard, STATE_VALUE);
        return NULL;
    }
    if (*c == ' ' || *c == '\t') return "a header line has a blank before its colon";
    if (*c == '\r' || *c == '\n') return "a header line has no colon";
    if (!token(*c)) return bad_name;
    for (unsigned i = 0; i < NAME_COUNT; i++)
        if (guard->names & 1U << i && names[i][guard->at] != lower(*c)) guard->names &= ~(1U << i);
    guard->at++;
    if (guard->names & 1U << NAME_COOKIE && names[NAME_COOKIE][guard->at] == '\0') *c = '-';
    return NULL;
}

static const char *read_value(struct head_guard *guard, char *c)
{
    if (*c == '\r')
        enter(guard, STATE_FIELD_LF);
    else if (control(*c) && *c != '\t')
        return "a header value holds a control character; lines end with a carriage return and a line feed";
    return NULL;
}

static bool blank_before(const struct head_guard *guard, char c)
{
    return guard->at == 0 && (c == ' ' || c == '\t');
}

static const char *read_length(struct head_guard *guard, char *c)
{
    if (blank_before(guard, *c)) return NULL;
    if (*c == '\r' && guard->at > 0) {
        enter(guard, STATE_FIELD_LF);
        return NULL;
    }
    if (!digit(*c) || guard->at == LENGTH_DIGITS) return "Content-Length must be a number of at most 19 digits";
    guard->left = guard->left * 10 + (uint64_t)(*c - '0');
    guard->at++;
    return NULL;
}

static const char *read_coding(struct head_guard *guard, char *c)
{
    static const char chunked[] = "chunked";
    if (blank_before(guard, *c)) return NULL;
    if (chunked[guard->at] == '\0' ? *c != '\r' : lower(*c) != chunked[guard->at])
        return "the only transfer coding understood is chunked";
    if (chunked[guard->at] == '\0')
        enter(guard, STATE_FIELD_LF);
    else
        guard->at++;
    return NULL;
}

static const char *read_field_lf(struct head_guard *guard, char *c)
{
    if (*c != '\n') return bare_cr;
    enter(guard, STATE_FIELD);
    return NULL;
}

static const char *read_end_lf(struct head_guard *guard, char *c)
{
    if (*c != '\n') return bare_cr;
    if (!guard->trailer) guard->heads++;
    if (guard->chunked && !guard->trailer)
        enter(guard, STATE_SIZE);
    else
        enter(guard, guard->left > 0 ? STATE_BODY : STATE_START);
    return NULL;
}

/* --- Chunks --- */
static const char *read_size(struct head_guard *guard, char *c)
{
    const int value = hex_value(*c);
    if (value >= 0 && guard->at < CHUNK_DIGITS) {
        guard->left = guard->left << 4 | (uint64_t)value;
        guard->at++;
        return NULL;
    }
    if (guard->at == 0 || (*c != ';' && *c != '\r')) return "the size of a chunk must be 1 to 15 hexadecimal digits";
    enter(guard, *c == ';' ? STATE_EXTENSION : STATE_SIZE_LF);
    return NULL;
}

static const char *read_extension(struct head_guard *guard, char *c)
{
    if (*c == '\r')
        enter(guard, STATE_SIZE_LF);
    else if (control(*c) && *c != '\t')
        return "the extension of a chunk holds a control character";
    else if (++guard->at > EXTENSION_MOST)
        return "the extension of a chunk is longer than 1024 bytes";
    return NULL;
}

static const char *read_size_lf(struct head_guard *guard, char *c)
{
    if (*c != '\n') return bare_cr;
    guard->trailer = guard->left == 0;
    enter(guard, guard->trailer ? STATE_FIELD : STATE_DATA);
    return NULL;
}

static const char *read_data_cr(struct head_guard *guard, char *c)
{
    if (*c != '\r') return "a chunk is longer than its size says";
    enter(guard, STATE_DATA_LF);
    return NULL;
}

static const char *read_data_lf(struct head_guard *guard, char *c)
{
    if (*c != '\n') return bare_cr;
    enter(guard, STATE_SIZE);
    return NULL;
}

#define HOST "Host: -\r\n\r\n"

/* Each state: what reads its bytes, and what ends the message from there, so that the library calls us once more with
 * it: with its head, with a byte of its body, or with its end. No end leaves a Content-Length or a Transfer-Encoding
 * without a value, which the library would answer by itself, and none a head without a Host, which 1.0.1 would:
 * `hostless`, where there is one, ends a head whose Host has not come. `last`: where the chunk is the last one. Bodies
 * are counted in head_guard_pass. */
static const struct {
    const char *(*read)(struct head_guard *guard, char *c);
    const char *end, *hostless, *last;
} rows[STATE_COUNT] = {
    [STATE_START] = {read_start, "GET / HTTP/1.1\r\n" HOST, NULL, NULL},
    [STATE_START_LF] = {read_start_lf, "\nGET / HTTP/1.1\r\n" HOST, NULL, NULL},
    [STATE_METHOD] = {read_method, " / HTTP/1.1\r\n" HOST, NULL, NULL},
    [STATE_TARGET] = {read_target, "/ HTTP/1.1\r\n" HOST, NULL, NULL},
    [STATE_VERSION] = {read_version, "HTTP/1.1\r\n" HOST, NULL, NULL},
    [STATE_FIELD] = {read_field, "\r\n", HOST, NULL},
    [STATE_NAME] = {read_name, "-:\r\n\r\n", "-:\r\n" HOST, NULL},
    [STATE_VALUE] = {read_value, "\r\n\r\n", "\r\n" HOST, NULL},
    [STATE_LENGTH] = {read_length, "0\r\n\r\n", "0\r\n" HOST, NULL},
    [STATE_CODING] = {read_coding, "chunked\r\n\r\n", "chunked\r\n" HOST, NULL},
    [STATE_FIELD_LF] = {read_field_lf, "\n\r\n", "\n" HOST, NULL},
    [STATE_END_LF] = {read_end_lf, "\n", NULL, NULL},
    [STATE_SIZE] = {read_size, "1\r\nx", NULL, "\r\n\r\n"},
    [STATE_EXTENSION] = {read_extension, "\r\nx", NULL, "\r\n\r\n"},
    [STATE_SIZE_LF] = {read_size_lf, "\nx", NULL, "\n\r\n"},
    [STATE_DATA_CR] = {read_data_cr, "\r\n1\r\nx", NULL, NULL},
    [STATE_DATA_LF] = {read_data_lf, "\n1\r\nx", NULL, NULL},
};

/* How many bytes of the state's end to skip, because the client has sent a part of the word that it begins with. */
static size_t begun(const struct head_guard *guard)
{
    if (guard->state == STATE_VERSION || guard->state == STATE_CODING) return guard->at;
    return (guard->state == STATE_TARGET || guard->state == STATE_LENGTH || guard->state == STATE_SIZE) &&
           guard->at > 0;
}

static void refuse(struct head_guard *guard, const char *fault)
{
    const bool sized = guard->state != STATE_SIZE || guard->at > 0;
    const bool last = sized && guard->left == 0 && rows[guard->state].last != NULL;
    guard->fault = fault;
    const bool hostless = !guard->has_host && !guard->trailer && rows[guard->state].hostless != NULL;
    const char *whole = hostless ? rows[guard->state].hostless : rows[guard->state].end;
    guard->end = last ? rows[guard->state].last : whole + begun(guard);
}

/* Counts bytes of a body, of which at most `size` are here. */
static size_t count_body(struct head_guard *guard, size_t size)
{
    const size_t here = guard->left < size ? (size_t)guard->left : size;
    guard->left -= here;
    if (guard->left == 0) enter(guard, guard->state == STATE_BODY ? STATE_START : STATE_DATA_CR);
    return here;
}

/* How many of these bytes of a value can be skipped without the table, as most bytes of a head can. */
static size_t plain(const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && !control(bytes[at])) at++;
    return at;
}

size_t head_guard_pass(struct head_guard *guard, char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && guard->fault == NULL) {
        if (guard->state == STATE_VALUE && (at += plain(bytes + at, size - at)) == size) break;
        if (guard->state == STATE_BODY || guard->state == STATE_DATA) {
            at += count_body(guard, size - at);
            continue;
        }
        const char *fault = rows[guard->state].read(guard, &bytes[at]);
        if (fault != NULL)
            refuse(guard, fault);
        else
            at++;
    }
    return at;
}

size_t head_guard_end(struct head_guard *guard, char *bytes, size_t space)
{
    const size_t left = guard->end != NULL ? strlen(guard->end) : 0;
    const size_t size = left < space ? left : space;
    if (size == 0) return 0;
    memcpy(bytes, guard->end, size);
    guard->end += size;
    return size;
}

const char *head_guard_fault(const struct head_guard *guard, unsigned message)
{
    if (guard->fault != NULL && message >= guard->messages) return guard->fault;
    return message <= guard->heads ? NULL : "the HTTP library read a head that was not checked";
}

void head_guard_restore(char *target)
{
    for (char *c = target; (c = strchr(c, '#')) != NULL;) *c = '?';
}
