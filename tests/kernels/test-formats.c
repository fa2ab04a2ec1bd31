/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The formats of weights: blocks written value by value from known integers and
 * scales, as floats and as runs, and checksums of what another program reads from the
 * same bytes. */

#include <math.h>
#include <string.h>

#include "weights-rig.h"

/* What a block means, before it is written. */
typedef struct
{
  guint q[256];        /* integers as stored, unsigned */
  guint scales[16];    /* as stored: 6 bits, 8 bits for Q6_K, 4 bits for Q2_K */
  guint mins[16];
  gdouble d, min;      /* halves; of MXFP4 a power of two */
} Known;

/* The shape of a type's integers. */
typedef struct
{
  LlkType type;
  guint n_bits;        /* of an integer */
  guint n_scales;      /* in a block, 0 for d alone */
  guint scale_bits;
  gboolean has_mins;   /* in the block for each scale */
} Form;

static const Form forms[] = {
  { LLK_Q4_0, 4, 0, 0, FALSE },   { LLK_Q4_1, 4, 0, 0, FALSE },  { LLK_Q5_0, 5, 0, 0, FALSE },
  { LLK_Q5_1, 5, 0, 0, FALSE },   { LLK_Q8_0, 8, 0, 0, FALSE },  { LLK_Q2_K, 2, 16, 4, TRUE },
  { LLK_Q3_K, 3, 16, 6, FALSE },  { LLK_Q4_K, 4, 8, 6, TRUE },   { LLK_Q5_K, 5, 8, 6, TRUE },
  { LLK_Q6_K, 6, 16, 8, FALSE },  { LLK_IQ4_NL, 4, 0, 0, FALSE }, { LLK_IQ4_XS, 4, 8, 6, FALSE },
  { LLK_MXFP4, 4, 0, 0, FALSE },  { LLK_Q1_0, 1, 0, 0, FALSE },
};

/* Bits [@from, @from + @n_bits) of @value to bit @shift of a byte. */
static void
put (guint8 *byte,
     guint   shift,
     guint   value,
     guint   from,
     guint   n_bits)
{
  *byte |= (guint8) ((value >> from & ((1u << n_bits) - 1)) << shift);
}

static void
put_half (guint8 *dst,
          gdouble value)
{
  gfloat single = (gfloat) value;
  guint16 half;

  llk_ops_portable ()->vector->f32_to_f16 (&single, &half, 1);
  dst[0] = half & 255;
  dst[1] = half >> 8;
}

/* The integers of blocks of 32: the low parts from @nibbles, fifth bits from @ones. */
static void
put_short (const Known *known,
           guint8      *nibbles,
           guint8      *ones)
{
  for (guint e = 0; e < 32; e++)
    {
      put (nibbles + e % 16, e < 16 ? 0 : 4, known->q[e], 0, 4);
      if (ones != NULL)
        put (ones + e / 8, e % 8, known->q[e], 4, 1);
    }
}

static void
write_k_block (LlkType      type,
               const Known *known,
               guint8      *dst)
{
  for (guint i = 0; i < 16; i++)
    {
      guint s = known->scales[i], m = known->mins[i];

      switch (type)
        {
        case LLK_Q2_K:
          dst[i] = (guint8) (s | m << 4);
          break;
        case LLK_Q3_K:
          put (dst + 96 + i % 8, i < 8 ? 0 : 4, s, 0, 4);
          put (dst + 96 + 8 + i % 4, 2 * (i / 4), s, 4, 2);
          break;
        case LLK_Q4_K:
        case LLK_Q5_K:
          if (i < 4)
            {
              put (dst + 4 + i, 0, s, 0, 6);
              put (dst + 8 + i, 0, m, 0, 6);
            }
          else if (i < 8)
            {
              put (dst + 8 + i, 0, s, 0, 4);
              put (dst + i, 6, s, 4, 2);
              put (dst + 8 + i, 4, m, 0, 4);
              put (dst + 4 + i, 6, m, 4, 2);
            }
          break;
        case LLK_Q6_K:
          dst[192 + i] = (guint8) s;
          break;
        default:
          if (i < 8)
            {
              put (dst + 4 + i / 2, 4 * (i % 2), s, 0, 4);
              put (dst + 2 + i / 4, 2 * (i % 4), s, 4, 2);
            }
          break;
        }
    }

  for (guint e = 0; e < 256; e++)
    {
      guint h = e / 128, j = e / 32 % 4, l = e % 32, q = known->q[e];

      switch (type)
        {
        case LLK_Q2_K:
          put (dst + 16 + 32 * h + l, 2 * j, q, 0, 2);
          break;
        case LLK_Q3_K:
          put (dst + 32 + 32 * h + l, 2 * j, q, 0, 2);
          put (dst + l, 4 * h + j, q, 2, 1);
          break;
        case LLK_Q4_K:
          put (dst + 16 + 32 * (e / 64) + l, e / 32 % 2 * 4, q, 0, 4);
          break;
        case LLK_Q5_K:
          put (dst + 48 + 32 * (e / 64) + l, e / 32 % 2 * 4, q, 0, 4);
          put (dst + 16 + l, e / 32, q, 4, 1);
          break;
        case LLK_Q6_K:
          put (dst + 64 * h + 32 * (j % 2) + l, j < 2 ? 0 : 4, q, 0, 4);
          put (dst + 128 + 32 * h + l, 2 * j, q, 4, 2);
          break;
        default:
          put (dst + 8 + 16 * (e / 32) + l % 16, l < 16 ? 0 : 4, q, 0, 4);
          break;
        }
    }
}

