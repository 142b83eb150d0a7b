/* Decodes JPEG files to RGB with TurboJPEG at its default settings, on one thread, as often as asked, and prints the
 * images a second of the best round: the yardstick for imgfeed's decoder. Files are read beforehand.
 *
 *   cc -O2 -o decode decode.c -lturbojpeg && ./decode ROUNDS FILE...
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <turbojpeg.h>

struct file {
    unsigned char *data;
    unsigned long size;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int read_file(const char *path, struct file *f)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return -1;
    fseek(in, 0, SEEK_END);
    f->size = ftell(in);
    rewind(in);
    f->data = malloc(f->size);
    int ok = f->data && fread(f->data, 1, f->size, in) == f->size;
    fclose(in);
    return ok ? 0 : -1;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[1]) : 0, count = argc - 2;
    if (rounds < 1) {
        fprintf(stderr, "usage: %s ROUNDS FILE...\n", argv[0]);
        return 2;
    }
    struct file *files = calloc(count, sizeof *files);
    for (int i = 0; i < count; i++) {
        if (read_file(argv[i + 2], &files[i])) {
            fprintf(stderr, "%s: cannot be read\n", argv[i + 2]);
            return 1;
        }
    }
    tjhandle tj = tjInitDecompress();
    unsigned char *pixels = NULL;
    size_t room = 0;
    double best = 0;
    int decoded = 0;
    for (int round = 0; round < rounds; round++) {
        double start = seconds();
        decoded = 0;
        for (int i = 0; i < count; i++) {
            int width, height, sampling, space;
            if (tjDecompressHeader3(tj, files[i].data, files[i].size, &width, &height, &sampling, &space))
                continue; /* TurboJPEG knows fewer samplings than libjpeg */
            size_t need = (size_t)width * height * 3;
            if (need > room)
                pixels = realloc(pixels, room = need);
            if (tjDecompress2(tj, files[i].data, files[i].size, pixels, width, 0, height, TJPF_RGB, TJFLAG_ACCURATEDCT) == 0)
                decoded++;
        }
        double rate = decoded / (seconds() - start);
        if (rate > best)
            best = rate;
    }
    printf("turbojpeg: %d of %d files, %.0f images/s\n", decoded, count, best);
    return 0;
}
