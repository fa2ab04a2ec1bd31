/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights-rig.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const LlkType rig_types[RIG_N_TYPES] = {
  LLK_F32, LLK_F16, LLK_BF16, LLK_Q8_0, LLK_Q4_0, LLK_Q4_1, LLK_Q5_0, LLK_Q5_1, LLK_Q2_K,
  LLK_Q3_K, LLK_Q4_K, LLK_Q5_K, LLK_Q6_K, LLK_IQ4_NL, LLK_IQ4_XS, LLK_MXFP4,
  LLK_Q1_0, LLK_IQ2_XXS, LLK_IQ2_XS, LLK_IQ2_S, LLK_IQ3_XXS, LLK_IQ3_S,
};

/* Where the halves of a block are, and how far their multiples go. */
typedef struct
{
  gint d, min;             /* offsets, -1 for none */
  gdouble d_max, min_max;  /* largest factors */
} Scales;

static Scales
get_scales (LlkType type)
{
  switch (type)
    {
    case LLK_F16:
    case LLK_Q1_0:
      return (Scales) { 0, -1, 1, 0 };
    case LLK_Q8_0:
      return (Scales) { 0, -1, 128, 0 };
    case LLK_Q4_0:
      return (Scales) { 0, -1, 8, 0 };
    case LLK_Q4_1:
      return (Scales) { 0, 2, 15, 1 };
    case LLK_Q5_0:
      return (Scales) { 0, -1, 16, 0 };
    case LLK_Q5_1:
      return (Scales) { 0, 2, 31, 1 };
    case LLK_Q2_K:
      return (Scales) { 80, 82, 15 * 3, 15 };
    case LLK_Q3_K:
      return (Scales) { 108, -1, 32 * 4, 0 };
    case LLK_Q4_K:
      return (Scales) { 0, 2, 63 * 15, 63 };
    case LLK_Q5_K:
      return (Scales) { 0, 2, 63 * 31, 63 };
    case LLK_Q6_K:
      return (Scales) { 208, -1, 128 * 32, 0 };
    case LLK_IQ4_NL:
      return (Scales) { 0, -1, 127, 0 };
    case LLK_IQ4_XS:
      return (Scales) { 0, -1, 32 * 127, 0 };
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      return (Scales) { 0, -1, 31 * 43 / 8.0, 0 };
    case LLK_IQ3_XXS:
      return (Scales) { 0, -1, 31 * 62 / 4.0, 0 };
    case LLK_IQ3_S:
      return (Scales) { 0, -1, 31 * 15, 0 };
    case LLK_MXFP4:
      return (Scales) { -1, -1, 12, 0 };
    default:
      return (Scales) { -1, -1, 1, 0 };
    }
}

static guint
random_bits (void)
{
  return (guint) g_test_rand_int ();
}

/* Bits of a half that is at most @limit for RIG_NORMAL. */
static guint16
make_half (RigFill fill,
           gdouble limit)
{
  guint16 sign = random_bits () & 0x8000;

  switch (fill)
    {
    case RIG_NORMAL:
      {
        /* One of the 2048 halves in the two octaves below the limit. */
        gint exponent = ilogb (limit) + 15 - 1;

        return sign | (guint16) ((MAX (exponent - (gint) (random_bits () & 1), 0) << 10) +
                                 (random_bits () & 1023));
      }
    case RIG_ZERO:
      return sign;
    case RIG_LARGE:
      return sign | 0x7bff;
    case RIG_DENORMAL:
      return sign | (guint16) (random_bits () & 1023);
    case RIG_MIXED:
      return sign | (guint16) (random_bits () % 0x7c00);
    default:
      return (guint16) random_bits ();
    }
}

static gfloat
make_float (RigFill fill)
{
  gdouble value = g_test_rand_double_range (-1, 1);
  guint32 bits;
  gfloat any;

  switch (fill)
    {
    case RIG_NORMAL:
      return (gfloat) value;
    case RIG_ZERO:
      return 0;
    case RIG_LARGE:
      return (gfloat) (value * 65504);
    case RIG_DENORMAL:
      return (gfloat) (value * 0x1p-130);
    case RIG_MIXED:
      return (gfloat) (value * pow (10, g_test_rand_int_range (-8, 5)));
    default:
      bits = random_bits ();
      memcpy (&any, &bits, sizeof any);
      return any;
    }
}

static guint8
make_exponent (RigFill fill)
{
  switch (fill)
    {
    case RIG_NORMAL:
      return (guint8) g_test_rand_int_range (119, 125);
    case RIG_ZERO:
    case RIG_DENORMAL:
      return (guint8) (random_bits () & 1);
    case RIG_LARGE:
      return 144;
    case RIG_MIXED:
      return (guint8) g_test_rand_int_range (100, 145);
    default:
      return (guint8) random_bits ();
    }
}

static void
put_half (guint8 *dst,
          gint    offset,
          guint16 half)
{
  if (offset >= 0)
    memcpy (dst + offset, &half, sizeof half);
}

void
rig_fill_weights (LlkType type,
                  RigFill fill,
                  guint8 *dst,
                  gsize   n_blocks)
{
  Scales scales = get_scales (type);
  gsize bytes = llk_type_block_bytes (type);
  gfloat value;

  for (gsize b = 0; b < n_blocks; b++, dst += bytes)
    {
      for (gsize i = 0; i < bytes; i++)
        dst[i] = (guint8) random_bits ();

      if (type == LLK_F32 || type == LLK_BF16)
        {
          value = make_float (fill);
          memcpy (dst, (const guint8 *) &value + 4 - bytes, bytes);
        }
      else if (type == LLK_MXFP4)
        dst[0] = make_exponent (fill);
      put_half (dst, scales.d, make_half (fill, 1 / scales.d_max));
      put_half (dst, scales.min, make_half (fill, 1 / MAX (scales.min_max, 1)));
    }

  /* No scale of MXFP4 is zero, only its integers are. */
  if (type == LLK_MXFP4 && fill == RIG_ZERO)
    for (gsize b = 0; b < n_blocks; b++)
      memset (dst - (b + 1) * bytes + 1, 0, bytes - 1);
}

