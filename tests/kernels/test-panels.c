/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Panels: what products see of a file's weights, how near it is to them, the layout byte
 * by byte, and panels of a part of the inputs. */

#include <math.h>
#include <string.h>

#include "weights-rig.h"

/* A matrix of random bytes. */
typedef struct
{
  LlkType type;
  gsize n_in, n_out;
  gsize row_bytes;
  guint8 *rows;
} Matrix;

static void
init_matrix (Matrix  *m,
             LlkType  type,
             gsize    n_in,
             gsize    n_out,
             RigFill  fill)
{
  gsize n_blocks = n_in / llk_type_block_size (type);

  *m = (Matrix) { type, n_in, n_out, n_blocks * llk_type_block_bytes (type), NULL };
  m->rows = g_malloc (m->row_bytes * n_out);
  rig_fill_weights (type, fill, m->rows, n_blocks * n_out);
}

static guint8 *
pack (const Matrix *m,
      gsize         first,
      gsize         in_first,
      gsize         n)
{
  gsize bytes = llk_panel_bytes (m->type, in_first, n);
  guint8 *panel = rig_alloc (bytes + 64);

  g_assert_cmpuint (bytes % LLK_PANEL_ALIGNMENT, ==, 0);
  llk_panel_pack (m->type, m->rows, m->row_bytes, m->n_in, m->n_out, first, in_first, n, panel);
  for (guint i = 0; i < 64; i++)
    g_assert_cmphex (panel[bytes + i], ==, 0xff);
  return panel;
}

/* --- what products see --- */

/* The run at input @at, as the file has it, and as the panel has it that begins with it. */
static void
check_run (const Matrix *m,
           gsize         output,
           gsize         at,
           const guint8 *src)
{
  gsize n = MIN (LLK_RUN, m->n_in - at), block = llk_type_block_size (m->type);
  LlkRun expected, run;

  llk_run_read (m->type,
                m->rows + output * m->row_bytes + at / block * llk_type_block_bytes (m->type), n,
                &expected);
  llk_panel_get_run (m->type, src, n, output % LLK_PANEL_OUTPUTS, &run);
  g_assert_true (rig_is_same (run.scale, expected.scale));
  g_assert_true (rig_is_same (run.min_scale, expected.min_scale));
  g_assert_cmpmem (run.codes, sizeof run.codes, expected.codes, sizeof expected.codes);
  g_assert_cmpmem (run.r, sizeof run.r, expected.r, sizeof expected.r);
  g_assert_cmpmem (run.m, sizeof run.m, expected.m, sizeof expected.m);
}

/* How far a weight of @n from the exact ones may be, by the table in llk-run.h.
 * Halves of steps are what rounding w takes; where multipliers are ratios, these are
 * rounded too. */
static gdouble
get_error (const Matrix *m,
           const guint8 *blocks,
           gsize         n)
{
  gsize bytes = llk_type_block_bytes (m->type), n_blocks = n / llk_type_block_size (m->type);
  gdouble d = 0, min = 0, middle = m->type == LLK_Q4_1 ? 8 : 16;
  gboolean has_min = m->type == LLK_Q4_1 || m->type == LLK_Q5_1;
  gboolean has_turned = FALSE; /* of a negative scale */

  for (gsize b = 0; b < n_blocks; b++)
    {
      RigScales scales = rig_get_scales (m->type, blocks + b * bytes);

      has_turned |= scales.d < 0;
      d = fmax (d, fabs (scales.d));
      min = fmax (min, has_min ? fabs (scales.min + middle * scales.d) : 0);
    }
  switch (m->type)
    {
    case LLK_Q4_0:
    case LLK_Q4_1:
      return 8 * d / 127 + min / 32767 / 2;
    case LLK_Q5_0:
    case LLK_Q5_1:
      return 16 * d / 127 + min / 32767 / 2;
    case LLK_Q1_0:
      return d / 127 / 2;
    case LLK_IQ4_NL:
      return 128 * d / 127;
    case LLK_MXFP4:
      return d / 10;
    case LLK_Q4_K:
      return 4 * d / 2;
    case LLK_Q5_K:
      return 8 * d / 2;
    case LLK_Q6_K:
    case LLK_IQ4_XS:
      return 32 * d / 2;
    case LLK_IQ3_XXS:
    case LLK_IQ3_S:
      return 4 * d / 2;
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      return 4 * d / 3 / 2;
    case LLK_Q8_0:
      return d / 2 + 128 * d / 256 + (has_turned ? d : 0);  /* no multiplier is 255 */
    default:
      return 0;
    }
}

