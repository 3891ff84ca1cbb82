// One step of an LSTM layer in training, both directions, without its products: gate sums become
// gates, which are kept for the way back. On that way the gradients of the sums are made from them.
//
// n rows still reading, C cells; gates stand side by side in a row: input, forget, candidate,
// output. Each number is made from its own row and place alone, so threads change no bit.
#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "vectors.h"

// The rows of the first direction, without gaps, and how many numbers further the second's stand.
extern "C" struct Rows {
    float* first;
    int64_t apart;
};

extern "C" struct Step {
    Rows gates;                  // (n, 4C)
    Rows before, cell, hidden;   // (n, C): the cell of the step before, the new one, what it shows
    int64_t n, cells, threads;
    float clip;                  // of the cell; infinite for none
};

namespace {

// work(direction, row) for all rows of both directions, shared among threads.
template <class Work> void for_rows(const Step& step, const Work& work) {
    const int64_t n = 2 * step.n;  // both directions
    const int64_t parts = std::max<int64_t>(1, std::min(step.threads, n));
    auto part = [&](int64_t p) {
        for (int64_t r = n * p / parts; r < n * (p + 1) / parts; ++r)
            work(r / step.n, r % step.n);
    };
    std::vector<std::thread> others;
    int64_t mine = parts;  // parts from here on are this thread's
    try {
        for (mine = 1; mine < parts; ++mine) others.emplace_back(part, mine);
    } catch (const std::exception&) {  // no more threads to be had
    }
    for (int64_t p = mine; p < parts; ++p) part(p);
    part(0);
    for (auto& other : others) other.join();
}

}  // namespace

extern "C" {

// Gate sums (without `bias`, (2, 4C)) -> gates, in place; new cell, and what it shows.
void elmore_step(const Step* step, const float* bias) {
    const int64_t C = step->cells;
    for_rows(*step, [=](int64_t d, int64_t r) {
        float* z = step->gates.first + d * step->gates.apart + r * 4 * C;
        const float* b = bias + d * 4 * C;
        const float* before = step->before.first + d * step->before.apart + r * C;
        float* cell = step->cell.first + d * step->cell.apart + r * C;
        float* hidden = step->hidden.first + d * step->hidden.apart + r * C;
        for_places(C, [=](int64_t at, int64_t count) __attribute__((always_inline)) {
            float *zi = z + at, *zf = zi + C, *zg = zf + C, *zo = zg + C;
            const float *bi = b + at, *bf = bi + C, *bg = bf + C, *bo = bg + C;
            const Vec i = sigmoid(take(zi, count) + take(bi, count));
            const Vec f = sigmoid(take(zf, count) + take(bf, count));
            const Vec g = tangent(take(zg, count) + take(bg, count));
            const Vec o = sigmoid(take(zo, count) + take(bo, count));
            const Vec c = clipped(f * take(before + at, count) + i * g, step->clip);
            give(zi, i, count), give(zf, f, count), give(zg, g, count), give(zo, o, count);
            give(cell + at, c, count);
            give(hidden + at, o * tangent(c), count);
        });
    });
}

// d_hidden and dc (n, C), gradients of what the cell shows and of the cell -> d_gates (n, 4C), of
// the gate sums; dc becomes the gradient of the cell before. A clipped cell passes none.
void elmore_step_back(const Step* step, const Rows* d_hidden, const Rows* dc, const Rows* d_gates) {
    const int64_t C = step->cells;
    for_rows(*step, [=](int64_t d, int64_t r) {
        const float* gates = step->gates.first + d * step->gates.apart + r * 4 * C;
        const float* before = step->before.first + d * step->before.apart + r * C;
        const float* cell = step->cell.first + d * step->cell.apart + r * C;
        const float* hidden = step->hidden.first + d * step->hidden.apart + r * C;
        const float* d_shown = d_hidden->first + d * d_hidden->apart + r * C;
        float* d_cell = dc->first + d * dc->apart + r * C;
        float* dz = d_gates->first + d * d_gates->apart + r * 4 * C;
        for_places(C, [=](int64_t at, int64_t count) __attribute__((always_inline)) {
            const float* from = gates + at;
            float* to = dz + at;
            const Vec i = take(from, count), f = take(from + C, count);
            const Vec g = take(from + 2 * C, count), o = take(from + 3 * C, count);
            const Vec h = take(hidden + at, count), c = take(cell + at, count);
            const Vec dh = take(d_shown + at, count);
            // h = o tanh(c), so o (1 - tanh(c)^2) = o - h^2 / o
            Vec back = take(d_cell + at, count) + dh * (o - h * h / o);
            back = (c < step->clip) & (c > -step->clip) ? back : Vec{};
            give(to, back * g * i * (1.0f - i), count);
            give(to + C, back * take(before + at, count) * f * (1.0f - f), count);
            give(to + 2 * C, back * i * (1.0f - g * g), count);
            give(to + 3 * C, dh * h * (1.0f - o), count);
            give(d_cell + at, back * f, count);
        });
    });
}
}
