/* formats.c - which picture the first bytes are of. Source of the marks: each format's specification. */
#include "picture_internal.h"

#include <string.h>

static bool begins(const uint8_t *bytes, size_t size, size_t at, const char *mark, size_t length)
{
    return size >= at + length && memcmp(bytes + at, mark, length) == 0;
}

#define MARK(name, at, text)                                                                                           \
    static bool is_##name(const uint8_t *bytes, size_t size)                                                           \
    {                                                                                                                  \
        return begins(bytes, size, at, text, sizeof(text) - 1);                                                        \
    }

MARK(png, 0, "\x89PNG")
MARK(jpeg, 0, "\xFF\xD8\xFF")
MARK(gif, 0, "GIF8")
MARK(psd, 0, "8BPS")
MARK(exr, 0, "\x76\x2F\x31\x01")
MARK(radiance, 0, "#?RADIANCE")
MARK(qoi, 0, "qoif")
MARK(dds, 0, "DDS ")
MARK(pdf, 0, "%PDF-")
MARK(dicom, 128, "DICM")
MARK(jxl, 0, "\0\0\0\x0CJXL \r\n\x87\n")

/* Two letters are little: the size of the second header is one of those that exist, too. */
static bool is_bmp(const uint8_t *bytes, size_t size)
{
    static const uint8_t sizes[] = {12, 40, 52, 56, 64, 108, 124};
    bool known = size >= 18 && memchr(sizes, bytes[14], sizeof sizes) != NULL && !bytes[15] && !bytes[16] && !bytes[17];
    return known && begins(bytes, size, 0, "BM", 2);
}

static bool is_webp(const uint8_t *bytes, size_t size)
{
    return begins(bytes, size, 0, "RIFF", 4) && begins(bytes, size, 8, "WEBP", 4);
}

static bool is_tiff(const uint8_t *bytes, size_t size)
{
    return begins(bytes, size, 0, "II*\0", 4) || begins(bytes, size, 0, "MM\0*", 4) ||
           begins(bytes, size, 0, "II+\0", 4) || begins(bytes, size, 0, "MM\0+", 4);
}

static bool is_jpeg2000(const uint8_t *bytes, size_t size)
{
    return begins(bytes, size, 0, "\0\0\0\x0CjP  \r\n\x87\n", 12) || begins(bytes, size, 0, "\xFF\x4F\xFF\x51", 4);
}

static bool brand(const uint8_t *bytes, size_t size, const char *const *brands, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found |= begins(bytes, size, 8, brands[i], 4);
    }
    return found && begins(bytes, size, 4, "ftyp", 4);
}

static bool is_avif(const uint8_t *bytes, size_t size)
{
    return brand(bytes, size, (const char *const[]){"avif", "avis"}, 2);
}

static bool is_heic(const uint8_t *bytes, size_t size)
{
    return brand(bytes, size, (const char *const[]){"heic", "heix", "hevc", "heim", "heis", "mif1", "msf1"}, 7);
}

/* "P6", a blank or a comment, a number. */
static bool is_pnm(const uint8_t *bytes, size_t size)
{
    return size >= 4 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
           (bytes[2] == '\n' || bytes[2] == ' ' || bytes[2] == '\r' || bytes[2] == '\t') &&
           ((bytes[3] >= '0' && bytes[3] <= '9') || bytes[3] == '#' || bytes[1] == '7');
}

static bool is_svg(const uint8_t *bytes, size_t size)
{
    size_t look = size < 512 ? size : 512;
    if (!begins(bytes, size, 0, "<svg", 4) && !begins(bytes, size, 0, "<?xml", 5)) {
        return false;
    }
    for (size_t i = 0; i + 4 <= look; i++) {
        if (memcmp(bytes + i, "<svg", 4) == 0) {
            return true;
        }
    }
    return false;
}

static const struct format formats[] = {
    {PICTURE_PNG, "a PNG", decode_png, is_png},
    {PICTURE_JPEG, "a JPEG", decode_jpeg, is_jpeg},
    {PICTURE_BMP, "a BMP", decode_bmp, is_bmp},
    {PICTURE_OTHER, "a GIF", NULL, is_gif},
    {PICTURE_WEBP, "a WebP picture", decode_webp, is_webp},
    {PICTURE_OTHER, "a TIFF picture", NULL, is_tiff},
    {PICTURE_OTHER, "a HEIC picture", NULL, is_heic},
    {PICTURE_OTHER, "an AVIF picture", NULL, is_avif},
    {PICTURE_OTHER, "a JPEG XL picture", NULL, is_jxl},
    {PICTURE_OTHER, "a JPEG 2000 picture", NULL, is_jpeg2000},
    {PICTURE_OTHER, "a PBM, PGM or PPM picture", NULL, is_pnm},
    {PICTURE_OTHER, "a Photoshop file", NULL, is_psd},
    {PICTURE_OTHER, "an OpenEXR picture", NULL, is_exr},
    {PICTURE_OTHER, "a Radiance picture", NULL, is_radiance},
    {PICTURE_OTHER, "a QOI picture", NULL, is_qoi},
    {PICTURE_OTHER, "a DDS texture", NULL, is_dds},
    {PICTURE_OTHER, "an SVG drawing", NULL, is_svg},
    {PICTURE_OTHER, "a PDF document", NULL, is_pdf},
    {PICTURE_OTHER, "a DICOM picture", NULL, is_dicom},
};

const struct format *format_of(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].is(bytes, size)) {
            return &formats[i];
        }
    }
    return NULL;
}

enum picture_format picture_probe(const uint8_t *bytes, size_t size)
{
    const struct format *format = format_of(bytes, size);
    return format ? format->id : PICTURE_NONE;
}

const char *picture_format_name(const uint8_t *bytes, size_t size)
{
    const struct format *format = format_of(bytes, size);
    return format ? format->name : NULL;
}
