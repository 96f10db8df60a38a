#include "utf8.h"

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t utf8_sequence(const unsigned char *text)
{
    unsigned char a = text[0], b = a ? text[1] : 0;
    if (a < 0x80)
        return 1;
    size_t length = a >= 0xC2 && a <= 0xDF ? 2 : a >= 0xE0 && a <= 0xEF ? 3 : a >= 0xF0 && a <= 0xF4 ? 4 : 0;
    unsigned char low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80, high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
    if (length == 0 || b < low || b > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}
