/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-fill.h"

#include <math.h>
#include <string.h>

#include "bench-random.h"
#include "kernels/llk.h"

static void
fill_bits (BenchRandom *random,
           guint8      *bytes,
           gsize        n)
{
  gsize i = 0;

  for (; i + sizeof (guint64) <= n; i += sizeof (guint64))
    {
      guint64 bits = bench_random_next (random);

      memcpy (bytes + i, &bits, sizeof bits);
    }
  for (; i < n; i++)
    bytes[i] = (guint8) bench_random_next (random);
}

/* --- scales --- */

static void
store_half (guint8 *at,
            double  value)
{
  const float single = (float) value;
  guint16 half;

  llk_ops_portable ()->vector->f32_to_f16 (&single, &half, 1);
  memcpy (at, &half, sizeof half);
}

/* Blocks differ by up to a quarter either way, and in sign where a format's scale may
 * have one, so that no block is like another and means cancel out. */
static double
vary (BenchRandom *random,
      double       scale,
      gboolean     has_sign)
{
  guint64 bits = bench_random_next (random);
  double varied = scale * (0.75 + (double) (bits >> 40) / (1 << 24) / 2);

  return has_sign && (bits & 1) != 0 ? -varied : varied;
}

/* Sixteen values of 6 bits, 32 ± 16 to 31. */
static void
choose_signed_scales (BenchRandom *random,
                      guint8       scales[16])
{
  guint64 bits = bench_random_next (random), signs = bench_random_next (random);

  for (guint i = 0; i < 16; i++)
    {
      guint8 magnitude = 16 | (bits >> (4 * i) & 15);

      scales[i] = (signs >> i & 1) != 0 ? 32 - magnitude : 32 + magnitude;
    }
}

/* Eight scales of 6 bits from 32 to 63, and the same for the mins, packed as Q4_K
 * and Q5_K have them: the upper bits of the last four lie above the first eight bytes' 6. */
static void
store_scale_pairs (BenchRandom *random,
                   guint8      *at)
{
  guint64 bits = bench_random_next (random);

  for (guint j = 0; j < 4; j++)
    {
      guint8 first = 32 | (bits >> (8 * j) & 31), second = 32 | (bits >> (8 * j + 32) & 31);

      at[j] = first | (second >> 4) << 6;
      at[j + 4] = first | (second >> 4) << 6;
      at[j + 8] = (second & 15) | (second & 15) << 4;
    }
}

/* --- blocks --- */

/* Where a block's scales lie, and the deviation of what they are multiplied with. Mins are
 * the mean of the integers times the scale, so that weights have the mean 0. */
typedef struct
{
  LlkType type;
  double spread;    /* deviation of a value when the block's scale is 1 */
  double mean;      /* of the integers that a min makes up for; 0: no min */
  guint scale_at;   /* f16 */
  guint min_at;     /* f16 */
} Blocks;

/* The rms of random inner scales: 16 to 31 evenly, 32 to 63 evenly, 8 to 15, 64 to 127. */
#define RMS_16_31 23.95
#define RMS_32_63 48.39
#define RMS_8_15 11.73
#define RMS_64_127 97.26
/* Of the sixteen values of a table. */
#define RMS_IQ4 67.44
#define RMS_MXFP4 2.926

static const Blocks formats[] = {
  { LLK_Q4_0, 4.64, 0, 0, 0 },
  { LLK_Q4_1, 4.61, 7.5, 0, 2 },
  { LLK_Q5_0, 9.25, 0, 0, 0 },
  { LLK_Q5_1, 9.23, 15.5, 0, 2 },
  { LLK_Q8_0, 73.9, 0, 0, 0 },
  { LLK_Q2_K, 1.118 * RMS_8_15, 1.5, 80, 82 },
  { LLK_Q3_K, 2.345 * RMS_16_31, 0, 108, 0 },
  { LLK_Q4_K, 4.61 * RMS_32_63, 7.5, 0, 2 },
  { LLK_Q5_K, 9.23 * RMS_32_63, 15.5, 0, 2 },
  { LLK_Q6_K, 18.48 * RMS_64_127, 0, 208, 0 },
  { LLK_IQ4_NL, RMS_IQ4, 0, 0, 0 },
  { LLK_IQ4_XS, RMS_IQ4 * RMS_16_31, 0, 0, 0 },
};

/* Scales inside of a block, which random bits would leave anything between 0 and
 * the largest. */