/* Near the file's weights: exactly those of plain types. */
static void
check_near (const Matrix *m,
            gsize         output,
            const guint8 *panel)
{
  gsize block = llk_type_block_size (m->type);
  gboolean is_plain = llk_panel_shape (m->type).bits == 0;
  g_autofree gfloat *found = g_new (gfloat, m->n_in + 1), *w = g_new (gfloat, m->n_in);
  const guint8 *row = m->rows + output * m->row_bytes;

  found[m->n_in] = 42;
  llk_panel_unpack (m->type, panel, 0, m->n_in, output % LLK_PANEL_OUTPUTS, found);
  g_assert_cmpfloat (found[m->n_in], ==, 42);
  llk_ops_portable ()->vector->unpack (m->type, row, w, m->n_in);
  for (gsize i = 0; is_plain && i < m->n_in; i++)
    g_assert_true (rig_is_same (found[i], w[i]));

  for (gsize at = 0; !is_plain && at < m->n_in; at += LLK_RUN)
    {
      gsize n = MIN (LLK_RUN, m->n_in - at);
      const guint8 *blocks = row + at / block * llk_type_block_bytes (m->type);
      gdouble error = get_error (m, blocks, n), magnitudes[LLK_RUN];
      LlkRun run;

      llk_run_read (m->type, blocks, n, &run);
      rig_get_magnitudes (m->type, &run, n, magnitudes);
      for (gsize i = 0; i < n; i++)
        /* Scales and weights are floats. */
        g_assert_cmpfloat_with_epsilon ((gdouble) found[at + i], (gdouble) w[at + i],
                                        error * 1.0001 + magnitudes[i] * 0x1p-21 + 0x1p-140);
    }
}

static void
check_panel (const Matrix *m,
             gsize         first,
             gboolean      is_finite)
{
  LlkPanelShape shape = llk_panel_shape (m->type);
  g_autofree gfloat *values = g_new (gfloat, m->n_in);
  guint8 *panel = pack (m, first, 0, m->n_in);

  for (gsize o = first; o < MIN (first + LLK_PANEL_OUTPUTS, m->n_out); o++)
    {
      const guint8 *src = panel;

      for (gsize at = 0; shape.bits != 0 && at < m->n_in; at += LLK_RUN)
        {
          check_run (m, o, at, src);
          src += llk_panel_run_bytes (shape, MIN (LLK_RUN, m->n_in - at));
        }
      if (is_finite || shape.bits == 0)
        check_near (m, o, panel);
    }
  for (gsize o = m->n_out - first; o < LLK_PANEL_OUTPUTS; o++)
    {
      llk_panel_unpack (m->type, panel, 0, m->n_in, o, values);
      for (gsize i = 0; i < m->n_in; i++)
        g_assert_cmpfloat (values[i], ==, 0);
    }
  rig_free (panel);
}

static void
test_values (gconstpointer data)
{
  static const gsize outputs[] = { 1, 2, 15, 16, 17, 35 };
  LlkType type = *(const LlkType *) data;
  gsize block = llk_type_block_size (type);
  gsize sizes[] = { block, 2 * block, 3 * block, 4 * block, 5 * block, 33 * block, 2048 };
  Matrix m;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (outputs); j++)
      for (RigFill fill = 0; fill < RIG_N_FILLS && sizes[i] <= 2048; fill++)
        {
          init_matrix (&m, type, sizes[i], outputs[j], fill);
          for (gsize first = 0; first < outputs[j]; first += LLK_PANEL_OUTPUTS)
            check_panel (&m, first, fill != RIG_ANY);
          g_free (m.rows);
        }
}

/* --- parts of the inputs --- */