static void
write_block (LlkType      type,
             const Known *known,
             guint8      *dst)
{
  memset (dst, 0, llk_type_block_bytes (type));
  switch (type)
    {
    case LLK_Q4_0:
    case LLK_IQ4_NL:
      put_half (dst, known->d);
      put_short (known, dst + 2, NULL);
      break;
    case LLK_MXFP4:
      dst[0] = (guint8) (ilogb (known->d) + 128);
      put_short (known, dst + 1, NULL);
      break;
    case LLK_Q4_1:
      put_half (dst, known->d);
      put_half (dst + 2, known->min);
      put_short (known, dst + 4, NULL);
      break;
    case LLK_Q5_0:
      put_half (dst, known->d);
      put_short (known, dst + 6, dst + 2);
      break;
    case LLK_Q5_1:
      put_half (dst, known->d);
      put_half (dst + 2, known->min);
      put_short (known, dst + 8, dst + 4);
      break;
    case LLK_Q1_0:
      put_half (dst, known->d);
      for (guint e = 0; e < 128; e++)
        put (dst + 2 + e / 8, e % 8, known->q[e], 0, 1);
      break;
    case LLK_Q8_0:
      put_half (dst, known->d);
      for (guint e = 0; e < 32; e++)
        dst[2 + e] = (guint8) known->q[e];
      break;
    default:
      write_k_block (type, known, dst);
      put_half (dst + (type == LLK_Q2_K ? 80 : type == LLK_Q3_K ? 108 : type == LLK_Q6_K ? 208 : 0),
                known->d);
      if (type == LLK_Q2_K)
        put_half (dst + 82, known->min);
      else if (type == LLK_Q4_K || type == LLK_Q5_K)
        put_half (dst + 2, known->min);
      break;
    }
}

/* Value @e by the definition, in double, where all but the last sum is exact. */
static gdouble
get_value (const Form  *form,
           const Known *known,
           guint        e)
{
  static const gint iq4[] = { -127, -104, -83, -65, -49, -35, -22, -10,
                              1, 13, 25, 38, 53, 69, 89, 113 };
  static const gdouble mxfp4[] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
  gint q = (gint) known->q[e];
  guint run = form->n_scales > 0 ? e * form->n_scales / 256 : 0;
  gint s = (gint) known->scales[run], m = (gint) known->mins[run];

  switch (form->type)
    {
    case LLK_Q4_0:
      return known->d * (q - 8);
    case LLK_Q5_0:
      return known->d * (q - 16);
    case LLK_Q4_1:
    case LLK_Q5_1:
      return known->d * q + known->min;
    case LLK_Q8_0:
      return known->d * (gint8) q;
    case LLK_IQ4_NL:
      return known->d * iq4[q];
    case LLK_Q1_0:
      return q != 0 ? known->d : -known->d;
    case LLK_MXFP4:
      return known->d * 2 * (q < 8 ? mxfp4[q] : -mxfp4[q - 8]);
    case LLK_Q2_K:
    case LLK_Q4_K:
    case LLK_Q5_K:
      return known->d * s * q - known->min * m;
    case LLK_Q3_K:
      return known->d * (s - 32) * (q - 4);
    case LLK_Q6_K:
      return known->d * (gint8) s * (q - 32);
    default:
      return known->d * (s - 32) * iq4[q];
    }
}

