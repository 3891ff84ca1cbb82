// Products of bfloat16 numbers with sums in float32; and all steps of an LSTM layer in training by
// them, with cells, gates and clips in float32. Needs a CPU with AVX-512 BF16: ask
// `elmore_bf16_supported` first. Where the CPU has AMX tiles too, they compute the products.
//
// S directions, N rows of all steps, B rows, C cells, D dim, X inputs of x, K = X + D: x, then h.
// A tile is LANES cells; gates stand tile by tile: (C / LANES, 4, LANES). A panel holds for each
// pair of inputs WIDTH outputs side by side, two weights each. X is even, C and D are multiples of
// LANES. Each row's numbers are made from that row alone, in the same order whatever other rows
// there are, so the threads, which share the rows, change no bit.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <new>
#include <thread>
#include <vector>
#if defined(__AVX512F__)
#include <cpuid.h>
#endif

#include "panels.h"
#include "tiles.h"

extern "C" struct TrainedLayer {
    int64_t directions, rows, most, steps;  // S, N, B, T
    int64_t x, dim, cells, threads;         // X, D, C
    const int32_t* active;                  // (T,), rows still reading, never more than before
    const uint16_t* w_gates;                // (S, C / LANES, K / 2, WIDTH, 2)
    const uint16_t* w_project;              // (S, D up to WIDTH, C / 2, WIDTH, 2); null: none
    const uint16_t* w_state_back;           // (S, D up to WIDTH, 4C / 2, WIDTH, 2)
    const uint16_t* w_project_back;         // (S, C up to WIDTH, D / 2, WIDTH, 2); null: none
    const float* bias;                      // (S, C / LANES, 4, LANES)
    float cell_clip, proj_clip;             // infinite for none
    const float *h0, *c0;                   // (S, B, D), (S, B, C)
    uint16_t* in;                           // (S, N, K); h is filled in here
    float *gates, *cell;                    // (S, N, 4C), (S, N, C)
    uint16_t* hidden;                       // (S, N, C); null without a projection
    float* out;                             // (S, N, D)
};

extern "C" struct Gradients {
    const float* d_out;    // (S, N, D)
    float *dh, *dc;        // (S, B, D), (S, B, C): of the last state, then of the first
    uint16_t* d_shown;     // (S, N, D), of what the projection gave; null without one
    uint16_t* d_gates;     // (S, N, 4C)
};

#if defined(__AVX512F__)
namespace {

typedef uint16_t Half __attribute__((vector_size(2 * LANES)));
using Starts = std::vector<int64_t>;  // where each step's rows begin, (T,)

struct Bf16 {
    using Weight = uint16_t;
    using Input = uint16_t;
    using Sum = Vec;
    static constexpr int GROUP = 2;

    static inline Vec input(const uint16_t* at) { return (Vec)all(load<int32_t>(at)); }
    static inline void add(Vec& sum, Vec weights, Vec inputs) {
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(inputs));
    }
};

inline Half rounded(Vec x) {
    Half half;
    asm("vcvtneps2bf16 %1, %0" : "=v"(half) : "v"(x));
    return half;
}

// Whether products are computed by AMX tiles; a call asks once, so that all its rows are alike.
#if defined(__linux__)
std::atomic<bool> by_tiles{tiles_allowed()};
#else
std::atomic<bool> by_tiles{false};
#endif

// a (n, inputs) W, a panel at a time: `finish` gets a row, the number of the panel and its sums.
template <class Finish>
inline void by_panels(const uint16_t* panels, const uint16_t* a, int64_t inputs, int64_t n,
                      int64_t n_panels, const Finish& finish) {
    const uint16_t* panel = panels;
    for (int64_t p = 0; p < n_panels; ++p, panel += inputs * WIDTH)
        in_blocks(n, [&]<int R>(int64_t first) {
            Vec sum[R][GATES] = {};
            add_panel<Bf16, R>(a + first * inputs, inputs, panel, inputs,
                               Ahead(panel + inputs * WIDTH, inputs, n, first), sum);
            for (int r = 0; r < R; ++r) finish(first + r, p, sum[r]);
        });
}

