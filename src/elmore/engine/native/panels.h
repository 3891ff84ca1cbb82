// Products of rows with weights that stand in panels, LANES x 4 outputs at a time: R rows at once
// keep all of their sums in registers. A `Kind` says how a weight and an input are multiplied.
#pragma once
#include <algorithm>

#include "vectors.h"

#if defined(__AVX512F__)
constexpr int ROWS = 6;  // 24 sums, 4 weights and an input in 32 registers
#elif defined(__aarch64__)
constexpr int ROWS = 6;
#else
constexpr int ROWS = 3;
#endif
constexpr int GATES = 4, WIDTH = GATES * LANES;

namespace {

// Rows in blocks of nearly equal size, none over ROWS; `work` gets the first row and the count.
template <int R, class Work> inline void with_rows(int64_t first, int64_t count, Work&& work) {
    if (count == R) work.template operator()<R>(first);
    else if constexpr (R > 1) with_rows<R - 1>(first, count, work);
}
inline int64_t blocks_of(int64_t n) { return (n + ROWS - 1) / ROWS; }
template <class Work> inline void in_blocks(int64_t n, Work&& work) {
    int64_t blocks = blocks_of(n), first = 0;
    for (int64_t b = 0; b < blocks; ++b) {
        int64_t count = n / blocks + (b < n % blocks);
        with_rows<ROWS>(first, count, work);
        first += count;
    }
}

// The weights that come next, fetched while these are multiplied: each block of rows brings its part.
struct Ahead {
    const char* next;
    int64_t step;  // bytes an input, or a group of them

    template <class Weight> Ahead(const Weight* panel, int64_t inputs, int64_t n, int64_t first) {
        const int64_t size = inputs * WIDTH * sizeof(Weight);
        next = reinterpret_cast<const char*>(panel) + size * first / n;
        step = GATES * sizeof(Vec) / blocks_of(n);
    }
    void fetch() {
        __builtin_prefetch(next, 0, 2);
        if (step > 64) __builtin_prefetch(next + 64, 0, 2);
        if (step > 128) __builtin_prefetch(next + 128, 0, 2), __builtin_prefetch(next + 192, 0, 2);
        next += step;
    }
};

// Adds to the sums of R rows what `count` inputs bring through one panel. Every sum is a variable
// with a name: compilers leave an array of them on the stack.
template <class Kind, int R>
inline void add_panel(const typename Kind::Input* a, int64_t stride,
                      const typename Kind::Weight* panel, int64_t count, Ahead ahead,
                      typename Kind::Sum (&sums)[R][GATES]) {
    using Sum = typename Kind::Sum;
#define FOR_ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define TAKE(r) \
    Sum s##r##_0{}, s##r##_1{}, s##r##_2{}, s##r##_3{}; \
    if constexpr (r < R) \
        s##r##_0 = sums[r][0], s##r##_1 = sums[r][1], s##r##_2 = sums[r][2], s##r##_3 = sums[r][3];
#define ADD(r) \
    if constexpr (r < R) { \
        const Sum x = Kind::input(a + r * stride + k); \
        Kind::add(s##r##_0, w0, x), Kind::add(s##r##_1, w1, x); \
        Kind::add(s##r##_2, w2, x), Kind::add(s##r##_3, w3, x); \
    }
#define GIVE(r) \
    if constexpr (r < R) \
        sums[r][0] = s##r##_0, sums[r][1] = s##r##_1, sums[r][2] = s##r##_2, sums[r][3] = s##r##_3;
    static_assert(R <= 6 && GATES == 4);
    constexpr int PART = LANES * Kind::GROUP;
    FOR_ROWS(TAKE)
    for (int64_t k = 0; k < count; k += Kind::GROUP, panel += GATES * PART) {
        const Sum w0 = load<Sum>(panel), w1 = load<Sum>(panel + PART);
        const Sum w2 = load<Sum>(panel + 2 * PART), w3 = load<Sum>(panel + 3 * PART);
        FOR_ROWS(ADD)
        ahead.fetch();
    }
    FOR_ROWS(GIVE)
#undef FOR_ROWS
#undef TAKE
#undef ADD
#undef GIVE
}

}  // namespace
