/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products by the definition in llk-product.h. The weights of a run are unpacked once for
 * some rows. */

#include "kernels/llk-run.h"
#include "kernels/portable/llk-portable.h"

#define N LLK_PANEL_OUTPUTS
#define MAX_ROWS 32          /* that share what was unpacked */
#define N_BLOCKS (LLK_RUN / 16)

/* 256 inputs of a panel, by input. */
typedef struct
{
  int16_t w[LLK_RUN][N];
  int16_t exact[LLK_RUN][N]; /* W */
  int16_t m[N_BLOCKS][N];    /* of each 16 or 32 inputs */
  float scale[N];
  float min_scale[N];
} Run;

/* A place in a matrix, along its inputs. */
typedef struct
{
  size_t input;
  size_t piece;
  size_t in_piece;           /* inputs of it that are done */
  size_t offset;             /* bytes of its panel that are done */
} Place;

/* Inputs up to the end of the run or of the piece; goes to the next piece first where one
 * ended. */
static size_t
find_part (const LlkMatrix *w,
           Place           *place)
{
  size_t in_run = LLK_RUN - place->input % LLK_RUN;
  size_t in_piece;

  while (place->in_piece == w->pieces[place->piece].n_in)
    {
      place->piece++;
      place->in_piece = place->offset = 0;
    }
  in_piece = w->pieces[place->piece].n_in - place->in_piece;
  return in_run < in_piece ? in_run : in_piece;
}

static void
unpack_part (LlkType        type,
             const uint8_t *src,
             size_t         first,
             size_t         n,
             Run           *run)
{
  const size_t block = llk_panel_shape (type).block;
  const int16_t *base = llk_run_base (type);
  LlkRun part;

  for (size_t o = 0; o < N; o++)
    {
      llk_panel_get_run (type, src, n, o, &part);
      run->scale[o] = part.scale;
      run->min_scale[o] = part.min_scale;
      for (size_t i = 0; i < n; i++)
        {
          const int value = base[part.codes[i]];

          run->exact[first + i][o] = (int16_t) (value * part.r[i / block]);
          run->w[first + i][o] = (int16_t) llk_run_weight (type, value, part.r[i / block]);
        }
      for (size_t b = 0; b < n / block; b++)
        run->m[first / block + b][o] = part.m[b];
    }
}

/* The next run of panel @p; returns the rows that it is multiplied with. */
static size_t
unpack_run (const LlkMatrix *w,
            size_t           p,
            Place           *place,
            Run             *run)
{
  size_t n_rows = 0;

  memset (run, 0, sizeof *run);
  do
    {
      size_t n = find_part (w, place);
      const LlkPiece *piece = &w->pieces[place->piece];
      size_t in_first = place->input - place->in_piece;
      size_t bytes = llk_panel_bytes (w->type, in_first, piece->n_in);

      n_rows = n_rows != 0 ? n_rows : piece->n_rows;
      unpack_part (w->type, (const uint8_t *) piece->panels + p * bytes + place->offset,
                   place->input % LLK_RUN, n, run);
      place->input += n;
      place->in_piece += n;
      place->offset += llk_panel_run_bytes (llk_panel_shape (w->type), n);
    }
  while (place->input % LLK_RUN != 0 && place->input < w->n_in);
  return n_rows;
}

/* A row's outliers. */
static void
add_outliers (LlkType                 type,
              const Run              *run,
              const LlkOutlier       *x,
              size_t                  n,
              float                  *acc)
{
  const size_t block = llk_panel_shape (type).block;

  for (size_t k = 0; k < n; k++)
    for (size_t o = 0; o < N; o++)
      {
        float weight = run->exact[x[k].place][o] * (run->scale[o] * llk_run_step (type));

        if (llk_run_has_minima (type))
          weight = fuse (run->m[x[k].place / block][o], run->min_scale[o], weight);
        acc[o] = fuse (weight, x[k].x, acc[o]);
      }
}

static void
add_run (LlkType                 type,
         const Run              *run,
         const LlkActivationRun *x,
         float                  *acc)
{
  bool has_halves = llk_panel_shape (type).block == 16;
  const int16_t *sums = has_halves ? x->sums : x->long_sums;
  int32_t dot[N] = { 0 };
  int32_t min_dot[N] = { 0 };

  for (size_t i = 0; i < LLK_RUN; i++)
    for (size_t o = 0; o < N; o++)
      dot[o] += (int32_t) run->w[i][o] * x->q[i];
  for (size_t o = 0; o < N; o++)
    acc[o] = fuse ((float) dot[o], run->scale[o] * x->scale, acc[o]);

  if (!llk_run_has_minima (type))
    return;
  for (size_t b = 0; b < (has_halves ? 16 : 8); b++)
    for (size_t o = 0; o < N; o++)
      min_dot[o] += (int32_t) run->m[b][o] * sums[llk_activation_find_sum (b)];
  for (size_t o = 0; o < N; o++)
    acc[o] = fuse ((float) min_dot[o], run->min_scale[o] * x->scale, acc[o]);
}