/* Wherever a part begins, its weights are those of the whole. */
static void
test_parts (gconstpointer data)
{
  LlkType type = *(const LlkType *) data;
  gsize block = llk_type_block_size (type);
  gsize n_in = block == 1 ? 1003 : block == 32 ? 1120 : 1280, n_out = 19;
  g_autofree gfloat *whole = g_new (gfloat, n_in), *part = g_new (gfloat, n_in);
  guint8 *panel, *cut;
  Matrix m;

  for (RigFill fill = RIG_NORMAL; fill <= RIG_ANY; fill += RIG_ANY)
    {
      init_matrix (&m, type, n_in, n_out, fill);
      panel = pack (&m, LLK_PANEL_OUTPUTS, 0, n_in);
      for (gsize from = 0; from < n_in; from += LLK_PIECE_INPUTS)
        for (gsize to = from; to < n_in + LLK_PIECE_INPUTS; to += LLK_PIECE_INPUTS)
          {
            gsize n = MIN (to, n_in) - from;

            cut = pack (&m, LLK_PANEL_OUTPUTS, from, n);
            for (gsize o = 0; o < LLK_PANEL_OUTPUTS; o++)
              {
                llk_panel_unpack (type, panel, 0, n_in, o, whole);
                llk_panel_unpack (type, cut, from, n, o, part);
                for (gsize i = 0; i < n; i++)
                  g_assert_true (rig_is_same (part[i], whole[from + i]));
              }
            rig_free (cut);
          }
      rig_free (panel);
      g_free (m.rows);
    }
}

/* --- the layout --- */

/* Bits of the byte at @place. */
static guint
get_bits (const guint8 *place,
          guint         shift,
          guint         n)
{
  return *place >> shift & ((1u << n) - 1);
}

static guint
get_bit (const guint8 *place,
         gsize         bit)
{
  return place[bit / 8] >> bit % 8 & 1;
}

/* Code @i of output 6, which is in lane 1 of vector 2: @codes are those of its run. */
static guint
get_code (LlkType       type,
          const guint8 *codes,
          gsize         i)
{
  const gsize at = 2 * 64 + 16;
  gsize in_32 = i % 32, in_64 = i % 64;

  switch (llk_panel_shape (type).bits)
    {
    case 8:
      return codes[i / 4 * 64 + 4 * 6 + i % 4];
    case 4:
      return get_bits (codes + i / 32 * 256 + at + in_32 % 16, in_32 / 16 * 4, 4);
    case 5:
      return get_bits (codes + i / 32 * 320 + at + in_32 % 16, in_32 / 16 * 4, 4)
             | get_bit (codes + i / 32 * 320 + 256 + 2 * 16 + in_32 / 16 * 8, 16 + in_32 % 16) << 4;
    case 6:
      return get_bits (codes + i / 64 * 768 + in_64 / 32 * 256 + at + in_32 % 16,
                       in_32 / 16 * 4, 4)
             | get_bits (codes + i / 64 * 768 + 512 + at + in_64 % 16, in_64 / 16 * 2, 2) << 4;
    case 3:
      return get_bits (codes + i / 64 * 384 + at + in_64 % 16, in_64 / 16 * 2, 2)
             | get_bit (codes + i / 64 * 384 + 256 + 2 * 32 + in_64 / 16 * 8, 16 + in_64 % 16) << 2;
    default:
      return get_bits (codes + i / 64 * 256 + at + in_64 % 16, in_64 / 16 * 2, 2);
    }
}

/* Each byte that output 6 has in a run of 256 inputs is where llk-panel.h says. */
static void
check_layout (LlkType type)
{
  gsize r = type == LLK_Q4_1 || type == LLK_Q5_1 ? 128 : 64;
  gsize n_blocks = llk_panel_shape (type).block == 16 ? 16 : 8;
  gsize codes = r + 16 * n_blocks;
  guint8 *panel;
  gfloat scale;
  gint16 minimum;
  LlkRun run;
  Matrix m;

  init_matrix (&m, type, 256, 7, RIG_MIXED);
  memset (m.rows, 0, 6 * m.row_bytes);
  panel = pack (&m, 0, 0, 256);
  llk_run_read (type, m.rows + 6 * m.row_bytes, 256, &run);

  if (type == LLK_Q2_K || type == LLK_Q4_K || type == LLK_Q5_K)
    {
      g_assert_cmpmem (panel + 2 * 6, 2, &run.half_scale, 2);
      g_assert_cmpmem (panel + 32 + 2 * 6, 2, &run.half_min, 2);
    }
  else
    {
      memcpy (&scale, panel + 4 * 6, 4);
      g_assert_cmpfloat (scale, ==, run.scale);
    }
  if (r == 128)
    {
      memcpy (&scale, panel + 64 + 4 * 6, 4);
      g_assert_cmpfloat (scale, ==, run.min_scale);
    }
  for (gsize b = 0; b < n_blocks; b++)
    if (type == LLK_Q2_K)
      g_assert_cmpint (panel[r + b / 4 * 64 + 4 * 6 + b % 4], ==, run.r[b] | run.m[b] << 4);
    else if (type == LLK_Q8_0)
      g_assert_cmpint (panel[r + b / 4 * 64 + 4 * 6 + b % 4], ==, MIN (run.r[b], 255));
    else
      g_assert_cmpint ((gint8) panel[r + b / 4 * 64 + 4 * 6 + b % 4], ==, run.r[b]);
  if (type == LLK_Q4_K || type == LLK_Q5_K)
    {
      for (gsize b = 0; b < 8; b++)
        g_assert_cmpint (panel[codes + b / 4 * 64 + 4 * 6 + b % 4], ==, run.m[b]);
      codes += 128;
    }
  if (r == 128)
    {
      for (gsize b = 0; b < 8; b++)
        {
          /* Of four blocks 0 and 2 side by side, then 1 and 3. */
          static const gsize places[] = { 4 * 6, 64 + 4 * 6, 4 * 6 + 2, 64 + 4 * 6 + 2 };

          memcpy (&minimum, panel + codes + b / 4 * 128 + places[b % 4], 2);
          g_assert_cmpint (minimum, ==, run.m[b]);
        }
      codes += 256;
    }
  for (gsize i = 0; i < 256; i++)
    g_assert_cmpuint (get_code (type, panel + codes, i), ==, run.codes[i]);
  g_assert_cmpuint (llk_panel_bytes (type, 0, 256), ==,
                    codes + 512 * llk_panel_shape (type).bits);

  rig_free (panel);
  g_free (m.rows);
}