#if defined(__linux__)
// The same by AMX tiles, but for inputs at the end that fill no tile.
template <class Finish>
inline void by_panel_tiles(const uint16_t* panels, const uint16_t* a, int64_t inputs, int64_t n,
                           int64_t n_panels, const Finish& finish) {
    constexpr int BLOCK = 2 * TILE_ROWS;
    alignas(64) float sums[BLOCK * WIDTH];
    const int64_t full = inputs - inputs % TILE_INPUTS;
    const TilesDone done;
    const uint16_t* panel = panels;
    for (int64_t p = 0; p < n_panels; ++p, panel += inputs * WIDTH)
        for (int64_t first = 0; first < n; first += BLOCK) {
            const int rows = std::min<int64_t>(BLOCK, n - first);
            const uint16_t* from = a + first * inputs;
            multiply_tiles(from, inputs, panel, full, rows, sums,
                           first ? nullptr : panel + inputs * WIDTH);
            for (int r = 0; r < rows; ++r, from += inputs) {
                Vec sum[1][GATES];
                for (int g = 0; g < GATES; ++g) sum[0][g] = load<Vec>(sums + r * WIDTH + g * LANES);
                if (full < inputs)
                    add_panel<Bf16, 1>(from + full, inputs, panel + full * WIDTH, inputs - full,
                                       Ahead(panel, 0, 1, 0), sum);
                finish(first + r, p, sum[0]);
            }
        }
}
#endif

template <class Finish>
inline void products(bool tiles, const uint16_t* panels, const uint16_t* a, int64_t inputs,
                     int64_t n, int64_t n_panels, const Finish& finish) {
#if defined(__linux__)
    if (tiles && inputs >= TILE_INPUTS)
        return by_panel_tiles(panels, a, inputs, n, n_panels, finish);
#endif
    by_panels(panels, a, inputs, n, n_panels, finish);
}

// a (n, inputs) W: `finish` gets a row, a column and LANES sums of them.
template <class Finish>
inline void multiply(bool tiles, const uint16_t* panels, const uint16_t* a, int64_t inputs,
                     int64_t n, int64_t width, const Finish& finish) {
    products(tiles, panels, a, inputs, n, (width + WIDTH - 1) / WIDTH,
             [&](int64_t r, int64_t p, const Vec(&sum)[GATES]) {
                 for (int g = 0; g < GATES && p * WIDTH + g * LANES < width; ++g)
                     finish(r, p * WIDTH + g * LANES, sum[g]);
             });
}

// work(0) to work(n - 1): with several threads, each by one of its own.
template <class Work> void at_once(size_t n, int64_t threads, const Work& work) {
    std::vector<std::thread> others;
    size_t begun = threads > 1 ? 1 : n;
    const size_t mine = std::min(begun, n);
    try {
        for (; begun < n; ++begun) others.emplace_back([&, begun] { work(begun); });
    } catch (const std::exception&) {  // no more threads to be had
    }
    for (size_t p = 0; p < mine; ++p) work(p);
    for (size_t p = begun; p < n; ++p) work(p);
    for (auto& other : others) other.join();
}

// Some rows of one direction: `most` of them, from row `skip` on.
class Part {
    const TrainedLayer& l;
    const int64_t d, skip, most, K, wide;
    const bool tiles;

    int64_t active(int64_t t) const {
        return std::clamp<int64_t>(l.active[t] - skip, 0, most);
    }
    // Where this part's first row of step t is among all rows of its direction.
    template <class T> T* at(T* rows, const Starts& starts, int64_t t,
                             int64_t width) const {
        return rows + (d * l.rows + starts[t] + skip) * width;
    }
    template <class T> T* state(T* rows, int64_t width) const {
        return rows + (d * l.most + skip) * width;
    }
    static int64_t padded(int64_t width) { return (width + WIDTH - 1) / WIDTH * WIDTH; }