/* What products see of value @e, by the table in llk-run.h: of a run of this block. */
static gdouble
get_run_value (const Form  *form,
               const Known *known,
               guint        e)
{
  static const gint iq4[] = { -127, -104, -83, -65, -49, -35, -22, -10,
                              1, 13, 25, 38, 53, 69, 89, 113 };
  gint q = (gint) known->q[e];
  guint b = form->n_scales > 0 ? e * form->n_scales / 256 : 0;
  gint s = (gint) known->scales[b], m = (gint) known->mins[b];
  gint full = known->d > 0 ? 127 : known->d < 0 ? -127 : 0;
  gdouble d = known->d, step = fabs (d) / 127, min = -known->min * m;
  gint base, r = s;

  switch (form->type)
    {
    case LLK_Q4_0:
    case LLK_Q4_1:
      base = 16 * (q - 8), r = full, step *= 8;
      min = form->type == LLK_Q4_1 ? known->min + 8 * d : 0;
      break;
    case LLK_Q5_0:
    case LLK_Q5_1:
      base = 8 * (q - 16), r = full, step *= 16;
      min = form->type == LLK_Q5_1 ? known->min + 16 * d : 0;
      break;
    case LLK_IQ4_NL:
      base = iq4[q], r = full, step *= 128;
      break;
    case LLK_IQ4_XS:
      base = 4 * iq4[q], r = s - 32, step = 32 * d;
      break;
    case LLK_Q4_K:
      base = 32 * q, step = 4 * d;
      break;
    case LLK_Q5_K:
      base = 16 * q, step = 8 * d;
      break;
    case LLK_Q6_K:
      base = 4 * (32 - q), r = (gint8) s, step = -32 * d;
      break;
    case LLK_Q8_0:
      return d < 0 && q == 128 ? -127 * d : get_value (form, known, e);
    default: /* exact */
      return get_value (form, known, e);
    }
  return step * floor ((base * r + 64) / 128.0) + min;
}

/* Through every way from a block to floats. */
static void
check_known (const Form  *form,
             const Known *known)
{
  gsize n = llk_type_block_size (form->type);
  gsize bytes = llk_type_block_bytes (form->type);
  guint8 *block = g_malloc (bytes);
  gpointer panel = rig_alloc (llk_panel_bytes (form->type, 0, n));
  gdouble largest = 0;
  gfloat values[256];

  write_block (form->type, known, block);
  llk_panel_pack (form->type, block, bytes, n, 1, 0, 0, n, panel);
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    {
      llk_ops_find (*name)->vector->unpack (form->type, block, values, n);
      for (guint e = 0; e < n; e++)
        g_assert_cmpfloat (values[e], ==, (gfloat) get_value (form, known, e));
    }

  llk_panel_unpack (form->type, panel, 0, n, 0, values);
  for (guint e = 0; e < n; e++)
    largest = fmax (largest, fabs (get_value (form, known, e)));
  largest = fmax (largest, fabs (known->min) * 63 + fabs (known->d) * 16);
  for (guint e = 0; e < n; e++)
    {
      gdouble expected = get_run_value (form, known, e);
      /* Scales are rounded to floats. */
      gdouble tolerance = largest * 0x1p-21;

      g_assert_cmpfloat_with_epsilon ((gdouble) values[e], expected, tolerance + 0x1p-136);
    }

  rig_free (panel);
  g_free (block);
}

