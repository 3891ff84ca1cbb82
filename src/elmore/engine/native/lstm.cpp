// One LSTM layer, one direction, all steps: gate sums, squashing and cell in one pass while the
// sums are in registers, then the projection. float32, or int8 weights with activations rounded as
// they come. Compiled once per instruction set; plain C interface, no library but the C++ one.
//
// n rows still reading, D dim, C cells (a multiple of LANES), K inputs of a gate: D, or 2D with x.
// A tile is LANES cells; its panel holds for each input the four gates of the tile side by side:
//   float32: (C / LANES, K, 4, LANES)      int8: (C / LANES, K / 4, 4, LANES, 4), each weight + 128
// The projection has the same form, with 4 LANES outputs in the place of four gates.
#include <algorithm>
#include <cmath>
#include <new>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "panels.h"

constexpr int BLOCK = 512;  // inputs of the projection at a time: a panel's part stays in the cache

typedef int8_t Bytes __attribute__((vector_size(LANES)));

extern "C" struct Layer {
    const void* w_gates;
    const void* w_project;       // null: no projection, C == D
    const float* gate_scales;    // int8: (C / LANES, 4, LANES), what a weight's unit is worth
    const float* project_scales; // int8: (D rounded up to WIDTH,)
    const float* bias;           // (C / LANES, 4, LANES)
    int64_t dim, dim_padded, cells, inputs;  // as packed: D, and K for x and then h
    float cell_clip, proj_clip;
};

namespace {

// Gate sums -> the new cell, in place, and what it shows. Written over common denominators:
// c / (1 + e^-f) + tanh(g) / (1 + e^-i), then tanh(c) / (1 + e^-o), with one division each.
inline Vec squash(const Vec (&z)[GATES], float* cell, float clip) {
    Vec i = 1.0f + exponential(-z[0]), f = 1.0f + exponential(-z[1]);
    Vec g = exponential(-2.0f * z[2]), ig = i * (1.0f + g);
    Vec c = (load<Vec>(cell) * ig + (1.0f - g) * f) / (f * ig);
    c = clipped(c, clip);
    store(cell, c);
    Vec o = 1.0f + exponential(-z[3]), t = exponential(-2.0f * c);
    return (1.0f - t) / (o * (1.0f + t));
}

// The two kinds of weights ------------------------------------------------------------------------

struct Float {
    using Weight = float;
    using Input = float;
    using Sum = Vec;
    static constexpr int GROUP = 1;  // inputs that stand together in a panel

    static inline Vec input(const float* at) { return all(*at); }
    static inline void add(Vec& sum, Vec weights, Vec inputs) { sum += weights * inputs; }
};

struct Byte {
    using Weight = uint8_t;
    using Input = int8_t;
    using Sum = Int;
    static constexpr int GROUP = 4;

    static inline Int input(const int8_t* at) { return all(load<int32_t>(at)); }

    // Four unsigned weights a lane times four signed inputs, the same for every lane.
    static inline void add(Int& sum, Int weights, Int inputs) {
#if defined(__AVX512VNNI__)
        // Not the intrinsic: GCC moves its sums from register to register.
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(inputs));
#elif defined(__AVX2__) && !defined(__AVX512F__)
        __m256i w = (__m256i)weights, x = (__m256i)inputs, low = _mm256_set1_epi16(255);
        __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
        sum += (Int)_mm256_madd_epi16(_mm256_and_si256(w, low), even);
        sum += (Int)_mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8));
#else
        for (int j = 0; j < 4; ++j)
            sum += ((weights >> (8 * j)) & 255) * ((inputs << (24 - 8 * j)) >> 24);
#endif
    }
};

// Where the numbers of row r go: the rows of a larger table, or one after the other.
struct Target {
    float* out;            // (…, width)
    const int64_t* rows;   // (n,), or null
    int64_t width;

    float* at(int64_t r, int64_t column) const {
        return out + (rows ? rows[r] : r) * width + column;
    }
};

