// The parts of a BERT block on rows of pieces without padding: products with what follows them,
// attention within each row, and the norm of a sum. A row's numbers do not depend on other rows.
//
// n positions, K inputs, M outputs. Outputs stand in panels of WIDTH, inputs of int8 in groups:
//   float32: (M / WIDTH, K, WIDTH)      int8: (M / WIDTH, K / 4, WIDTH, 4)
// In int8 a group of GROUP inputs has a scale of its own, both for each output's weights, which are
// within ±64, and for each row's inputs, which are rounded to 0 … 127: then four products fit into
// 16 bits, and machines without instructions for bytes still add most of them up in 16 bits.
#include <algorithm>
#include <cmath>
#include <new>
#include <thread>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "vectors.h"

namespace {

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int ROWS = 6, COLUMNS = 4;  // 24 sums in 32 registers
#else
constexpr int ROWS = 6, COLUMNS = 2;  // 12 in 16
#endif
constexpr int WIDTH = COLUMNS * LANES, GROUP = 64;
constexpr int CHUNK = 96, BLOCK = 768;  // rows, and inputs, whose part of a product stays in the cache

enum Activation { NONE, GELU, GELU_NEW, RELU };

extern "C" struct Product {
    const void* panels;
    const float* scales;   // int8: (M / WIDTH, K / GROUP, WIDTH)
    const int32_t* totals; // int8: the same, the weights of a group added up, negative
    const float* bias;     // (M rounded up to WIDTH,)
    int64_t inputs, outputs, activation;
};

template <int R, class Work> inline void with_rows(int64_t first, int64_t count, Work&& work) {
    if (count == R) work.template operator()<R>(first);
    else if constexpr (R > 1) with_rows<R - 1>(first, count, work);
}
template <class Work> inline void in_blocks(int64_t begin, int64_t end, Work&& work) {
    for (int64_t first = begin; first < end; first += ROWS)
        with_rows<ROWS>(first, std::min<int64_t>(ROWS, end - first), work);
}

template <int R> using Tile = Vec[R][COLUMNS];

template <int R> inline void clear(Tile<R>& sum) {
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < COLUMNS; ++c) sum[r][c] = Vec{};
}

// Adds what `count` inputs of R rows bring through one panel.
template <int R>
inline void add_panel(const float* a, int64_t stride, const float* panel, int64_t count,
                      Tile<R>& to) {
    Tile<R> sum;
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < COLUMNS; ++c) sum[r][c] = to[r][c];
    for (int64_t k = 0; k < count; ++k, panel += WIDTH) {
        Vec w[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) w[c] = load<Vec>(panel + c * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            const Vec x = all(a[r * stride + k]);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) sum[r][c] += w[c] * x;
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < COLUMNS; ++c) to[r][c] = sum[r][c];
}

// x times the normal distribution's share below x, which is 1/2 + x P(x²) / Q(x²): a fit over
// |x| <= 5.5 with an error under 2.2e-7 max(1, |x|); beyond, the share is 0 or 1 up to rounding.
inline Vec gelu(Vec x) {
    const float end = 5.5f;
    const Vec z = clipped(x, end), q = z * z;
    Vec p = q * 2.221760350e-8f + 6.529826642e-6f;
    p = p * q + 1.827950371e-4f;
    p = p * q + 4.761238281e-3f;
    p = p * q + 3.513662977e-2f;
    p = p * q + 3.989419868e-1f;
    Vec d = q * 1.195377863e-6f + 7.858732323e-5f;
    d = d * q + 1.962085655e-3f;
    d = d * q + 2.939535202e-2f;
    d = d * q + 2.547380689e-1f;
    d = d * q + 1.0f;
    return x < all(-end) ? Vec{} : x * (0.5f + z * p / d);
}
inline Vec gelu_new(Vec x) {
    return x / (1.0f + exponential(x * (x * x * -0.0713548163f - 1.5957691216f)));
}
inline Vec relu(Vec x) { return x < Vec{} ? Vec{} : x; }