static void
test_known (gconstpointer data)
{
  const Form *form = data;
  gsize n = llk_type_block_size (form->type);
  guint q_end = 1u << form->n_bits, s_end = 1u << form->scale_bits;
  gdouble scales[] = { 1, -1, 0.333251953125, 65504, -65504, 0x1p-24, 1023 * 0x1p-24, 0x1p-14 };
  Known known = { .d = 1, .min = 0.5 };

  /* Each integer alone is as large as it gets, among zeros; and the reverse. */
  for (guint is_zero = 0; is_zero < 2; is_zero++)
    for (guint e = 0; e < n; e++)
      {
        for (guint i = 0; i < n; i++)
          known.q[i] = (i == e) != is_zero ? q_end - 1 : 0;
        for (guint i = 0; i < form->n_scales; i++)
          {
            known.scales[i] = (e + i) % s_end;
            known.mins[i] = form->has_mins ? (e + 7 * i) % s_end : 0;
          }
        check_known (form, &known);
      }

  /* Every integer with every scale. */
  for (guint s = 0; s < s_end; s++)
    for (guint first = 0; first < 2; first++)
      {
        for (guint i = 0; i < n; i++)
          known.q[i] = (i * 5 + s) % q_end;
        for (guint i = 0; i < form->n_scales; i++)
          {
            known.scales[i] = first == 0 || i == s % form->n_scales ? s : 0;
            known.mins[i] = !form->has_mins ? 0 : first == 0 ? s_end - 1 - s : s * i % s_end;
          }
        check_known (form, &known);
      }

  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    for (guint j = 0; j < G_N_ELEMENTS (scales); j++)
      {
        known.d = form->type == LLK_MXFP4 ? ldexp (1, (gint) (i * 8 + j) * 4 - 128) : scales[i];
        known.min = scales[j];
        for (guint e = 0; e < n; e++)
          known.q[e] = (guint) g_test_rand_int_range (0, (gint) q_end);
        for (guint s = 0; s < form->n_scales; s++)
          {
            known.scales[s] = (guint) g_test_rand_int_range (0, (gint) s_end);
            known.mins[s] = form->has_mins ? (guint) g_test_rand_int_range (0, (gint) s_end) : 0;
          }
        check_known (form, &known);
      }
}

/* Numbers and sizes as GGUF has them, and what llama.cpp 2026-08 (ggml 0.20.2) makes of
 * a hundred blocks of the bytes of make_byte(): a checksum of the floats' bits. */
typedef struct
{
  guint32 number;
  const gchar *name;
  gsize block_size, block_bytes;
  guint64 checksum;
} Peer;

static const Peer peers[] = {
  { 0, "F32", 1, 4, G_GUINT64_CONSTANT (0x7e17a06562b6e2b7) },
  { 1, "F16", 1, 2, G_GUINT64_CONSTANT (0x04f9e86e8b938375) },
  { 30, "BF16", 1, 2, G_GUINT64_CONSTANT (0x7a6eabb62b928375) },
  { 8, "Q8_0", 32, 34, G_GUINT64_CONSTANT (0x505e080765292065) },
  { 2, "Q4_0", 32, 18, G_GUINT64_CONSTANT (0x9dccc4f752195d25) },
  { 3, "Q4_1", 32, 20, G_GUINT64_CONSTANT (0x3db7aedeee1ec17a) },
  { 6, "Q5_0", 32, 22, G_GUINT64_CONSTANT (0x7c4902703731cf25) },
  { 7, "Q5_1", 32, 24, G_GUINT64_CONSTANT (0x7844a9a74e5fd563) },
  { 10, "Q2_K", 256, 84, G_GUINT64_CONSTANT (0x0cf57087a8f184ae) },
  { 11, "Q3_K", 256, 110, G_GUINT64_CONSTANT (0xa3cfca818a1c5765) },
  { 12, "Q4_K", 256, 144, G_GUINT64_CONSTANT (0xbd91c86e4096eeff) },
  { 13, "Q5_K", 256, 176, G_GUINT64_CONSTANT (0x6d9086f324087cb0) },
  { 14, "Q6_K", 256, 210, G_GUINT64_CONSTANT (0xad52d869038da4a1) },
  { 20, "IQ4_NL", 32, 18, G_GUINT64_CONSTANT (0x963b1253e0c84d25) },
  { 23, "IQ4_XS", 256, 136, G_GUINT64_CONSTANT (0xc3bdb9a74b673b8d) },
  { 39, "MXFP4", 32, 17, G_GUINT64_CONSTANT (0x616167c3176fdd25) },
  { 16, "IQ2_XXS", 256, 66, G_GUINT64_CONSTANT (0x9720e2a584ae3e11) },
  { 17, "IQ2_XS", 256, 74, G_GUINT64_CONSTANT (0xdf1e49d844d65cb5) },
  { 18, "IQ3_XXS", 256, 98, G_GUINT64_CONSTANT (0x2c284475697ea53d) },
  { 21, "IQ3_S", 256, 110, G_GUINT64_CONSTANT (0xf15e79d6e53bd005) },
  { 22, "IQ2_S", 256, 82, G_GUINT64_CONSTANT (0x2643993d45f4c59d) },
  { 41, "Q1_0", 128, 18, G_GUINT64_CONSTANT (0xc1f2297e17e18b25) },
};

