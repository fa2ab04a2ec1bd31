/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The loops of one set of instructions: compiled once for each, with what the compiler must be
 * told for it and BENCH_SET_… defined. The compiler makes of a line of the reading loop what the
 * set has.
 */

#include "machine/bench-sets.h"

#define INLINE static inline __attribute__ ((always_inline))

/* --- reading --- */

#define LINE_BYTES 64
#define STEP_LINES 4
#define PREFETCH_BYTES 2048

typedef guint64 Line __attribute__ ((vector_size (LINE_BYTES), aligned (LINE_BYTES), may_alias));

INLINE guint64
read_streams (const guint8 *data,
              gsize         n_bytes,
              guint         n_streams,
              gboolean      prefetches)
{
  gsize stream_bytes = n_bytes / n_streams;
  Line sums[STEP_LINES] = { 0 };

  for (gsize at = 0; at < stream_bytes; at += STEP_LINES * LINE_BYTES)
    for (guint s = 0; s < n_streams; s++)
      {
        const guint8 *step = data + s * stream_bytes + at;

        for (guint i = 0; i < STEP_LINES; i++)
          {
            if (prefetches)
              __builtin_prefetch (step + PREFETCH_BYTES + i * LINE_BYTES);
            sums[i] ^= *(const Line *) (step + i * LINE_BYTES);
          }
      }

  sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
  return sums[0][0] ^ sums[0][1] ^ sums[0][2] ^ sums[0][3] ^ sums[0][4] ^ sums[0][5] ^
         sums[0][6] ^ sums[0][7];
}

static guint64
read_memory (const void *data,
             gsize       n_bytes,
             guint       n_streams,
             gboolean    prefetches)
{
  switch (n_streams)
    {
    case 1:
      return prefetches ? read_streams (data, n_bytes, 1, TRUE)
                        : read_streams (data, n_bytes, 1, FALSE);
    case 2:
      return read_streams (data, n_bytes, 2, prefetches);
    case 4:
      return read_streams (data, n_bytes, 4, prefetches);
    case 8:
      return read_streams (data, n_bytes, 8, prefetches);
    default:
      return read_streams (data, n_bytes, 16, prefetches);
    }
}

/* --- computing --- */

/* Sums beside each other, as many as hide the latency of the longest instruction, each of which
 * @step changes. */
#define LOOP(name, Vector, n_sums, step)                        \
  static void                                                   \
  name (guint64 n_rounds)                                       \
  {                                                             \
    Vector sums[n_sums] = { 0 };                                \
                                                                \
    for (guint64 round = 0; round < n_rounds; round++)          \
      for (guint i = 0; i < (n_sums); i++)                      \
        {                                                       \
          sums[i] = step (sums[i]);                             \
          KEEP (sums[i]);                                       \
        }                                                       \
  }

/* The compiler must have the value in a register here. */
#if defined (__aarch64__)
#include <arm_neon.h>
#include "kernels/llk.h"
#define KEEP(value) __asm__ volatile ("" : "+w" (value))
#elif defined (__x86_64__)
#include <immintrin.h>
#include "kernels/x86/llk-x86-features.h"
#define KEEP(value) __asm__ volatile ("" : "+v" (value))
#else
#define KEEP(value) __asm__ volatile ("" : "+m" (value))
#endif

#if defined (BENCH_SET_PORTABLE)

#define LANES 4

typedef float Floats __attribute__ ((vector_size (LANES * sizeof (float))));

static bool
can_run (void)
{
  return true;
}

INLINE Floats
step_floats (Floats sum)
{
  return sum * 1e-3f + (Floats) { 1, 2, 3, 4 };
}

LOOP (multiply_floats, Floats, 8, step_floats)

const BenchSet bench_set_portable = {
  "portable", can_run, read_memory,
  { { "fp32", "multiply, add", 2 * 8 * LANES, multiply_floats } },
};

#elif defined (BENCH_SET_AVX2)

INLINE __m256
step_floats (__m256 sum)
{
  return _mm256_fmadd_ps (_mm256_set1_ps (1e-3f), _mm256_set1_ps (2), sum);
}

INLINE __m256i
step_bytes (__m256i sum)
{
  __m256i products = _mm256_maddubs_epi16 (_mm256_set1_epi8 (3), _mm256_set1_epi8 (-5));

  KEEP (products);
  return _mm256_add_epi32 (sum, _mm256_madd_epi16 (products, _mm256_set1_epi16 (1)));
}

LOOP (multiply_floats, __m256, 10, step_floats)
LOOP (multiply_bytes, __m256i, 10, step_bytes)

const BenchSet bench_set_avx2 = {
  "avx2", llk_x86_has_avx2, read_memory,
  { { "int8", "vpmaddubsw, vpmaddwd, vpaddd", 2 * 32 * 10, multiply_bytes },
    { "fp32", "vfmadd", 2 * 8 * 10, multiply_floats } },
};

#elif defined (BENCH_SET_AVXVNNI)

INLINE __m256i
step_bytes (__m256i sum)
{
  return _mm256_dpbusd_avx_epi32 (sum, _mm256_set1_epi8 (3), _mm256_set1_epi8 (-5));
}

LOOP (multiply_bytes, __m256i, 10, step_bytes)

const BenchSet bench_set_avxvnni = {
  "avxvnni", llk_x86_has_avxvnni, read_memory,
  { { "int8", "vpdpbusd of 256 bits", 2 * 32 * 10, multiply_bytes } },
};

#elif defined (BENCH_SET_AVX512)

