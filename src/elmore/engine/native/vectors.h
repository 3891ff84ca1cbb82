// Vectors as wide as the machine's, and the functions of an LSTM on them.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t Int __attribute__((vector_size(4 * LANES)));

namespace {

template <class V, class T> inline V load(const T* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
template <class V, class T> inline void store(T* to, V v) { std::memcpy(to, &v, sizeof v); }
inline Vec all(float x) { return x - Vec{}; }
inline Int all(int32_t x) { return x - Int{}; }
inline Vec clipped(Vec x, float limit) {  // a NaN stays one
    x = x > all(limit) ? all(limit) : x;
    return x < all(-limit) ? all(-limit) : x;
}

// e^x = (1 + more) * power for |x| <= 28, and as if |x| were 28 beyond; power is 1 near zero.
struct Exponential {
    Vec more, power;
};
inline Exponential split_exponential(Vec x) {
    x = clipped(x, 28.0f);
    const Vec shifter = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    Vec turns = x * 1.44269504f + shifter;
    Int power = (Int)turns - (Int)shifter;
    turns -= shifter;
    Vec r = x - turns * 0.693359375f + turns * 2.12194440e-4f;  // ln 2 in two parts
    Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return {p * r * r + r, (Vec)((power + 127) << 23)};
}

// e^x; three such can be multiplied without overflow.
inline Vec exponential(Vec x) {
    const Exponential e = split_exponential(x);
    return (e.more + 1.0f) * e.power;
}

// e^x - 1, as exact near zero as elsewhere.
inline Vec exponential_less_one(Vec x) {
    const Exponential e = split_exponential(x);
    return e.more * e.power + (e.power - 1.0f);
}

// Up to LANES numbers, from memory and back: at the end of a row there may be fewer, or none.
inline Vec take(const float* from, int64_t count) {
    if (count >= LANES) return load<Vec>(from);
    Vec v{};
    if (count > 0) std::memcpy(&v, from, count * sizeof(float));
    return v;
}
inline void give(float* to, Vec v, int64_t count) {
    if (count >= LANES) return store(to, v);
    if (count > 0) std::memcpy(to, &v, count * sizeof(float));
}

inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exponential(-x)); }  // never 0: see `exponential`
inline Vec tangent(Vec x) {
    const Vec e = exponential_less_one(2.0f * x);
    return e / (e + 2.0f);
}

// work(place, count) for all places of a row.
template <class Work> inline void for_places(int64_t n, const Work& work) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) work(i, LANES);
    if (i < n) work(i, n - i);
}

}  // namespace