template <class Function>
inline void each(float* y, int64_t rows, int64_t columns, int64_t stride, Function&& function) {
    for (int64_t r = 0; r < rows; ++r, y += stride) {
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) store(y + i, function(load<Vec>(y + i)));
        if (i < columns) give(y + i, function(take(y + i, columns - i)), columns - i);
    }
}
void activate(float* y, int64_t rows, int64_t columns, int64_t stride, int64_t activation) {
    switch (activation) {
    case GELU: return each(y, rows, columns, stride, gelu);
    case GELU_NEW: return each(y, rows, columns, stride, gelu_new);
    case RELU: return each(y, rows, columns, stride, relu);
    }
}

// Rows from `row` on are summed up in these panels: what follows, while they are in the cache.
inline void finish(const Product& w, float* y, int64_t row, int64_t end, int64_t a, int64_t b) {
    const int64_t columns = std::min(b * WIDTH, w.outputs) - a * WIDTH;
    activate(y + row * w.outputs + a * WIDTH, end - row, columns, w.outputs, w.activation);
}

// float32 -----------------------------------------------------------------------------------------

void multiply(const Product& w, const float* x, int64_t n, int64_t first_panel, int64_t last_panel,
              float* y) {
    const auto* panels = static_cast<const float*>(w.panels);
    for (int64_t chunk = 0; chunk < n; chunk += CHUNK) {
        const int64_t end = std::min(n, chunk + CHUNK);
        for (int64_t p = first_panel; p < last_panel; ++p)
            for (int64_t k = 0; k < w.inputs; k += BLOCK) {
                const int64_t count = std::min<int64_t>(BLOCK, w.inputs - k), column = p * WIDTH;
                const float* panel = panels + (p * w.inputs + k) * WIDTH;
                in_blocks(chunk, end, [&]<int R>(int64_t first) {
                    Tile<R> sum;
                    for (int r = 0; r < R; ++r)
                        for (int c = 0; c < COLUMNS; ++c) {
                            const int64_t at = column + c * LANES;
                            sum[r][c] = k ? take(y + (first + r) * w.outputs + at, w.outputs - at)
                                          : load<Vec>(w.bias + at);
                        }
                    add_panel<R>(x + first * w.inputs + k, w.inputs, panel, count, sum);
                    for (int r = 0; r < R; ++r)
                        for (int c = 0; c < COLUMNS; ++c) {
                            const int64_t at = column + c * LANES;
                            give(y + (first + r) * w.outputs + at, sum[r][c], w.outputs - at);
                        }
                });
            }
        finish(w, y, chunk, end, first_panel, last_panel);
    }
}

// int8 --------------------------------------------------------------------------------------------

// Rows in bytes: x is (byte - zero) * unit.
struct Bytes {
    int64_t inputs, groups;        // rounded up to whole groups
    std::vector<uint8_t> numbers;  // (n, inputs)
    std::vector<float> units;      // (n, groups)
    std::vector<int32_t> zeros;    // (n, groups)

    Bytes(int64_t n, int64_t given)
        : inputs((given + GROUP - 1) / GROUP * GROUP), groups(inputs / GROUP), numbers(n * inputs),
          units(n * groups), zeros(n * groups) {}

    void round(const float* x, int64_t given, int64_t n) {
        for (int64_t r = 0; r < n; ++r)
            for (int64_t g = 0; g < groups; ++g) {
                const float* from = x + r * given + g * GROUP;
                float part[GROUP] = {};
                if (const int64_t room = given - g * GROUP; room < GROUP) {
                    std::copy_n(from, room, part);
                    from = part;
                }
                round_group(from, r, g);
            }
    }