static void
store_inner_scales (LlkType      type,
                    BenchRandom *random,
                    guint8      *block)
{
  guint8 scales[16];

  switch (type)
    {
    case LLK_Q2_K:
      for (guint i = 0; i < 16; i++)
        {
          guint8 scale = 8 | (block[i] & 7);

          block[i] = scale | scale << 4;
        }
      break;

    case LLK_Q3_K:
      choose_signed_scales (random, scales);
      for (guint i = 0; i < 8; i++)
        block[96 + i] = (scales[i] & 15) | (scales[i + 8] & 15) << 4;
      for (guint i = 0; i < 4; i++)
        block[104 + i] = scales[i] >> 4 | (scales[i + 4] >> 4) << 2 | (scales[i + 8] >> 4) << 4 |
                         (scales[i + 12] >> 4) << 6;
      break;

    case LLK_Q4_K:
    case LLK_Q5_K:
      store_scale_pairs (random, block + 4);
      break;

    case LLK_Q6_K:
      for (guint i = 0; i < 16; i++)
        {
          gint8 magnitude = 64 | (block[192 + i] & 63);

          block[192 + i] = (guint8) ((block[192 + i] & 128) != 0 ? -magnitude : magnitude);
        }
      break;

    case LLK_IQ4_XS:
      choose_signed_scales (random, scales);
      block[2] = block[3] = 0;
      for (guint i = 0; i < 8; i++)
        {
          block[2 + i / 4] |= (scales[i] >> 4) << (2 * (i % 4));
          block[4 + i / 2] = i % 2 == 0 ? (scales[i] & 15)
                                        : (block[4 + i / 2] | (scales[i] & 15) << 4);
        }
      break;

    default:
      break;
    }
}

static void
fill_blocks (const Blocks *format,
             double        deviation,
             BenchRandom  *random,
             guint8       *bytes,
             gsize         n_blocks)
{
  gsize block_bytes = llk_type_block_bytes (format->type);

  fill_bits (random, bytes, n_blocks * block_bytes);
  for (gsize i = 0; i < n_blocks; i++)
    {
      guint8 *block = bytes + i * block_bytes;
      double scale = vary (random, deviation / format->spread, format->mean == 0);
      gboolean is_subtracted = format->type != LLK_Q4_1 && format->type != LLK_Q5_1;

      store_half (block + format->scale_at, scale);
      if (format->mean != 0)
        store_half (block + format->min_at, is_subtracted ? scale * format->mean
                                                          : -scale * format->mean);
      store_inner_scales (format->type, random, block);
    }
}

/* Scales are powers of two: the two next to the one wanted, in turns by chance. */
static void
fill_mxfp4 (double       deviation,
            BenchRandom *random,
            guint8      *bytes,
            gsize        n_blocks)
{
  gsize block_bytes = llk_type_block_bytes (LLK_MXFP4);
  double exponent = log2 (deviation / RMS_MXFP4);
  int lower = (int) floor (exponent);

  fill_bits (random, bytes, n_blocks * block_bytes);
  for (gsize i = 0; i < n_blocks; i++)
    {
      double chance = bench_random_get (random);

      bytes[i * block_bytes] = (guint8) (127 + lower + (chance < exponent - lower));
    }
}

/* --- plain formats --- */

#define RUN 1024

/* Even over ±√3 deviations. */
static void
fill_floats (double       deviation,
             BenchRandom *random,
             float       *values,
             gsize        n)
{
  const float step = (float) (deviation * 1.7320508 / 32768);

  for (gsize i = 0; i < n; i += 4)
    {
      guint64 bits = bench_random_next (random);

      for (gsize j = i; j < MIN (i + 4, n); j++, bits >>= 16)
        values[j] = (float) (gint16) (bits & 0xffff) * step;
    }
}

static void
fill_plain (LlkType      type,
            double       deviation,
            BenchRandom *random,
            guint8      *bytes,
            gsize        n)
{
  const LlkOps *ops = llk_ops_best ();
  float values[RUN];
  guint16 shorts[RUN];

  for (gsize i = 0; i < n; i += RUN)
    {
      gsize n_run = MIN (n - i, RUN);

      fill_floats (deviation, random, values, n_run);
      if (type == LLK_F32)
        {
          memcpy (bytes + i * sizeof (float), values, n_run * sizeof (float));
          continue;
        }
      if (type == LLK_F16)
        ops->vector->f32_to_f16 (values, shorts, n_run);
      else
        for (gsize j = 0; j < n_run; j++)
          {
            guint32 bits;

            memcpy (&bits, &values[j], sizeof bits);
            shorts[j] = (guint16) (bits >> 16);
          }
      memcpy (bytes + i * sizeof (guint16), shorts, n_run * sizeof (guint16));
    }
}

void
bench_fill_random (LlkType  type,
                   double   deviation,
                   guint64  seed,
                   void    *blocks,
                   gsize    n_blocks)
{
  BenchRandom random = { seed };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (formats[i].type == type)
      {
        fill_blocks (&formats[i], deviation, &random, blocks, n_blocks);
        return;
      }
  if (type == LLK_MXFP4)
    fill_mxfp4 (deviation, &random, blocks, n_blocks);
  else
    fill_plain (type, deviation, &random, blocks, n_blocks);
}