// to (n, width) = start + a (n, inputs) W, where W is packed by output: a panel of `size` weights
// for each WIDTH of them. Each row's sums run over the inputs in the same order whatever n is.
void multiply(const float* panels, int64_t size, const float* a, int64_t inputs, int64_t n,
              const float* start, Target to) {
    for (int64_t tile = 0; tile < to.width; tile += WIDTH, panels += size) {
        for (int64_t k = 0; k < inputs; k += BLOCK) {
            const int64_t count = std::min<int64_t>(BLOCK, inputs - k);
            const float* panel = panels + k * WIDTH;
            const float* next = k + count < inputs ? panel + count * WIDTH : panels + size;
            in_blocks(n, [&]<int R>(int64_t first) {
                Vec sum[R][GATES];
                for (int r = 0; r < R; ++r)
                    for (int g = 0; g < GATES; ++g)
                        sum[r][g] = k       ? load<Vec>(to.at(first + r, tile + g * LANES))
                                    : start ? load<Vec>(start + tile + g * LANES)
                                            : Vec{};
                add_panel<Float, R>(a + first * inputs + k, inputs, panel, count,
                                    Ahead(next, count, n, first), sum);
                for (int r = 0; r < R; ++r)
                    for (int g = 0; g < GATES; ++g)
                        store(to.at(first + r, tile + g * LANES), sum[r][g]);
            });
        }
    }
}

// A row in bytes: what a unit is worth, and what the weights' + 128 will have added to each sum.
struct Rounded {
    float unit;
    int32_t excess;
};

Rounded round_row(const float* row, int64_t n, int8_t* to) {
    Vec most = Vec{};
    for (int64_t i = 0; i < n; i += LANES) {
        Vec v = load<Vec>(row + i), size = v < Vec{} ? -v : v;
        most = size > most ? size : most;
    }
    float largest = 0.0f;
    for (int l = 0; l < LANES; ++l) largest = std::max(largest, (float)most[l]);
    const float unit = largest > 0.0f ? largest / 127.0f : 1.0f, inverse = 1.0f / unit;
    Int total = Int{};
    for (int64_t i = 0; i < n; i += LANES) {
        // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
        Int value = (Int)(load<Vec>(row + i) * inverse + 12582912.0f) - (Int)all(12582912.0f);
        store(to + i, __builtin_convertvector(value, Bytes));
        total += value;
    }
    int32_t sum = 0;
    for (int l = 0; l < LANES; ++l) sum += total[l];
    return {unit, 128 * sum};
}

// Rows in bytes, to be multiplied with weights in bytes.
struct ByteRows {
    std::vector<int8_t> numbers;  // (n, inputs)
    std::vector<Rounded> units;   // (n,)

    ByteRows(int64_t n, int64_t inputs) : numbers(n * inputs), units(n) {}

    void round(const float* rows, int64_t inputs, int64_t n) {
        for (int64_t r = 0; r < n; ++r)
            units[r] = round_row(rows + r * inputs, inputs, &numbers[r * inputs]);
    }

    // What R rows from the first one on bring through one panel, as float32.
    template <int R>
    void through(const uint8_t* panel, const float* scales, int64_t inputs, int64_t first,
                 Ahead ahead, Vec (&to)[R][GATES]) const {
        Int sum[R][GATES];
        for (int r = 0; r < R; ++r)
            for (int g = 0; g < GATES; ++g) sum[r][g] = all(-units[first + r].excess);
        add_panel<Byte, R>(&numbers[first * inputs], inputs, panel, inputs, ahead, sum);
        for (int r = 0; r < R; ++r)
            for (int g = 0; g < GATES; ++g)
                to[r][g] = __builtin_convertvector(sum[r][g], Vec) *
                           (load<Vec>(scales + g * LANES) * units[first + r].unit);
    }
};