  private:
    void round_group(const float* x, int64_t row, int64_t group) {
        Vec least = Vec{}, most = Vec{};
        for (int i = 0; i < GROUP; i += LANES) {
            const Vec v = load<Vec>(x + i);
            least = v < least ? v : least, most = v > most ? v : most;
        }
        float low = 0.0f, high = 0.0f;
        for (int l = 0; l < LANES; ++l) low = std::min(low, least[l]), high = std::max(high, most[l]);
        const float unit = high > low ? (high - low) / 127.0f : 1.0f, inverse = 1.0f / unit;
        const int32_t zero = (int32_t)std::nearbyint(-low * inverse);
        units[row * groups + group] = unit;
        zeros[row * groups + group] = zero;
        uint8_t* to = &numbers[row * inputs + group * GROUP];
        // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
        const auto rounded = [&](int i) {
            const Vec v = load<Vec>(x + i) * inverse + 12582912.0f;
            return (Int)v - (Int)all(12582912.0f) + zero;
        };
#if defined(__AVX2__) && !defined(__AVX512F__)
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        for (int i = 0; i < GROUP; i += 4 * LANES) {
            const auto pair = [&](int j) {
                return _mm256_packs_epi32((__m256i)rounded(j), (__m256i)rounded(j + LANES));
            };
            __m256i bytes = _mm256_packus_epi16(pair(i), pair(i + 2 * LANES));
            bytes = _mm256_min_epu8(bytes, _mm256_set1_epi8(127));
            store(to + i, _mm256_permutevar8x32_epi32(bytes, order));
        }
#else
        for (int i = 0; i < GROUP; i += LANES) {
            const Int v = rounded(i);
            for (int l = 0; l < LANES; ++l) to[i + l] = (uint8_t)std::min(127, std::max(0, v[l]));
        }
#endif
    }
};

// What a row's zero adds to the sums of a group, taken off beforehand.
inline Int taken_off(int32_t zero, Int totals) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    return (Int)_mm256_madd_epi16((__m256i)totals, _mm256_set1_epi32(zero));  // both in 16 bits
#else
    return totals * zero;
#endif
}

inline Int four(const uint8_t* at) { return all(load<int32_t>(at)); }

// Adds the products of one group of inputs.
template <int R>
inline void add_group(const uint8_t* a, int64_t stride, const int8_t* w, Int (&sum)[R][COLUMNS]) {
    constexpr int PART = LANES * 4, STEP = WIDTH * 4;  // bytes of four inputs
#if defined(__AVX2__) && !defined(__AVX512F__)
    const __m256i ones = _mm256_set1_epi16(1);
    for (int k = 0; k < GROUP; k += 8, w += 2 * STEP) {
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            const __m256i x = (__m256i)four(a + r * stride + k), y = (__m256i)four(a + r * stride + k + 4);
#pragma GCC unroll 2
            for (int c = 0; c < COLUMNS; ++c) {
                const __m256i two = _mm256_add_epi16(
                    _mm256_maddubs_epi16(x, load<__m256i>(w + c * PART)),
                    _mm256_maddubs_epi16(y, load<__m256i>(w + STEP + c * PART)));
                sum[r][c] += (Int)_mm256_madd_epi16(two, ones);
            }
        }
    }
#else
    for (int k = 0; k < GROUP; k += 4, w += STEP) {
        Int weights[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) weights[c] = load<Int>(w + c * PART);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            const Int x = four(a + r * stride + k);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) {
#if defined(__AVX512VNNI__)
                asm("vpdpbusd %2, %1, %0" : "+v"(sum[r][c]) : "v"(x), "v"(weights[c]));
#else
                for (int j = 0; j < 4; ++j)
                    sum[r][c] += ((x >> (8 * j)) & 255) * ((weights[c] << (24 - 8 * j)) >> 24);
#endif
            }
        }
    }
#endif
}

