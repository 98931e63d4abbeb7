/* Elements of stored tensors as f32, and back. Bits are moved by hand, because C11 has no type of 16 bits. */
#include "model/safetensors.h"

#include <math.h>
#include <string.h>

static float of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float half_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0)
        return of_bits(sign | bits_of((float)fraction * 0x1p-24f));
    return of_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

static uint16_t half_of_f32(float f)
{
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00); /* not a number */
    if (size >= bits_of(65520))
        return (uint16_t)(sign | 0x7c00); /* nearer to 65536, which it does not have */
    if (size < bits_of(0x1p-14f))
        return (uint16_t)(sign | (uint32_t)lrintf(of_bits(size) * 0x1p24f));
    return (uint16_t)(sign | (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

static uint16_t read_16(const unsigned char *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return bits;
}

void stored_read(const StoredTensor *t, int64_t first, int64_t n, float *out)
{
    const unsigned char *at = t->at + (size_t)first * stored_type_bytes(t->type);
    switch (t->type) {
    case STORED_F32: memcpy(out, at, (size_t)n * sizeof *out); break;
    case STORED_BF16:
        for (int64_t i = 0; i < n; i++)
            out[i] = f32_of_bf16(read_16(at + 2 * i));
        break;
    case STORED_F16:
        for (int64_t i = 0; i < n; i++)
            out[i] = half_to_f32(read_16(at + 2 * i));
        break;
    case STORED_I32:
    case STORED_I64:
    case STORED_TYPES: break;
    }
}

static void convert_16(uint16_t narrow(float), const float *values, int64_t n, unsigned char *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = narrow(values[i]);
        memcpy(out + 2 * i, &bits, sizeof bits);
    }
}

void stored_convert(StoredType type, const float *values, int64_t n, unsigned char *out)
{
    switch (type) {
    case STORED_F32: memcpy(out, values, (size_t)n * sizeof *values); break;
    case STORED_BF16: convert_16(bf16_of_f32, values, n, out); break;
    case STORED_F16: convert_16(half_of_f32, values, n, out); break;
    case STORED_I32:
    case STORED_I64:
    case STORED_TYPES: break;
    }
}
