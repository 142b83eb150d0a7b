/*
 * libjpeg-turbo's bare decode: every image to RGB, the whole of it, default settings (islow IDCT, fancy upsampling), over
 * and over. The files are in memory before the clock starts.
 *
 *     turbo LIST SECONDS      LIST names a file with one path a line
 *
 * A quarter of SECONDS is warm-up. Prints one JSON object. CMYK files are decoded to CMYK: the library converts no further.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <turbojpeg.h>

struct image {
    unsigned char *data;
    unsigned long size;
};

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void fail(const char *what, const char *which) {
    fprintf(stderr, "turbo: %s: %s\n", what, which);
    exit(1);
}

static struct image load(const char *path) {
    struct image image;
    FILE *f = fopen(path, "rb");
    if (!f) fail("cannot open", path);
    fseek(f, 0, SEEK_END);
    image.size = ftell(f);
    rewind(f);
    image.data = malloc(image.size);
    if (!image.data || fread(image.data, 1, image.size, f) != image.size) fail("cannot read", path);
    fclose(f);
    return image;
}

/* decode decompresses one image to the buffer, which grows as needed. */
static void decode(tjhandle handle, const struct image *image, unsigned char **pixels, size_t *room) {
    int width, height, subsampling, colorspace;
    if (tjDecompressHeader3(handle, image->data, image->size, &width, &height, &subsampling, &colorspace))
        fail("header", tjGetErrorStr2(handle));
    int format = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK ? TJPF_CMYK : TJPF_RGB;
    size_t need = (size_t)width * height * tjPixelSize[format];
    if (need > *room) {
        free(*pixels);
        *pixels = malloc(*room = need);
        if (!*pixels) fail("out of memory", "pixels");
    }
    if (tjDecompress2(handle, image->data, image->size, *pixels, width, 0, height, format, 0) &&
        tjGetErrorCode(handle) == TJERR_FATAL)
        fail("decode", tjGetErrorStr2(handle));
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "turbo LIST SECONDS");
    FILE *list = fopen(argv[1], "r");
    if (!list) fail("cannot open", argv[1]);
    struct image *images = NULL;
    size_t count = 0, room = 0;
    char path[4096];
    while (fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = 0;
        if (count % 1024 == 0) images = realloc(images, (count + 1024) * sizeof *images);
        if (!images) fail("out of memory", "list");
        images[count++] = load(path);
    }
    fclose(list);
    if (!count) fail("no images in", argv[1]);

    tjhandle handle = tjInitDecompress();
    unsigned char *pixels = NULL;
    double duration = atof(argv[2]), start = seconds(CLOCK_MONOTONIC) + duration / 4;
    size_t next = 0;
    while (seconds(CLOCK_MONOTONIC) < start) decode(handle, &images[next++ % count], &pixels, &room);
    long done = 0;
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), now;
    start = seconds(CLOCK_MONOTONIC);
    do {
        decode(handle, &images[next++ % count], &pixels, &room);
        done++;
    } while ((now = seconds(CLOCK_MONOTONIC)) < start + duration);
    printf("{\"images_per_second\": %.3f, \"images\": %ld, \"seconds\": %.3f, \"cpu_seconds\": %.3f}\n", done / (now - start),
           done, now - start, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    return 0;
}