    void gates(const Starts& starts, int64_t t, int64_t n) const {
        const int64_t C = l.cells;
        const uint16_t *w = l.w_gates + d * 4 * C * K, *a = at(l.in, starts, t, K);
        const float* bias = l.bias + d * 4 * C;
        const float* before = t ? at(l.cell, starts, t - 1, C) : state(l.c0, C);
        float *kept = at(l.gates, starts, t, 4 * C), *cell = at(l.cell, starts, t, C);
        uint16_t* hidden = l.hidden ? at(l.hidden, starts, t, C) : nullptr;
        float* out = l.hidden ? nullptr : at(l.out, starts, t, C);
        products(tiles, w, a, K, n, C / LANES, [&](int64_t r, int64_t p, const Vec(&sum)[GATES]) {
            const float* b = bias + p * WIDTH;
            const int64_t place = r * C + p * LANES;
            const Vec i = sigmoid(sum[0] + load<Vec>(b)), f = sigmoid(sum[1] + load<Vec>(b + LANES));
            const Vec g = tangent(sum[2] + load<Vec>(b + 2 * LANES));
            const Vec o = sigmoid(sum[3] + load<Vec>(b + 3 * LANES));
            const Vec c = clipped(f * load<Vec>(before + place) + i * g, l.cell_clip);
            float* to = kept + 4 * place;
            store(to, i), store(to + LANES, f);
            store(to + 2 * LANES, g), store(to + 3 * LANES, o);
            store(cell + place, c);
            const Vec shown = o * tangent(c);
            if (hidden) store(hidden + place, rounded(shown));
            else store(out + place, shown);
        });
    }

  public:
    Part(const TrainedLayer& l, int64_t direction, int64_t skip, int64_t most, bool tiles)
        : l(l), d(direction), skip(skip), most(most), K(l.x + l.dim), wide(padded(l.dim)),
          tiles(tiles) {}

    void forward(const Starts& starts) const {
        const int64_t D = l.dim, C = l.cells, first = l.steps ? active(0) : 0;
        auto give_h = [&](int64_t t, int64_t r, int64_t column, Vec h) {
            store(at(l.in, starts, t, K) + r * K + l.x + column, rounded(h));
        };
        const float* h0 = state(l.h0, D);
        for (int64_t r = 0; r < first; ++r)
            for (int64_t i = 0; i < D; i += LANES) give_h(0, r, i, load<Vec>(h0 + r * D + i));
        for (int64_t t = 0; t < l.steps; ++t) {
            const int64_t n = active(t), next = t + 1 < l.steps ? active(t + 1) : 0;
            if (n == 0) break;
            gates(starts, t, n);
            float* out = at(l.out, starts, t, D);
            if (l.hidden) {
                const uint16_t* w = l.w_project + d * wide * C;
                multiply(tiles, w, at(l.hidden, starts, t, C), C, n, D,
                         [&](int64_t r, int64_t column, Vec sum) {
                             const Vec h = clipped(sum, l.proj_clip);
                             store(out + r * D + column, h);
                             if (r < next) give_h(t + 1, r, column, h);
                         });
            } else {
                for (int64_t r = 0; r < next; ++r)
                    for (int64_t i = 0; i < D; i += LANES)
                        give_h(t + 1, r, i, load<Vec>(out + r * D + i));
            }
        }
    }

    // d_shown is the gradient of what the cells show, LANES of them.
    void cell_back(const Gradients& to, const Starts& starts, int64_t t, int64_t r,
                   int64_t tile, Vec d_shown) const {
        const int64_t C = l.cells;
        const float* before = (t ? at(l.cell, starts, t - 1, C) : state(l.c0, C)) + r * C + tile;
        const float* from = at(l.gates, starts, t, 4 * C) + r * 4 * C + 4 * tile;
        const Vec i = load<Vec>(from), f = load<Vec>(from + LANES);
        const Vec g = load<Vec>(from + 2 * LANES), o = load<Vec>(from + 3 * LANES);
        const Vec c = load<Vec>(at(l.cell, starts, t, C) + r * C + tile), shows = tangent(c);
        float* dc = state(to.dc, C) + r * C + tile;
        Vec back = load<Vec>(dc) + d_shown * o * (1.0f - shows * shows);
        back = (c < l.cell_clip) & (c > -l.cell_clip) ? back : Vec{};
        uint16_t* dz = at(to.d_gates, starts, t, 4 * C) + r * 4 * C + 4 * tile;
        store(dz, rounded(back * g * i * (1.0f - i)));
        store(dz + LANES, rounded(back * load<Vec>(before) * f * (1.0f - f)));
        store(dz + 2 * LANES, rounded(back * i * (1.0f - g * g)));
        store(dz + 3 * LANES, rounded(d_shown * shows * o * (1.0f - o)));
        store(dc, back * f);
    }

