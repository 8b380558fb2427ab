/* Runs every kernel once, right after they were compiled and in a process of its own: a compiler
 * and a (virtual) processor that don't agree about instructions would end the engine otherwise.
 * Says nothing about results: those are tried before a model is read. */
#include <stdint.h>
#include <stdlib.h>

void waymark_linear_bfloat(const void *, const void *, const void *, void *, long, long, long, int);
void waymark_linear_int8(const void *, const void *, const void *, const void *, void *, long, long,
                         long, int, int);
void waymark_linear_int4(const void *, const void *, const void *, const void *, void *, long, long,
                         long, long, int, int);
void waymark_unpack_int4(const void *, const void *, void *, long, long, int, int);
void waymark_scale_sums(const void *, const void *, const void *, const void *, void *, long, long,
                        long, int, int);
void waymark_rms_norm(const void *, const void *, void *, long, long, long, long, long, float, int,
                      int);
void waymark_gated_rms_norm(const void *, const void *, const void *, void *, long, long, long,
                            long, float, int, int);
void waymark_convolve(const void *, const void *, void *, long, long, long, long, int, int);
void waymark_conv_step(const void *, void *, const void *, void *, long, long, int);
void waymark_rotate(const void *, const void *, const void *, void *, long, long, long, long, long,
                    long, int, int);
void waymark_delta_step(const void *, const void *, const void *, const void *, const void *,
                        void *, void *, long, long, long, long, int);
void waymark_delta_gates(const void *, const void *, const void *, const void *, void *, void *,
                         long, long, long, int);
void waymark_delta_net_step(const void *, const void *, const void *, const void *, void *, void *,
                            const void *, const void *, const void *, const void *, void *, long,
                            long, long, long, long, float, int, int);
int waymark_attend(const void *, const void *, const void *, void *, long, long, long, long, long,
                   long, float, int, int);
void waymark_swiglu(const void *, const void *, void *, long, long, long, int, int);

#define SIZE 192 /* more than one register of anything, and a rest */
#define ROWS 40

int main(void) {
    void *some[7];
    for (int each = 0; each < 7; each++)
        if (!(some[each] = calloc(SIZE * SIZE, sizeof(float)))) return 1;
    for (int bfloat = 0; bfloat < 2; bfloat++) {
        void *a = some[0], *b = some[1], *c = some[2], *d = some[3], *e = some[4], *f = some[5];
        for (long rows = 1; rows < 12; rows += 10) {
            if (bfloat) waymark_linear_bfloat(a, b, c, d, rows, SIZE, SIZE - 1, 2);
            waymark_linear_int8(a, b, c, d, e, rows, SIZE, SIZE - 1, bfloat, 2);
            waymark_linear_int4(a, b, c, d, e, rows, SIZE, SIZE, SIZE - 1, bfloat, 2);
        }
        waymark_unpack_int4(a, b, c, ROWS, SIZE, bfloat, 2);
        waymark_scale_sums(a, b, c, d, e, ROWS, SIZE, SIZE, bfloat, 2);
        waymark_rms_norm(a, b, c, ROWS, 2, SIZE / 2 - 1, SIZE, SIZE / 2, 1e-6f, bfloat, 2);
        waymark_gated_rms_norm(a, b, c, d, ROWS, 2, SIZE / 2 - 1, SIZE, 1e-6f, bfloat, 2);
        waymark_convolve(a, b, c, ROWS, SIZE - 1, 4, SIZE, bfloat, 2);
        waymark_conv_step(a, b, c, d, SIZE - 1, 4, bfloat);
        waymark_rotate(a, b, c, d, ROWS, 2, SIZE / 2, 17, SIZE, SIZE / 2, bfloat, 2);
        waymark_delta_step(a, b, c, d, e, f, some[6], 2, 4, 33, SIZE - 1, 2);
        waymark_delta_gates(a, b, c, d, e, f, ROWS, 17, SIZE, bfloat);
        waymark_delta_net_step(a, b, c, d, e, f, a, b, c, d, some[6], 2, 4, 33, 40, 4, 1e-6f,
                               bfloat, 2);
        if (!waymark_attend(a, b, c, d, SIZE, 1, 4, SIZE - 1, SIZE - 1, SIZE - 1, 1, bfloat, 2))
            return 1;
        waymark_swiglu(a, b, c, ROWS, SIZE - 1, SIZE, bfloat, 2);
    }
    return 0;
}
