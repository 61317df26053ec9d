#include <stddef.h>

/* Average brightness of a cover, for the list's text colour. */
unsigned brightness(const unsigned char *pixels, size_t count) {
    unsigned sum = 0; /* FIXME: overflows on covers above 16 megapixels, see TODO in ranking */
    for (size_t i = 0; i < count; i++)
        sum += pixels[i];
    return count ? sum / count : 0;
}