    void backward(const Gradients& to, const Starts& starts) const {
        const int64_t D = l.dim, C = l.cells;
        float* dh = state(to.dh, D);
        for (int64_t t = l.steps - 1; t >= 0; --t) {
            const int64_t n = active(t);
            const float *d_out = at(to.d_out, starts, t, D), *out = at(l.out, starts, t, D);
            auto gradient = [&](int64_t place) { return load<Vec>(d_out + place) + load<Vec>(dh + place); };
            if (l.hidden) {
                uint16_t* d_shown = at(to.d_shown, starts, t, D);
                for (int64_t place = 0; place < n * D; place += LANES) {
                    const Vec h = load<Vec>(out + place);
                    const Vec free = (h < l.proj_clip) & (h > -l.proj_clip) ? gradient(place) : Vec{};
                    store(d_shown + place, rounded(free));
                }
                multiply(tiles, l.w_project_back + d * padded(C) * D, d_shown, D, n, C,
                         [&](int64_t r, int64_t tile, Vec sum) {
                             cell_back(to, starts, t, r, tile, sum);
                         });
            } else {
                for (int64_t r = 0; r < n; ++r)
                    for (int64_t tile = 0; tile < C; tile += LANES)
                        cell_back(to, starts, t, r, tile, gradient(r * C + tile));
            }
            multiply(tiles, l.w_state_back + d * wide * 4 * C, at(to.d_gates, starts, t, 4 * C), 4 * C, n, D,
                     [&](int64_t r, int64_t column, Vec sum) { store(dh + r * D + column, sum); });
        }
    }
};

// The rows of each direction in as many parts as there are threads for it, with about as many
// numbers in each; `work` does one part.
template <class Work> void share(const TrainedLayer& l, const Work& work) {
    Starts starts(l.steps), read(l.most);
    for (int64_t t = 0, start = 0; t < l.steps; start += l.active[t++]) {
        starts[t] = start;
        for (int64_t r = 0; r < l.active[t]; ++r) ++read[r];
    }
    const int64_t each = std::max<int64_t>(1, l.threads / l.directions);
    const bool tiles = by_tiles;
    std::vector<Part> parts;
    for (int64_t d = 0; d < l.directions; ++d)
        for (int64_t p = 0, first = 0, done = 0; p < each && first < l.most; ++p) {
            int64_t end = first;
            while (end < l.most && (p + 1 == each || done < l.rows * (p + 1) / each))
                done += read[end++];
            if (end > first) parts.emplace_back(l, d, first, end - first, tiles);
            first = end;
        }
    at_once(parts.size(), l.threads, [&](size_t p) { work(parts[p], starts); });
}

}  // namespace
#endif

extern "C" {

int elmore_bf16_supported() {
#if defined(__AVX512F__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
#else
    return 0;
#endif
}

// Whether products are computed by AMX tiles from now on, where the CPU has them.
int elmore_bf16_tiles(int wanted) {
#if defined(__AVX512F__) && defined(__linux__)
    by_tiles = wanted && tiles_allowed();
    return by_tiles;
#else
    return wanted & 0;
#endif
}

// out (n, width) = start (width,) + a (n, inputs) W.
int elmore_multiply_bf16(const uint16_t* panels, const uint16_t* a, int64_t inputs, int64_t n,
                         int64_t width, int64_t threads, const float* start, float* out) try {
#if defined(__AVX512F__)
    const int64_t parts = std::clamp<int64_t>(n / ROWS, 1, threads);
    const bool tiles = by_tiles;
    at_once(parts, threads, [=](int64_t p) {
        const int64_t first = n * p / parts, end = n * (p + 1) / parts;
        multiply(tiles, panels, a + first * inputs, inputs, end - first, width,
                 [=](int64_t r, int64_t column, Vec sum) {
                     store(out + (first + r) * width + column, sum + load<Vec>(start + column));
                 });
    });
#endif
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}

int elmore_layer_bf16(const TrainedLayer* layer) try {
#if defined(__AVX512F__)
    share(*layer, [](const Part& part, const Starts& starts) { part.forward(starts); });
#endif
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}

int elmore_layer_bf16_back(const TrainedLayer* layer, const Gradients* to) try {
#if defined(__AVX512F__)
    share(*layer, [=](const Part& part, const Starts& starts) { part.backward(*to, starts); });
#endif
    return 0;
} catch (const std::bad_alloc&) {
    return 1;
}
}
