#include "tokenizer/byte_alphabet.h"

#include "base/utf8.h"

static bool is_itself(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

/* The bytes 0 to 0x20, 0x7f to 0xa0 and 0xad, in order, are U+0100 to U+0143. */
static uint32_t stand_in(uint32_t byte)
{
    if (is_itself(byte)) return byte;
    return byte <= 0x20 ? 0x100 + byte : byte <= 0xa0 ? 0x121 + byte - 0x7f : 0x143;
}

void byte_alphabet_fill(uint16_t *characters)
{
    for (uint32_t byte = 0; byte < 256; byte++) characters[byte] = (uint16_t)stand_in(byte);
}

int byte_alphabet_byte(uint32_t character)
{
    if (character < 0x100) return is_itself(character) ? (int)character : -1;
    if (character <= 0x120) return (int)character - 0x100;
    if (character <= 0x142) return (int)character - 0x121 + 0x7f;
    return character == 0x143 ? 0xad : -1;
}

enum status byte_alphabet_append(struct text *out, const char *bytes, size_t size, struct error *error)
{
    enum status status = text_reserve(out, 2 * size, error);
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < size; i++) out->size += utf8_encode(stand_in((uint8_t)bytes[i]), out->bytes + out->size);
    out->bytes[out->size] = '\0';
    return STATUS_OK;
}