INLINE __m512
step_floats (__m512 sum)
{
  return _mm512_fmadd_ps (_mm512_set1_ps (1e-3f), _mm512_set1_ps (2), sum);
}

INLINE __m512i
step_bytes (__m512i sum)
{
  return _mm512_dpbusd_epi32 (sum, _mm512_set1_epi8 (3), _mm512_set1_epi8 (-5));
}

LOOP (multiply_floats, __m512, 12, step_floats)
LOOP (multiply_bytes, __m512i, 12, step_bytes)

const BenchSet bench_set_avx512 = {
  "avx512", llk_x86_has_avx512, read_memory,
  { { "int8", "vpdpbusd of 512 bits", 2 * 64 * 12, multiply_bytes },
    { "fp32", "vfmadd of 512 bits", 2 * 16 * 12, multiply_floats } },
};

#elif defined (BENCH_SET_AMX)

/* Four sums of two by two tiles, all operands loaded anew from the first-level cache each time, as
 * a product does. */

#define ROWS 16
#define ROW_BYTES 64
#define TILE_BYTES (ROWS * ROW_BYTES)
#define N_TILES 8
/* Steps along the inputs: operands are 16 KiB. */
#define N_STEPS 4

typedef struct
{
  guint8 palette;
  guint8 start_row;
  guint8 reserved[14];
  guint16 row_bytes[16];
  guint8 rows[16];
} TileConfig;

static const TileConfig config = {
  .palette = 1,
  .row_bytes = { [0 ... N_TILES - 1] = ROW_BYTES },
  .rows = { [0 ... N_TILES - 1] = ROWS },
};

/* Zeros: as fast as any other numbers, and never denormal. */
static const guint8 operands[4 * N_STEPS * TILE_BYTES] __attribute__ ((aligned (64)));

#define TILE_LOOP(name, multiply)                               \
  static void                                                   \
  name (guint64 n_rounds)                                       \
  {                                                             \
    _tile_loadconfig (&config);                                 \
    _tile_zero (0);                                             \
    _tile_zero (1);                                             \
    _tile_zero (2);                                             \
    _tile_zero (3);                                             \
    for (guint64 round = 0; round < n_rounds; round++)          \
      for (guint i = 0; i < N_STEPS; i++)                       \
        {                                                       \
          const guint8 *step = operands + i * 4 * TILE_BYTES;   \
                                                                \
          _tile_loadd (4, step, ROW_BYTES);                     \
          _tile_loadd (5, step + TILE_BYTES, ROW_BYTES);        \
          _tile_loadd (6, step + 2 * TILE_BYTES, ROW_BYTES);    \
          _tile_loadd (7, step + 3 * TILE_BYTES, ROW_BYTES);    \
          multiply (0, 4, 6);                                   \
          multiply (1, 4, 7);                                   \
          multiply (2, 5, 6);                                   \
          multiply (3, 5, 7);                                   \
        }                                                       \
    _tile_release ();                                           \
  }

#define OPS(k) (2 * ROWS * ROWS * (k) * 4 * N_STEPS)

TILE_LOOP (multiply_bytes, _tile_dpbssd)
TILE_LOOP (multiply_bf16, _tile_dpbf16ps)

const BenchSet bench_set_amx = {
  "amx", llk_x86_has_amx, read_memory,
  { { "int8", "tdpbssd", OPS (64), multiply_bytes },
    { "bf16", "tdpbf16ps", OPS (32), multiply_bf16 } },
};

#elif defined (BENCH_SET_NEON)

static bool
can_run (void)
{
  return true;
}

INLINE float32x4_t
step_floats (float32x4_t sum)
{
  return vfmaq_f32 (sum, vdupq_n_f32 (1e-3f), vdupq_n_f32 (2));
}

INLINE int32x4_t
step_bytes (int32x4_t sum)
{
  int16x8_t products = vmull_s8 (vdup_n_s8 (3), vdup_n_s8 (-5));

  KEEP (products);
  return vpadalq_s16 (sum, products);
}

LOOP (multiply_floats, float32x4_t, 16, step_floats)
LOOP (multiply_bytes, int32x4_t, 16, step_bytes)

const BenchSet bench_set_neon = {
  "neon", can_run, read_memory,
  { { "int8", "smull, sadalp", 2 * 8 * 16, multiply_bytes },
    { "fp32", "fmla", 2 * 4 * 16, multiply_floats } },
};

#elif defined (BENCH_SET_DOTPROD)

static bool
can_run (void)
{
  return llk_ops_find ("dotprod") != NULL;
}

INLINE int32x4_t
step_bytes (int32x4_t sum)
{
  return vdotq_s32 (sum, vdupq_n_s8 (3), vdupq_n_s8 (-5));
}

LOOP (multiply_bytes, int32x4_t, 16, step_bytes)

const BenchSet bench_set_dotprod = {
  "dotprod", can_run, read_memory, { { "int8", "sdot", 2 * 16 * 16, multiply_bytes } },
};

#elif defined (BENCH_SET_I8MM)

static bool
can_run (void)
{
  return llk_ops_find ("i8mm") != NULL;
}

INLINE int32x4_t
step_bytes (int32x4_t sum)
{
  return vmmlaq_s32 (sum, vdupq_n_s8 (3), vdupq_n_s8 (-5));
}

LOOP (multiply_bytes, int32x4_t, 16, step_bytes)

const BenchSet bench_set_i8mm = {
  "i8mm", can_run, read_memory, { { "int8", "smmla", 2 * 32 * 16, multiply_bytes } },
};

#endif