/* Plain types: input 0, 1, 2, … of output 6. */
static void
check_plain_layout (LlkType type)
{
  gsize bytes = llk_type_block_bytes (type);
  guint8 *panel;
  Matrix m;

  init_matrix (&m, type, 7, 7, RIG_NORMAL);
  panel = pack (&m, 0, 0, 7);
  for (gsize i = 0; i < 7; i++)
    {
      gsize place = type == LLK_BF16 ? i / 2 * 64 + 4 * 6 + i % 2 * 2 : (i * 16 + 6) * bytes;

      g_assert_cmpmem (panel + place, bytes, m.rows + 6 * m.row_bytes + i * bytes, bytes);
    }
  rig_free (panel);
  g_free (m.rows);
}

static void
test_layout (gconstpointer data)
{
  LlkType type = *(const LlkType *) data;

  if (llk_panel_shape (type).bits == 0)
    check_plain_layout (type);
  for (guint i = 0; i < 8 && llk_panel_shape (type).bits != 0; i++)
    check_layout (type);
}

static void
test_sizes (void)
{
  g_assert_cmpuint (llk_panel_bytes (LLK_F32, 0, 3), ==, 3 * 64);
  g_assert_cmpuint (llk_panel_bytes (LLK_F16, 0, 3), ==, 128);
  g_assert_cmpuint (llk_panel_bytes (LLK_BF16, 64, 3), ==, 128);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q8_0, 0, 32), ==, 64 + 128 + 32 * 16);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q8_0, 0, 0), ==, 0);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q4_0, 0, 64), ==, 64 + 128 + 64 * 8);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q4_1, 0, 32), ==, 128 + 128 + 256 + 32 * 8);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q4_K, 0, 512), ==, 2 * (64 + 128 + 128) + 512 * 8);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q5_0, 0, 256), ==, 64 + 128 + 256 * 10);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q6_K, 0, 512), ==, 2 * (64 + 256) + 512 * 12);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q3_K, 0, 256), ==, 64 + 256 + 256 * 6);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q2_K, 0, 256), ==, 64 + 256 + 256 * 4);
  /* The runs that a part touches: two for these 128 inputs. */
  g_assert_cmpuint (llk_panel_bytes (LLK_Q2_K, 192, 128), ==, 2 * (64 + 256) + 128 * 4);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q2_K, 128, 128), ==, 64 + 256 + 128 * 4);
  g_assert_cmpuint (llk_panel_bytes (LLK_Q2_K, 192, 0), ==, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/panels/sizes", test_sizes);
  for (guint i = 0; i < RIG_N_TYPES; i++)
    {
      const gchar *name = llk_type_name (rig_types[i]);
      g_autofree gchar *values = g_strdup_printf ("/panels/values/%s", name);
      g_autofree gchar *parts = g_strdup_printf ("/panels/parts/%s", name);
      g_autofree gchar *layout = g_strdup_printf ("/panels/layout/%s", name);

      g_test_add_data_func (values, &rig_types[i], test_values);
      g_test_add_data_func (parts, &rig_types[i], test_parts);
      g_test_add_data_func (layout, &rig_types[i], test_layout);
    }

  return g_test_run ();
}