/* The weights of one input of a panel. */
static void
get_inputs (LlkType        type,
            const uint8_t *panel,
            size_t         i,
            float         *w)
{
  for (size_t o = 0; o < N; o++)
    if (type == LLK_F32)
      memcpy (w + o, panel + (i * N + o) * 4, sizeof *w);
    else if (type == LLK_F16)
      w[o] = llk_float_of_half (llk_load_u16 (panel + (i * N + o) * 2));
    else
      w[o] = llk_float_of_bf16 (llk_load_u16 (panel + (i / 2 * N + o) * 4 + i % 2 * 2));
}

/* Rows [@first, @first + @n) of a panel of a plain type. */
static void
multiply_floats (const LlkMatrix *w,
                 size_t           p,
                 const uint8_t   *rows,
                 size_t           first,
                 size_t           n,
                 float            acc[MAX_ROWS][N])
{
  size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_F32, w->n_in);
  float parts[MAX_ROWS][4][N] = { 0 };
  size_t input = 0;

  for (const LlkPiece *piece = w->pieces; piece < w->pieces + w->n_pieces; piece++)
    {
      const uint8_t *panel = (const uint8_t *) piece->panels
                             + p * llk_panel_bytes (w->type, input, piece->n_in);

      for (size_t i = 0; i < piece->n_in; i++, input++)
        {
          float values[N];

          get_inputs (w->type, panel, i, values);
          for (size_t r = 0; r < n && first + r < piece->n_rows; r++)
            {
              float x = ((const float *) (const void *) (rows + r * row_bytes))[input];

              for (size_t o = 0; o < N; o++)
                parts[r][input % 4][o] = fuse (values[o], x, parts[r][input % 4][o]);
            }
        }
    }

  for (size_t r = 0; r < n; r++)
    for (size_t o = 0; o < N; o++)
      acc[r][o] = (parts[r][0][o] + parts[r][1][o]) + (parts[r][2][o] + parts[r][3][o]);
}

static void
multiply_runs (const LlkMatrix *w,
               size_t           p,
               const uint8_t   *rows,
               size_t           first,
               size_t           n,
               float            acc[MAX_ROWS][N])
{
  size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in);
  float outliers[MAX_ROWS][N] = { 0 };
  Place place = { 0 };
  Run run;

  for (size_t i = 0; place.input < w->n_in; i++)
    {
      size_t n_rows = unpack_run (w, p, &place, &run);

      for (size_t r = 0; r < n && first + r < n_rows; r++)
        {
          const uint8_t *row = rows + r * row_bytes;
          const LlkActivationRun *x = (const LlkActivationRun *) (const void *) row + i;

          add_run (w->type, &run, x, acc[r]);
          add_outliers (w->type, &run,
                        llk_activation_get_outliers (row, w->n_in) + x->first_outlier,
                        x->n_outliers, outliers[r]);
        }
    }
  for (size_t r = 0; r < n; r++)
    for (size_t o = 0; o < N; o++)
      acc[r][o] = acc[r][o] + outliers[r][o];
}

static void
multiply (const LlkMatrix *w,
          size_t           first,
          size_t           n_panels,
          const void      *rows,
          size_t           n_rows,
          float           *y,
          size_t           y_stride,
          bool             is_added,
          void            *scratch)
{
  bool is_plain = llk_panel_shape (w->type).bits == 0;
  size_t row_bytes =
    llk_activation_bytes (is_plain ? LLK_ACTIVATION_F32 : LLK_ACTIVATION_Q8, w->n_in);

  for (size_t p = first; p < first + n_panels && p * N < w->n_out; p++)
    for (size_t r = 0; r < n_rows; r += MAX_ROWS)
      {
        size_t n = n_rows - r < MAX_ROWS ? n_rows - r : MAX_ROWS;
        size_t n_outputs = w->n_out - p * N < N ? w->n_out - p * N : N;
        float acc[MAX_ROWS][N] = { 0 };

        (is_plain ? multiply_floats : multiply_runs) (w, p, (const uint8_t *) rows + r * row_bytes,
                                                      r, n, acc);
        for (size_t i = 0; i < n; i++)
          for (size_t o = 0; o < n_outputs; o++)
            {
              float *place = y + (r + i) * y_stride + p * N + o;

              *place = is_added ? *place + acc[i][o] : acc[i][o];
            }
      }
}

static const LlkProduct integer_product = {
  .activation = LLK_ACTIVATION_Q8,
  .n_panels = 1,
  .multiply = multiply,
};

static const LlkProduct float_product = {
  .activation = LLK_ACTIVATION_F32,
  .n_panels = 1,
  .multiply = multiply,
};

static const LlkProduct *
find (LlkType type)
{
  return llk_panel_shape (type).bits != 0 ? &integer_product : &float_product;
}

const LlkProductOps llk_portable_product = {
  .prepare = llk_portable_prepare,
  .find = find,
};
