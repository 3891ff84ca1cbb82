// One step of a highway LSTM layer in training, without its products: sums become gates, which are
// kept for the way back. On that way the gradients of the sums are made from them.
//
// n sentences that have a word at this step, H units; blocks stand side by side in a row: input,
// forget, output, highway, candidate; of the input also what the highway carries.
#include "vectors.h"

extern "C" struct HighwayStep {
    const float* input;   // (n, 6H), what the blocks take from the input
    float* gates;         // (n, 5H), what they take from the state before; then the gates
    const float* before;  // (n, H), the cell of the step before
    const float* keep;    // (n, H), the dropout mask
    float *cell, *state;  // (n, H)
    int64_t n, units;
};

extern "C" struct HighwayBack {
    const float* grad;     // (n, H), of the states from above
    const float* d_state;  // (later, H), of the states by the next step
    float* d_cell;         // (n, H): of the cells by the next step in its first `later` rows; then
                           // of the cells before
    float* d_input;        // (n, 6H)
    int64_t later;
};

extern "C" {

void elmore_highway(const HighwayStep* step) {
    const int64_t H = step->units;
    for (int64_t r = 0; r < step->n; ++r) {
        const float *x = step->input + r * 6 * H, *before = step->before + r * H;
        const float* keep = step->keep + r * H;
        float *gates = step->gates + r * 5 * H, *cell = step->cell + r * H;
        float* state = step->state + r * H;
        for_places(H, [=](int64_t at, int64_t count) __attribute__((always_inline)) {
            auto sum = [=](int block) {
                return take(gates + block * H + at, count) + take(x + block * H + at, count);
            };
            const Vec i = sigmoid(sum(0)), f = sigmoid(sum(1)), o = sigmoid(sum(2));
            const Vec t = sigmoid(sum(3)), g = tangent(sum(4));
            const Vec c = f * take(before + at, count) + i * g;
            const Vec carried = take(x + 5 * H + at, count);
            const Vec h = carried + t * (o * tangent(c) - carried);
            give(gates + at, i, count), give(gates + H + at, f, count);
            give(gates + 2 * H + at, o, count), give(gates + 3 * H + at, t, count);
            give(gates + 4 * H + at, g, count);
            give(cell + at, c, count);
            give(state + at, h * take(keep + at, count), count);
        });
    }
}

void elmore_highway_back(const HighwayStep* step, const HighwayBack* back) {
    const int64_t H = step->units;
    for (int64_t r = 0; r < step->n; ++r) {
        const float *carried = step->input + r * 6 * H + 5 * H, *keep = step->keep + r * H;
        const float *gates = step->gates + r * 5 * H, *before = step->before + r * H;
        const float *cell = step->cell + r * H, *grad = back->grad + r * H;
        const float* d_state = r < back->later ? back->d_state + r * H : nullptr;
        float *d_cell = back->d_cell + r * H, *d_input = back->d_input + r * 6 * H;
        for_places(H, [=](int64_t at, int64_t count) __attribute__((always_inline)) {
            const Vec i = take(gates + at, count), f = take(gates + H + at, count);
            const Vec o = take(gates + 2 * H + at, count), t = take(gates + 3 * H + at, count);
            const Vec g = take(gates + 4 * H + at, count), c = tangent(take(cell + at, count));
            Vec dh = take(grad + at, count), dc{};
            if (d_state) dh += take(d_state + at, count), dc = take(d_cell + at, count);
            dh *= take(keep + at, count);
            const Vec dy = dh * t;
            dc += dy * o * (1.0f - c * c);
            float* to = d_input + at;
            give(to, dc * g * i * (1.0f - i), count);
            give(to + H, dc * take(before + at, count) * f * (1.0f - f), count);
            give(to + 2 * H, dy * c * o * (1.0f - o), count);
            give(to + 3 * H, dh * (o * c - take(carried + at, count)) * t * (1.0f - t), count);
            give(to + 4 * H, dc * i * (1.0f - g * g), count);
            give(to + 5 * H, dh - dy, count);
            give(d_cell + at, dc * f, count);
        });
    }
}
}