void multiply(const Product& w, const Bytes& x, int64_t n, int64_t first_panel, int64_t last_panel,
              float* y) {
    const auto* panels = static_cast<const int8_t*>(w.panels);
    for (int64_t chunk = 0; chunk < n; chunk += CHUNK) {
        const int64_t end = std::min(n, chunk + CHUNK);
        for (int64_t p = first_panel; p < last_panel; ++p)
            in_blocks(chunk, end, [&]<int R>(int64_t first) {
                Tile<R> total;
                clear<R>(total);
                for (int64_t g = 0; g < x.groups; ++g) {
                    const int64_t at = (p * x.groups + g) * WIDTH;
                    const int64_t row = first * x.groups + g;
                    Int sum[R][COLUMNS];
                    for (int r = 0; r < R; ++r)
                        for (int c = 0; c < COLUMNS; ++c)
                            sum[r][c] = taken_off(x.zeros[row + r * x.groups],
                                                  load<Int>(w.totals + at + c * LANES));
                    add_group<R>(&x.numbers[first * x.inputs + g * GROUP], x.inputs,
                                 panels + at * GROUP, sum);
                    for (int r = 0; r < R; ++r)
                        for (int c = 0; c < COLUMNS; ++c)
                            total[r][c] += __builtin_convertvector(sum[r][c], Vec) *
                                           (load<Vec>(w.scales + at + c * LANES) *
                                            x.units[row + r * x.groups]);
                }
                for (int r = 0; r < R; ++r)
                    for (int c = 0; c < COLUMNS; ++c) {
                        const int64_t at = p * WIDTH + c * LANES;
                        give(y + (first + r) * w.outputs + at,
                            total[r][c] + load<Vec>(w.bias + at), w.outputs - at);
                    }
            });
        finish(w, y, chunk, end, first_panel, last_panel);
    }
}

// `work` on about equal parts of the panels, side by side.
template <class Work> void in_threads(int64_t panels, int64_t threads, Work&& work) {
    threads = std::max<int64_t>(1, std::min(threads, panels));
    std::vector<std::thread> others;
    for (int64_t t = 1; t < threads; ++t)
        others.emplace_back(work, panels * t / threads, panels * (t + 1) / threads);
    work(0, panels / threads);
    for (auto& other : others) other.join();
}

// Attention ---------------------------------------------------------------------------------------

int64_t rounded_up(int64_t n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }

// One head of one row of `t` positions: keys and values as panels, then some positions at a time.
struct Head {
    int64_t t, size, stride;    // positions, the head's dim, between positions of q, k and v
    std::vector<float> keys;    // (t / WIDTH, size, WIDTH)
    std::vector<float> values;  // (size / WIDTH, t, WIDTH)
    std::vector<float> scores;  // (ROWS, t rounded up)

    Head(int64_t longest, int64_t size, int64_t stride)
        : t(0), size(size), stride(stride), keys(rounded_up(longest) * size),
          values(rounded_up(size) * longest), scores(ROWS * rounded_up(longest)) {}

    void read(const float* k, const float* v, int64_t length) {
        t = length;
        for (int64_t first = 0; first < t; first += WIDTH)
            for (int64_t j = 0; j < WIDTH; ++j)
                for (int64_t d = 0; d < size; ++d)
                    keys[first * size + d * WIDTH + j] = first + j < t ? k[(first + j) * stride + d] : 0;
        for (int64_t d = 0; d < size; d += WIDTH)
            for (int64_t i = 0; i < t; ++i)
                for (int c = 0; c < WIDTH; c += LANES)
                    store(&values[d * t + i * WIDTH + c], take(v + i * stride + d + c, size - d - c));
    }

    template <int R> void see(const float* q, float* out, int64_t out_stride) {
        const int64_t width = rounded_up(t);
        float total[R];
        for (int64_t first = 0; first < t; first += WIDTH) {
            Tile<R> sum;
            clear<R>(sum);
            add_panel<R>(q, stride, &keys[first * size], size, sum);
            for (int r = 0; r < R; ++r)
                for (int c = 0; c < COLUMNS; ++c)
                    store(&scores[r * width + first + c * LANES], sum[r][c]);
        }
        for (int r = 0; r < R; ++r) total[r] = weigh(&scores[r * width], width);
        for (int64_t d = 0; d < size; d += WIDTH) {
            Tile<R> sum;
            clear<R>(sum);
            add_panel<R>(scores.data(), width, &values[d * t], t, sum);
            for (int r = 0; r < R; ++r)
                for (int c = 0; c < COLUMNS; ++c)
                    give(out + r * out_stride + d + c * LANES, sum[r][c] * (1.0f / total[r]),
                        size - d - c * LANES);
        }
    }