void multiply(const uint8_t* panels, int64_t size, const float* scales, const ByteRows& a,
              int64_t inputs, int64_t n, const float* start, Target to) {
    for (int64_t tile = 0; tile < to.width; tile += WIDTH, panels += size)
        in_blocks(n, [&]<int R>(int64_t first) {
            Vec sum[R][GATES];
            a.through<R>(panels, scales + tile, inputs, first,
                         Ahead(panels + size, inputs, n, first), sum);
            for (int r = 0; r < R; ++r)
                for (int g = 0; g < GATES; ++g) {
                    const int64_t column = tile + g * LANES;
                    const Vec before = start ? load<Vec>(start + column) : Vec{};
                    store(to.at(first + r, column), before + sum[r][g]);
                }
        });
}

// One direction of one layer ----------------------------------------------------------------------

template <class Kind> class Reader {
    using Weight = typename Kind::Weight;
    static constexpr bool bytes = Kind::GROUP == 4;
    const Layer& layer;
    const int64_t skipped;        // inputs that are packed but not read: x, if it is in the table
    const int64_t inputs;         // K
    std::vector<float> in;        // (B, K): x, if it is read, then h
    std::vector<float> hidden;    // (B, C)
    std::vector<float> out;       // (B, D rounded up to WIDTH)
    ByteRows rounded;             // (B, max(K, C))

    int64_t h_of(int64_t row) const { return (row + 1) * inputs - layer.dim_padded; }
    int64_t out_width() const { return (layer.dim + WIDTH - 1) / WIDTH * WIDTH; }

    void gates(const float* table, const int64_t* rows, float* c, int64_t n) {
        const int64_t cells = layer.cells;
        const auto* w = static_cast<const Weight*>(layer.w_gates) + skipped * WIDTH;
        if constexpr (bytes) rounded.round(in.data(), inputs, n);
        for (int64_t tile = 0; tile < cells / LANES; ++tile, w += layer.inputs * WIDTH) {
            in_blocks(n, [&]<int R>(int64_t first) {
                const float* from[R];
                for (int r = 0; r < R; ++r) {
                    from[r] = table + (rows ? rows[first + r] * GATES * cells : 0) + tile * WIDTH;
                    for (int g = 0; g < GATES; ++g)
                        __builtin_prefetch(from[r] + WIDTH + g * LANES);  // for the next tile
                }
                const Ahead ahead(w + layer.inputs * WIDTH, inputs, n, first);
                Vec z[R][GATES];
                if constexpr (bytes) {
                    const float* scales = layer.gate_scales + tile * WIDTH;
                    rounded.through<R>(w, scales, inputs, first, ahead, z);
                    for (int r = 0; r < R; ++r)
                        for (int g = 0; g < GATES; ++g) z[r][g] += load<Vec>(from[r] + g * LANES);
                } else {
                    for (int r = 0; r < R; ++r)
                        for (int g = 0; g < GATES; ++g) z[r][g] = load<Vec>(from[r] + g * LANES);
                    add_panel<Float, R>(&in[first * inputs], inputs, w, inputs, ahead, z);
                }
                for (int r = 0; r < R; ++r) {
                    int64_t at = (first + r) * cells + tile * LANES;
                    store(&hidden[at], squash(z[r], c + at, layer.cell_clip));
                }
            });
        }
    }

    void project(int64_t n) {
        const int64_t cells = layer.cells, size = cells * WIDTH;
        const auto* panels = static_cast<const Weight*>(layer.w_project);
        const Target to{out.data(), nullptr, out_width()};
        if constexpr (bytes) {
            rounded.round(hidden.data(), cells, n);
            multiply(panels, size, layer.project_scales, rounded, cells, n, nullptr, to);
        } else {
            multiply(panels, size, hidden.data(), cells, n, nullptr, to);
        }
    }

    // What the rows show becomes their h and goes out.
    void finish(float* y, int64_t n) {
        const bool projects = layer.w_project != nullptr;
        const int64_t width = projects ? out_width() : layer.cells;
        const float limit = projects ? layer.proj_clip : INFINITY;
        for (int64_t r = 0; r < n; ++r) {
            const float* from = (projects ? out : hidden).data() + r * width;
            float *h = &in[h_of(r)], *to = y + r * layer.dim;
            for (int64_t d = 0; d < layer.dim; ++d) {
                float v = from[d] > limit ? limit : from[d];
                h[d] = to[d] = v < -limit ? -limit : v;
            }
        }
    }

  public:
    Reader(const Layer& layer, bool reads_x, int64_t n_rows)
        : layer(layer), skipped(reads_x ? 0 : layer.inputs - layer.dim_padded),
          inputs(layer.inputs - skipped), in(n_rows * inputs),
          hidden(n_rows * layer.cells), out(layer.w_project ? n_rows * out_width() : 0),
          rounded(bytes ? n_rows : 0, std::max(inputs, layer.cells)) {}

    // Gate sums begin from row `rows[i]` of the table at place i, or from the bias and x.
    void read(const float* table, const int64_t* rows, const float* x, const int32_t* active,
              int64_t n_steps, float* h, float* c, float* y) {
        const int64_t dim = layer.dim, n_rows = n_steps ? active[0] : 0;
        for (int64_t r = 0; r < n_rows; ++r) std::copy_n(h + r * dim, dim, &in[h_of(r)]);
        for (int64_t t = 0; t < n_steps; ++t) {
            const int64_t n = active[t];
            if (x)
                for (int64_t r = 0; r < n; ++r, x += dim) std::copy_n(x, dim, &in[r * inputs]);
            gates(table, rows, c, n);
            if (layer.w_project) project(n);
            finish(y, n);
            y += n * dim;
            if (rows) rows += n;
        }
        for (int64_t r = 0; r < n_rows; ++r) std::copy_n(&in[h_of(r)], dim, h + r * dim);
    }
};

