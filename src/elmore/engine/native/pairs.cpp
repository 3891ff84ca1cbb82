// Static word vectors, learned from one pair of words after another: skip-grams with negative
// samples by gradient descent, and GloVe by AdaGrad. Pairs are taken in the order they are given.
//
// V words, D vector dim
#include <cmath>

#include "vectors.h"

extern "C" struct SkipGrams {
    float *words, *contexts;     // (V, D): what predicts, and what is predicted
    const int32_t* words_of;     // (n,): the word that predicts
    const int32_t* predicted;    // (n, 1 + k): the word it predicts, then k others drawn by chance
    int64_t n, others, dim;
    float rate;
};

extern "C" struct Counted {
    int32_t first, second;
    float count;
};

extern "C" struct Glove {
    float *words, *contexts;          // (V, D + 1): the last number of a row is a bias
    float *words_sum, *contexts_sum;  // (V, D + 1): sums of squared steps
    const Counted* pairs;             // (n,)
    int64_t n, dim;
    float rate, most, power;          // a count x weighs min(1, x / most)^power
};

namespace {

inline float sum(Vec v) {
    float total = 0.0f;
    for (int i = 0; i < LANES; ++i) total += v[i];
    return total;
}

inline float dot(const float* a, const float* b, int64_t n) {
    Vec one{}, two{};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        one += load<Vec>(a + i) * load<Vec>(b + i);
        two += load<Vec>(a + i + LANES) * load<Vec>(b + i + LANES);
    }
    for (; i + LANES <= n; i += LANES) one += load<Vec>(a + i) * load<Vec>(b + i);
    float rest = 0.0f;
    for (; i < n; ++i) rest += a[i] * b[i];
    return sum(one + two) + rest;
}

// One step of AdaGrad on two rows whose product is `off` too large.
inline void descend(float* word, float* context, float* word_sum, float* context_sum, float off,
                    int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const float a = off * context[i], b = off * word[i];
        word[i] -= a / std::sqrt(word_sum[i]);
        context[i] -= b / std::sqrt(context_sum[i]);
        word_sum[i] += a * a;
        context_sum[i] += b * b;
    }
}

// to += by * from
inline void add(float* to, float by, const float* from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(to + i, load<Vec>(to + i) + load<Vec>(from + i) * by);
    for (; i < n; ++i) to[i] += by * from[i];
}

inline void fetch(const float* row, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(row + i, 1);
}

constexpr int64_t AHEAD = 2;     // pairs whose rows are fetched early
constexpr float LEAST = 1e-10f;  // of a probability in the loss

}  // namespace

// For each pair: all scores, then all updates. Returns the summed loss, -log p of every decision;
// `scratch` has room for D + 1 + k numbers. A word drawn by chance that is the one to predict is
// passed over.
extern "C" double elmore_skip_grams(const SkipGrams* s, float* scratch) {
    const int64_t D = s->dim, K = 1 + s->others;
    float *change = scratch, *step = scratch + D;
    double loss = 0.0, product = 1.0;  // of probabilities whose logarithm is still to be taken
    for (int64_t i = 0; i < s->n; ++i) {
        if (i + AHEAD < s->n) {
            const int32_t* next = s->predicted + (i + AHEAD) * K;
            for (int64_t k = 1; k < K; ++k) fetch(s->contexts + next[k] * D, D);
            fetch(s->words + s->words_of[i + AHEAD] * D, D);
        }
        const int32_t* predicted = s->predicted + i * K;
        float* word = s->words + s->words_of[i] * D;
        std::memset(change, 0, D * sizeof(float));
        for (int64_t k = 0; k < K; ++k) {
            step[k] = 0.0f;
            if (k > 0 && predicted[k] == predicted[0]) continue;
            const float* context = s->contexts + predicted[k] * D;
            const float p = 1.0f / (1.0f + std::exp(-dot(word, context, D)));
            step[k] = s->rate * ((k == 0) - p);
            add(change, step[k], context, D);
            product *= std::fmax(k == 0 ? p : 1.0f - p, LEAST);
            if (product < 1e-200) {
                loss -= std::log(product);
                product = 1.0;
            }
        }
        for (int64_t k = 0; k < K; ++k) add(s->contexts + predicted[k] * D, step[k], word, D);
        add(word, 1.0f, change, D);
    }
    return loss - std::log(product);
}

// Both orders of each pair. Returns the summed loss, half the weighted squared errors.
extern "C" double elmore_glove(const Glove* g) {
    const int64_t D = g->dim, width = D + 1;
    double loss = 0.0;
    auto learn_count = [&](int64_t first, int64_t second, float count) {
        float *word = g->words + first * width, *context = g->contexts + second * width;
        float *word_sum = g->words_sum + first * width;
        float *context_sum = g->contexts_sum + second * width;
        const float error = dot(word, context, D) + word[D] + context[D] - std::log(count);
        const float weight = count < g->most ? std::pow(count / g->most, g->power) : 1.0f;
        loss += 0.5 * weight * error * error;
        const float off = g->rate * weight * error;
        descend(word, context, word_sum, context_sum, off, D);
        word[D] -= off / std::sqrt(word_sum[D]);
        context[D] -= off / std::sqrt(context_sum[D]);
        word_sum[D] += off * off;
        context_sum[D] += off * off;
    };
    for (int64_t i = 0; i < g->n; ++i) {
        const Counted pair = g->pairs[i];
        learn_count(pair.first, pair.second, pair.count);
        if (pair.first != pair.second) learn_count(pair.second, pair.first, pair.count);
    }
    return loss;
}