void
rig_spoil_block (LlkType type,
                 guint8 *block)
{
  Scales scales = get_scales (type);
  gfloat value = NAN;

  g_assert_true (type != LLK_MXFP4);
  if (type == LLK_F32 || type == LLK_BF16)
    memcpy (block, (const guint8 *) &value + 4 - llk_type_block_bytes (type),
            llk_type_block_bytes (type));
  else
    put_half (block, scales.min >= 0 && g_test_rand_bit () ? scales.min : scales.d,
              type != LLK_F16 && g_test_rand_bit () ? 0xfc00 : 0x7e00);
}

static gdouble
get_half (const guint8 *block,
          gint          offset)
{
  guint16 half;
  gfloat value;

  if (offset < 0)
    return 0;
  memcpy (&half, block + offset, sizeof half);
  llk_ops_portable ()->vector->f16_to_f32 (&half, &value, 1);
  return (gdouble) value;
}

RigScales
rig_get_scales (LlkType       type,
                const guint8 *block)
{
  Scales scales = get_scales (type);

  if (type == LLK_MXFP4)
    return (RigScales) { ldexp (1, block[0] - 128), 0 };
  return (RigScales) { get_half (block, scales.d), get_half (block, scales.min) };
}

void
rig_get_magnitudes (LlkType      type,
                    const LlkRun *run,
                    gsize        n,
                    gdouble     *dst)
{
  const int16_t *base = llk_run_base (type);
  guint block = llk_panel_shape (type).block;

  for (gsize i = 0; i < n; i++)
    {
      gint r = run->r[i / block];
      gint w = llk_run_weight (type, base[run->codes[i]], r);
      gdouble exact = base[run->codes[i]] * r * (gdouble) llk_run_step (type);

      dst[i] = fabs ((gdouble) run->scale) * fmax (fabs (exact), ABS (w))
               + fabs ((gdouble) run->min_scale * run->m[i / block]);
    }
}

void
rig_get_exact (LlkType       type,
               const LlkRun *run,
               gsize         n,
               gdouble      *dst)
{
  const int16_t *base = llk_run_base (type);
  guint block = llk_panel_shape (type).block;

  for (gsize i = 0; i < n; i++)
    dst[i] = (gdouble) run->scale * base[run->codes[i]] * run->r[i / block]
               * (gdouble) llk_run_step (type)
             + (gdouble) run->min_scale * run->m[i / block];
}

static gfloat
make_value (RigRows fill)
{
  gdouble value = g_test_rand_double_range (-1, 1);

  switch (fill)
    {
    case RIG_ROWS_NORMAL:
    case RIG_ROWS_SINGLE:
      return (gfloat) (3 * value);
    case RIG_ROWS_OUTLIERS:
      return (gfloat) (g_test_rand_int_range (0, 100) == 0 ? 300 * value : 3 * value);
    case RIG_ROWS_LARGE:
      return (gfloat) (1e25 * value);
    case RIG_ROWS_DENORMAL:
      return (gfloat) (1e-38 * value);
    case RIG_ROWS_MIXED:
      return (gfloat) (value * pow (10, g_test_rand_int_range (-12, 8)));
    case RIG_ROWS_OVERFLOW:
      return (gfloat) (FLT_MAX * value);
    default:
      return 0;
    }
}

void
rig_fill_rows (RigRows fill,
               gfloat *x,
               gsize   n_rows,
               gsize   n_in)
{
  for (gsize r = 0; r < n_rows; r++)
    for (gsize i = 0; i < n_in; i++)
      {
        gboolean is_zero = fill == RIG_ROWS_SINGLE && i != (r * 37 + n_in / 3) % n_in;

        x[r * n_in + i] = is_zero ? 0 : make_value (fill);
      }
}

void
rig_restore_row (LlkActivation form,
                 gconstpointer row,
                 gsize         n,
                 gdouble      *x)
{
  const LlkActivationRun *runs = row;
  const LlkOutlier *outliers = llk_activation_get_outliers (row, n);

  for (gsize i = 0; i < n; i++)
    switch (form)
      {
      case LLK_ACTIVATION_F32:
        x[i] = ((const gfloat *) row)[i];
        break;
      case LLK_ACTIVATION_BF16:
        {
          guint32 bits = (guint32) ((const guint16 *) row)[i] << 16;
          gfloat value;

          memcpy (&value, &bits, sizeof value);
          x[i] = value;
        }
        break;
      default:
        x[i] = (gdouble) runs[i / LLK_RUN].q[i % LLK_RUN] * runs[i / LLK_RUN].scale;
        break;
      }
  for (gsize i = 0; form == LLK_ACTIVATION_Q8 && i < n; i += LLK_RUN)
    for (guint k = 0; k < runs[i / LLK_RUN].n_outliers; k++, outliers++)
      x[i + outliers->place] = (gdouble) outliers->x;
}

gboolean
rig_is_same (gfloat a,
             gfloat b)
{
  return memcmp (&a, &b, sizeof a) == 0 || (isnan (a) && isnan (b));
}

gpointer
rig_alloc (gsize size)
{
  gpointer mem = aligned_alloc (64, (size + 63) / 64 * 64);

  g_assert_nonnull (mem);
  memset (mem, 0xff, (size + 63) / 64 * 64);
  return mem;
}

void
rig_free (gpointer mem)
{
  free (mem);
}