template <class Kind>
int read_all(const Layer* layer, const float* table, const int64_t* rows, const float* x,
             const int32_t* active, int64_t n_steps, float* h, float* c, float* y) try {
    Reader<Kind> reader(*layer, x != nullptr, n_steps ? active[0] : 0);
    reader.read(x ? layer->bias : table, x ? nullptr : rows, x, active, n_steps, h, c, y);
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}

}  // namespace

extern "C" {
int64_t elmore_lanes() { return LANES; }

// Whether this machine has the instructions this file was compiled for.
int elmore_supported() {
#if defined(__AVX512VNNI__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
#elif defined(__AVX2__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
#else
    return 1;
#endif
}

// Row r goes to row `rows[r]` of `out`, or without `rows` to row r.
void elmore_multiply(const float* panels, int64_t size, const float* a, int64_t inputs, int64_t n,
                     const float* start, int64_t width, const int64_t* rows, float* out) {
    multiply(panels, size, a, inputs, n, start, {out, rows, width});
}

int elmore_multiply_int8(const uint8_t* panels, int64_t size, const float* scales, const float* a,
                         int64_t inputs, int64_t n, const float* start, int64_t width,
                         const int64_t* rows, float* out) try {
    ByteRows rounded(n, inputs);
    rounded.round(a, inputs, n);
    multiply(panels, size, scales, rounded, inputs, n, start, {out, rows, width});
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}

int elmore_read_float32(const Layer* layer, const float* table, const int64_t* rows, const float* x,
                        const int32_t* active, int64_t n_steps, float* h, float* c, float* y) {
    return read_all<Float>(layer, table, rows, x, active, n_steps, h, c, y);
}

int elmore_read_int8(const Layer* layer, const float* table, const int64_t* rows, const float* x,
                     const int32_t* active, int64_t n_steps, float* h, float* c, float* y) {
    return read_all<Byte>(layer, table, rows, x, active, n_steps, h, c, y);
}
}