  private:
    // Scores become weights, whose sum is returned.
    float weigh(float* row, int64_t width) const {
        std::fill(row + t, row + width, -INFINITY);
        Vec most = all(-INFINITY), total = Vec{};
        for (int64_t i = 0; i < width; i += LANES) {
            const Vec v = load<Vec>(row + i);
            most = v > most ? v : most;
        }
        float largest = most[0];
        for (int l = 1; l < LANES; ++l) largest = std::max(largest, most[l]);
        const float scale = 1.0f / std::sqrt((float)size);
        for (int64_t i = 0; i < width; i += LANES) {
            const Vec v = exponential((load<Vec>(row + i) - largest) * scale);
            store(row + i, v);
            if (i + LANES <= t) total += v;
        }
        float sum = 0.0f;
        for (int l = 0; l < LANES; ++l) sum += total[l];
        for (int64_t i = t / LANES * LANES; i < t; ++i) sum += row[i];
        return sum;
    }
};

}  // namespace

extern "C" {
int64_t elmore_product_width() { return WIDTH; }
int64_t elmore_product_group() { return GROUP; }

// y (n, M) = activation(x (n, K) W + bias); with `bytes` in int8.
int elmore_product(const Product* w, int bytes, const float* x, int64_t n, int64_t threads,
                   float* y) try {
    const int64_t panels = rounded_up(w->outputs) / WIDTH;
    if (!bytes) {
        in_threads(panels, threads, [=](int64_t a, int64_t b) { multiply(*w, x, n, a, b, y); });
        return 0;
    }
    Bytes rows(n, w->inputs);
    rows.round(x, w->inputs, n);
    in_threads(panels, threads, [&](int64_t a, int64_t b) { multiply(*w, rows, n, a, b, y); });
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}

// qkv (n, 3, heads, size) of rows of these lengths, one after another -> out (n, heads, size).
int elmore_attention(const float* qkv, const int64_t* lengths, int64_t n_rows, int64_t heads,
                     int64_t size, float* out) try {
    const int64_t dim = heads * size;
    Head head(n_rows ? *std::max_element(lengths, lengths + n_rows) : 0, size, 3 * dim);
    for (int64_t row = 0; row < n_rows; qkv += 3 * dim * lengths[row], out += dim * lengths[row], ++row)
        for (int64_t h = 0; h < heads; ++h) {
            const float* q = qkv + h * size;
            head.read(q + dim, q + 2 * dim, lengths[row]);
            in_blocks(0, lengths[row], [&]<int R>(int64_t first) {
                head.see<R>(q + 3 * dim * first, out + dim * first + h * size, dim);
            });
        }
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}

// y (n, D) = LN(x + y).
void elmore_add_norm(const float* x, int64_t n, int64_t dim, const float* gain, const float* bias,
                     float eps, float* y) {
    const int64_t whole = dim / LANES * LANES;
    for (int64_t r = 0; r < n; ++r, x += dim, y += dim) {
        Vec sums = Vec{}, squares = Vec{};
        float mean = 0.0f, variance = 0.0f;
        for (int64_t i = 0; i < whole; i += LANES) {
            const Vec v = load<Vec>(x + i) + load<Vec>(y + i);
            store(y + i, v);
            sums += v;
        }
        for (int64_t i = whole; i < dim; ++i) mean += y[i] += x[i];
        for (int l = 0; l < LANES; ++l) mean += sums[l];
        mean /= dim;
        for (int64_t i = 0; i < whole; i += LANES) {
            const Vec v = load<Vec>(y + i) - mean;
            squares += v * v;
        }
        for (int64_t i = whole; i < dim; ++i) variance += (y[i] - mean) * (y[i] - mean);
        for (int l = 0; l < LANES; ++l) variance += squares[l];
        const float scale = 1.0f / std::sqrt(variance / dim + eps);
        for (int64_t i = 0; i < whole; i += LANES)
            store(y + i, (load<Vec>(y + i) - mean) * scale * load<Vec>(gain + i) + load<Vec>(bias + i));
        for (int64_t i = whole; i < dim; ++i) y[i] = (y[i] - mean) * scale * gain[i] + bias[i];
    }
}
}
