// Products of bfloat16 numbers in AMX tiles: 16 rows of 32 numbers times 32 rows of 16, with sums in
// float32. A tile of a panel is read where it stands. Denormal numbers count as zero.
#pragma once
#include "vectors.h"

#if defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#endif

namespace {

#if defined(__AVX512F__) && defined(__linux__)

constexpr int TILE_ROWS = 16, TILE_INPUTS = 32;  // rows of a tile, and the inputs it has of each
constexpr int PANEL_TILES = 4;                   // side by side in a panel

// The kernel of Linux lets a process use the tiles once it has asked for them.
inline bool tiles_allowed() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1);
    constexpr int ASK = 0x1023, TILE_DATA = 18;
    return has && syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

// What the eight tiles hold. 0 to 3: sums, 4 and 5: rows, 6 and 7: weights.
struct alignas(64) Shape {
    uint8_t palette = 1, start = 0, unused[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};

    // Sums 0 and 1 are of the first block of rows, 2 and 3 of the second; without a second one all
    // four are of the first.
    Shape(int first, int second) {
        for (int tile = 0; tile < 8; ++tile) {
            const bool of_second = second && (tile == 2 || tile == 3 || tile == 5);
            bytes[tile] = 64;
            rows[tile] = tile > 5 ? TILE_ROWS : of_second ? second : first;
        }
    }
    void load() const { asm volatile("ldtilecfg %0" ::"m"(*this)); }
};

#define LOAD_TILE(n, from, stride) \
    asm volatile("tileloadd (%0,%1,1), %%tmm" #n ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define STORE_TILE(n, to, stride) \
    asm volatile("tilestored %%tmm" #n ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
#define ZERO_TILES \
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::)
#define ADD_TILES(sum, rows, weights) \
    asm volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sum ::)

// Threads that have used tiles say when they are done.
struct TilesDone {
    ~TilesDone() { asm volatile("tilerelease" ::); }
};

// `bytes` of what comes next, fetched while something else is computed.
inline void fetch_ahead(const char*& next, int bytes) {
    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(next + line, 0, 2);
    next += bytes;
}

// sums (n, 64), n up to 32 = a (n, count) times a panel; count is a multiple of TILE_INPUTS, `stride`
// the numbers from a row to the next. `next` is a panel to be fetched meanwhile.
inline void multiply_tiles(const uint16_t* a, int64_t stride, const uint16_t* panel, int64_t count,
                           int n, float* sums, const uint16_t* next) {
    const char* ahead = reinterpret_cast<const char*>(next);
    constexpr int64_t WIDE = 4 * 16 * PANEL_TILES;  // bytes of a panel's pair of inputs, and of sums
    constexpr int64_t NEXT = TILE_INPUTS / 2 * WIDE / 2;
    const int second = std::max(0, n - TILE_ROWS);
    Shape(n - second, second).load();
    const int64_t row = 2 * stride;
    if (second) {
        const uint16_t* lower = a + TILE_ROWS * stride;
        for (int half = 0; half < 2; ++half, panel += 64, sums += 32) {
            ZERO_TILES;
            const uint16_t* w = panel;
            for (int64_t k = 0; k < count; k += TILE_INPUTS, w += NEXT) {
                LOAD_TILE(6, w, WIDE);
                LOAD_TILE(4, a + k, row);
                ADD_TILES(0, 4, 6);
                LOAD_TILE(7, w + 32, WIDE);
                ADD_TILES(1, 4, 7);
                LOAD_TILE(5, lower + k, row);
                ADD_TILES(2, 5, 6);
                ADD_TILES(3, 5, 7);
                if (next) fetch_ahead(ahead, 2 * NEXT / 2);
            }
            STORE_TILE(0, sums, WIDE);
            STORE_TILE(1, sums + 16, WIDE);
            STORE_TILE(2, sums + TILE_ROWS * 64, WIDE);
            STORE_TILE(3, sums + TILE_ROWS * 64 + 16, WIDE);
        }
        return;
    }
    ZERO_TILES;
    for (int64_t k = 0; k < count; k += TILE_INPUTS, panel += NEXT) {
        LOAD_TILE(4, a + k, row);
        LOAD_TILE(6, panel, WIDE);
        ADD_TILES(0, 4, 6);
        LOAD_TILE(7, panel + 32, WIDE);
        ADD_TILES(1, 4, 7);
        LOAD_TILE(6, panel + 64, WIDE);
        ADD_TILES(2, 4, 6);
        LOAD_TILE(7, panel + 96, WIDE);
        ADD_TILES(3, 4, 7);
        if (next) fetch_ahead(ahead, 2 * NEXT);
    }
    STORE_TILE(0, sums, WIDE);
    STORE_TILE(1, sums + 16, WIDE);
    STORE_TILE(2, sums + 32, WIDE);
    STORE_TILE(3, sums + 48, WIDE);
}

#undef LOAD_TILE
#undef STORE_TILE
#undef ZERO_TILES
#undef ADD_TILES

#endif

}  // namespace
