/* Compiles a kernel in this process and calls it with DLPack tensors, as a framework would.
 *
 *   cc use_jit.c $(pkg-config --cflags --libs moec) -lm -o use_jit && ./use_jit [rmsnorm.moe]
 *
 * pkg-config finds what `cmake --install build --prefix DIR` has installed, with LIB for DIR's folder that has libmoec.so, by
 *
 *   export PKG_CONFIG_PATH=LIB/pkgconfig LD_LIBRARY_PATH=LIB
 *
 * In the folder of the sources, with what stands in build/ and is not installed:
 *
 *   cc -I include examples/use_jit.c -L build/lib -lmoec -lmoert -lm -Wl,-rpath,$PWD/build/lib -o use_jit && ./use_jit examples/rmsnorm.moe */
#include <moec/moec.h>

#include <math.h>
#include <stdio.h>

enum { T = 5, H = 32 };

static uint16_t bf16(float value)
{
    union {
        float f;
        uint32_t bits;
    } u = {value};
    return (uint16_t)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t bits)
{
    union {
        uint32_t bits;
        float f;
    } u = {(uint32_t)bits << 16};
    return u.f;
}

/* The sizes T and H are taken from the shapes; strides NULL: dense. */
static DLTensor tensor(void *data, uint8_t code, uint8_t bits, int rank, int64_t *shape)
{
    DLTensor t = {
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = {code, bits, 1}, .shape = shape};
    return t;
}

static float expected(const uint16_t *x, const float *w, int h)
{
    float squares = 0;
    for (int i = 0; i < H; i++)
        squares += from_bf16(x[i]) * from_bf16(x[i]);
    return from_bf16(x[h]) / sqrtf(squares / H + 1e-5f) * w[h];
}

static int run(const moec_kernel *rmsnorm)
{
    uint16_t x[T * H], y[T * H];
    float w[H];
    int64_t matrix[] = {T, H}, row[] = {H}, bad_row[] = {H - 1};
    for (int i = 0; i < T * H; i++)
        x[i] = bf16(sinf((float)i));
    for (int h = 0; h < H; h++)
        w[h] = 1.0f + (float)h / H;
    DLTensor tx = tensor(x, kDLBfloat, 16, 2, matrix), ty = tensor(y, kDLBfloat, 16, 2, matrix);
    DLTensor tw = tensor(w, kDLFloat, 32, 1, row);
    moec_arg args[] = {{.kind = MOEC_TENSOR, .tensor = &tx},
                       {.kind = MOEC_TENSOR, .tensor = &tw},
                       {.kind = MOEC_TENSOR, .tensor = &ty}};
    moe_ctx *ctx = moe_ctx_new(0);
    if (!ctx)
        return 1;
    int status = moec_kernel_call(rmsnorm, ctx, args, 3), wrong = status != MOE_OK;
    if (status)
        printf("%s: %s\n", moe_status_text(status), moe_ctx_message(ctx));
    for (int i = 0; i < T * H && !status; i++)
        wrong |= fabsf(from_bf16(y[i]) - expected(x + i / H * H, w, i % H)) > 0.02f;
    printf("y[0][1] = %g, expected %g\n", (double)from_bf16(y[1]), (double)expected(x, w, 1));

    /* A shape that does not fit is refused by name. */
    tw.shape = bad_row;
    wrong |= moec_kernel_call(rmsnorm, ctx, args, 3) != MOE_ARGUMENT;
    printf("%s\n", moe_ctx_message(ctx));
    moe_ctx_free(ctx);
    return wrong;
}

int main(int argc, char **argv)
{
    moec_context *c = moec_context_new();
    moec_module *m = NULL;
    if (!c)
        return 1;
    int status = moec_compile_file(c, argc > 1 ? argv[1] : "rmsnorm.moe", NULL, &m);
    fputs(moec_error_text(c), stderr); /* warnings too */
    const moec_kernel *rmsnorm = status ? NULL : moec_module_kernel(m, "rmsnorm");
    if (!status && !rmsnorm)
        fputs("the file has no kernel rmsnorm, which this program calls\n", stderr);
    int wrong = rmsnorm ? run(rmsnorm) : 1;
    moec_module_free(m);
    moec_context_free(c);
    puts(wrong ? "WRONG" : "ok");
    return wrong;
}