static guint8
make_byte (guint32 *state)
{
  *state = *state * 1664525 + 1013904223;
  return (guint8) (*state >> 24);
}

static void
test_peer (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (peers); i++)
    {
      const Peer *peer = &peers[i];
      guint64 checksum = G_GUINT64_CONSTANT (0xcbf29ce484222325);
      guint32 state = peer->number;
      guint8 block[256];
      gfloat values[256];

      g_assert_true (llk_type_is_known (peer->number));
      g_assert_cmpstr (llk_type_name (peer->number), ==, peer->name);
      g_assert_cmpuint (llk_type_block_size (peer->number), ==, peer->block_size);
      g_assert_cmpuint (llk_type_block_bytes (peer->number), ==, peer->block_bytes);
      for (guint b = 0; b < 100; b++)
        {
          for (gsize j = 0; j < peer->block_bytes; j++)
            block[j] = make_byte (&state);
          llk_ops_portable ()->vector->unpack (peer->number, block, values, peer->block_size);
          for (gsize j = 0; j < peer->block_size; j++)
            {
              guint32 bits = 0x7fc00000;

              if (!isnan (values[j]))
                memcpy (&bits, values + j, sizeof bits);
              checksum = (checksum ^ bits) * G_GUINT64_CONSTANT (0x100000001b3);
            }
        }
      g_test_message ("%s", peer->name);
      g_assert_cmphex (checksum, ==, peer->checksum);
    }
}

static void
test_unknown (void)
{
  guint n_known = 0;

  for (guint32 type = 0; type < 1000; type++)
    {
      n_known += llk_type_is_known (type);
      if (!llk_type_is_known (type))
        {
          g_assert_null (llk_type_name (type));
          g_assert_cmpuint (llk_type_block_size (type), ==, 0);
          g_assert_cmpuint (llk_type_block_bytes (type), ==, 0);
        }
    }
  g_assert_cmpuint (n_known, ==, RIG_N_TYPES);
  g_assert_false (llk_type_is_known (G_MAXUINT32));
}

/* Any bytes, with NaN and infinite scales, are the same for every set, at any address. */
static void
test_unpack (gconstpointer data)
{
  LlkType type = *(const LlkType *) data;
  gsize n = 7 * llk_type_block_size (type);
  gsize bytes = 7 * llk_type_block_bytes (type);

  for (guint round = 0; round < 50; round++)
    for (const char *const *name = llk_ops_list (); *name != NULL; name++)
      {
        guint8 *whole = g_malloc (bytes + 3), *src = whole + round % 4;
        gfloat *values = g_new (gfloat, n + 1), *expected = g_new (gfloat, n);

        rig_fill_weights (type, round % RIG_N_FILLS, src, 7);
        values[n] = 42;
        llk_ops_find (*name)->vector->unpack (type, src, values, n);
        llk_ops_portable ()->vector->unpack (type, src, expected, n);
        for (gsize i = 0; i < n; i++)
          g_assert_true (rig_is_same (values[i], expected[i]));
        g_assert_cmpfloat (values[n], ==, 42);
        g_free (whole);
        g_free (values);
        g_free (expected);
      }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/formats/peer", test_peer);
  g_test_add_func ("/formats/unknown", test_unknown);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/formats/known/%s", llk_type_name (forms[i].type));

      g_test_add_data_func (path, &forms[i], test_known);
    }
  for (guint i = 0; i < RIG_N_TYPES; i++)
    {
      const gchar *name = llk_type_name (rig_types[i]);
      g_autofree gchar *unpack = g_strdup_printf ("/formats/unpack/%s", name);

      g_test_add_data_func (unpack, &rig_types[i], test_unpack);
    }

  return g_test_run ();
}
