/* One element of a tensor in memory, as a double and back. No conversion instruction is needed: clang has no
 * f16 type on plain x86-64. */
#include "driver/element.h"

#include <math.h>
#include <string.h>

static uint16_t half_bits(double value)
{
    int exponent;
    unsigned sign = signbit(value) ? 0x8000u : 0;
    double magnitude = fabs(value);
    if (isnan(value))
        return 0x7e00;
    if (isinf(value))
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x1p-14)
        return (uint16_t)(sign | (unsigned)(magnitude * 0x1p24));
    double fraction = frexp(magnitude, &exponent) * 2 - 1;
    return (uint16_t)(sign | (unsigned)(exponent - 1 + 15) << 10 | (unsigned)(fraction * 1024));
}

static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double magnitude = exponent == 31  ? (bits & 1023 ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

void element_write(Elem e, double value, void *at)
{
    float f = (float)value;
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &f, sizeof bits);
    switch (e) {
    case EL_F32: memcpy(at, &f, sizeof f); return;
    case EL_BF16:
        half = isnan(value) ? 0x7fc0 : (uint16_t)(bits >> 16);
        memcpy(at, &half, sizeof half);
        return;
    case EL_F16:
        half = half_bits(value);
        memcpy(at, &half, sizeof half);
        return;
    case EL_I32: memcpy(at, &(int32_t){(int32_t)value}, sizeof(int32_t)); return;
    case EL_I64: memcpy(at, &(int64_t){(int64_t)value}, sizeof(int64_t)); return;
    case EL_COUNT: break;
    }
}

double element_read(Elem e, const void *at)
{
    float f;
    int32_t i;
    int64_t wide;
    uint16_t half;
    switch (e) {
    case EL_F32: memcpy(&f, at, sizeof f); return f;
    case EL_BF16: memcpy(&half, at, sizeof half); return f32_of_bf16(half);
    case EL_F16: memcpy(&half, at, sizeof half); return half_value(half);
    case EL_I32: memcpy(&i, at, sizeof i); return i;
    case EL_I64: memcpy(&wide, at, sizeof wide); return (double)wide;
    case EL_COUNT: break;
    }
    return NAN;
}
