/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-w8-rows.h"

#include <math.h>
#include <string.h>

/* Values to quantize that are worth a worker. */
#define MIN_VALUES 16384
/* Of so many values of a row, there is room for one beyond its scale from the beginning. */
#define SHADOW_PART 16

/* A value beyond the scale, or one that is not finite. */
typedef struct
{
  guint row;
  LlkW8Beyond beyond;
} Found;

/* What one part of all rows has, by row and then input. */
typedef struct
{
  Found *found;        /* (owned) */
  guint n_found, most_found;
  guint n_beyond;
} Part;

struct _LlmW8Rows
{
  const LlkW8Ops *kernels;   /* (unowned) */
  LlmW8RowsShape shape;
  guint n_rows;

  guint8 *rows;              /* (owned): LlkW8Row */
  gsize rows_bytes;          /* of all that there is room for */
  gsize row_bytes;
  guint most_rows;           /* of what follows */
  LlkW8Beyond **shadows;     /* (owned) [most_rows]: (nullable) (owned) */
  guint32 *n_shadows;        /* (owned) [most_rows] */
  guint32 *most_shadows;     /* (owned) [most_rows] */
  guint *n_beyond;           /* (owned) [most_rows] */
  guint16 *hot_inputs;       /* (owned) [n_hot], rising */
  gsize most_hot;
  float *hot;                /* (owned) [n_rows × n_hot] */
  gsize n_hot_values;        /* there is room for */
  Part *parts;               /* (owned) [most_parts] */
  guint n_parts, most_parts;
};

/* A setting of whole rows as the workers see it. */
typedef struct
{
  LlmW8Rows *self;
  const float *x;
  gsize stride;
} Work;

LlmW8Rows *
llm_w8_rows_new (const LlkW8Ops *kernels)
{
  LlmW8Rows *self = g_new0 (LlmW8Rows, 1);

  self->kernels = kernels;
  return self;
}

void
llm_w8_rows_trim (LlmW8Rows *self)
{
  for (guint r = 0; r < self->most_rows; r++)
    g_free (self->shadows[r]);
  for (guint i = 0; i < self->most_parts; i++)
    g_free (self->parts[i].found);
  g_free (self->shadows);
  g_free (self->n_shadows);
  g_free (self->most_shadows);
  g_free (self->n_beyond);
  g_free (self->hot_inputs);
  g_free (self->hot);
  g_free (self->parts);
  g_aligned_free (self->rows);
  *self = (LlmW8Rows) { .kernels = self->kernels };
}

void
llm_w8_rows_free (LlmW8Rows *self)
{
  if (self == NULL)
    return;

  llm_w8_rows_trim (self);
  g_free (self);
}

guint64
llm_w8_rows_get_bytes (const LlmW8Rows *self)
{
  guint64 bytes = self->rows_bytes + self->n_hot_values * sizeof (float);

  for (guint r = 0; r < self->most_rows; r++)
    bytes += self->most_shadows[r] * sizeof (LlkW8Beyond);
  for (guint i = 0; i < self->most_parts; i++)
    bytes += self->parts[i].most_found * sizeof (Found);
  return bytes;
}

static LlkW8Row *
get_row (const LlmW8Rows *self,
         guint            row)
{
  return (gpointer) (self->rows + row * self->row_bytes);
}

/* Room for @n of row @row. */
static LlkW8Beyond *
reserve_shadows (LlmW8Rows *self,
                 guint      row,
                 guint      n)
{
  if (n > self->most_shadows[row])
    {
      self->most_shadows[row] = 2 * n;
      self->shadows[row] = g_renew (LlkW8Beyond, self->shadows[row], self->most_shadows[row]);
    }
  return self->shadows[row];
}

/* Which inputs are hot, and room for what the rows have there. */
static void
find_hot (LlmW8Rows *self)
{
  gsize n_hot = self->shape.n_hot, n_values = n_hot * self->n_rows;

  if (n_hot > self->most_hot)
    {
      self->most_hot = n_hot;
      self->hot_inputs = g_renew (guint16, self->hot_inputs, n_hot);
    }
  for (gsize i = 0; n_hot > 0 && i < self->shape.n_in; i++)
    if (self->shape.hot_of[i] != 0)
      self->hot_inputs[self->shape.hot_of[i] - 1] = (guint16) i;
  if (n_values > self->n_hot_values)
    {
      self->n_hot_values = n_values;
      self->hot = g_renew (float, self->hot, n_values);
    }
}

static void
make_room (LlmW8Rows *self)
{
  guint n = self->n_rows, old = self->most_rows;

  self->row_bytes = llk_w8_row_bytes (self->shape.n_in);
  if (n * self->row_bytes > self->rows_bytes)
    {
      g_aligned_free (self->rows);
      self->rows = g_aligned_alloc (n, self->row_bytes, 64);
      self->rows_bytes = n * self->row_bytes;
    }
  if (n <= old)
    return;

  self->n_beyond = g_renew (guint, self->n_beyond, n);
  self->n_shadows = g_renew (guint32, self->n_shadows, n);
  self->most_shadows = g_renew (guint32, self->most_shadows, n);
  self->shadows = g_renew (LlkW8Beyond *, self->shadows, n);
  memset (self->most_shadows + old, 0, (n - old) * sizeof *self->most_shadows);
  memset (self->shadows + old, 0, (n - old) * sizeof *self->shadows);
  self->most_rows = n;
}

static void
begin (LlmW8Rows            *self,
       const LlmW8RowsShape *shape,
       guint                 n_rows)
{
  self->shape = *shape;
  self->n_rows = n_rows;
  self->n_parts = 0;
  make_room (self);
  find_hot (self);
  /* more than rows have: no later prompt needs any */
  for (guint r = 0; r < n_rows; r++)
    {
      self->n_shadows[r] = 0;
      self->n_beyond[r] = 0;
      if (shape->has_shadow)
        reserve_shadows (self, r, (guint) (shape->n_in / SHADOW_PART));
    }
}

/* --- whole rows --- */

static float
find_largest (const LlmW8RowsShape *shape,
              const float          *x)
{
  float largest = 0;

  for (gsize i = 0; i < shape->n_in; i++)
    if ((shape->hot_of == NULL || shape->hot_of[i] == 0) && fabsf (x[i]) > largest)
      largest = fabsf (x[i]);
  return largest;
}

/* What is beyond the scale, but for hot inputs. */
static void
find_shadows (LlmW8Rows   *self,
              guint        row,
              const float *x,
              float        scale)
{
  const guint16 *hot_of = self->shape.hot_of;
  LlkW8Beyond *to = reserve_shadows (self, row, self->n_beyond[row]);
  guint n = (guint) self->kernels->find_beyond (x, self->shape.n_in, scale, to);
  guint n_kept = 0;

  for (guint i = 0; i < n; i++)
    if (hot_of == NULL || hot_of[to[i].input] == 0)
      to[n_kept++] = to[i];
  self->n_shadows[row] = n_kept;
}

static void
set_row (LlmW8Rows   *self,
         guint        row,
         const float *x)
{
  const LlmW8RowsShape *shape = &self->shape;
  LlkW8Row *to = get_row (self, row);
  float scale = shape->scale;

  if (shape->is_dynamic)
    {
      float largest = find_largest (shape, x);

      scale = largest > 0 ? largest / LLK_W8_LIMIT : 1;
    }
  self->n_beyond[row] = (guint) self->kernels->quantize (x, shape->n_in, scale, to);
  if (self->n_beyond[row] > 0 && shape->has_shadow)
    find_shadows (self, row, x, scale);
  /* hot inputs are floats */
  for (gsize i = 0; i < shape->n_hot; i++)
    {
      guint16 input = self->hot_inputs[i];

      self->hot[row * shape->n_hot + i] = x[input];
      to->sum -= to->q[input];
      to->q[input] = 0;
    }
}

static void
set_rows (guint    first,
          guint    end,
          guint    worker,
          gpointer data)
{
  const Work *work = data;
  const LlmW8RowsShape *shape = &work->self->shape;
  g_autofree float *changed = shape->factors != NULL ? g_new (float, shape->n_in) : NULL;

  for (guint r = first; r < end; r++)
    {
      const float *x = work->x + r * work->stride;

      for (gsize i = 0; changed != NULL && i < shape->n_in; i++)
        changed[i] = x[i] / shape->factors[i];
      set_row (work->self, r, changed != NULL ? changed : x);
    }
}

static guint
get_grain (const LlmW8Rows *self)
{
  return (guint) MAX (1, MIN_VALUES / MAX (self->shape.n_in, 1));
}

void
llm_w8_rows_set (LlmW8Rows            *self,
                 LlmWorkerPool        *pool,
                 const LlmW8RowsShape *shape,
                 guint                 n_rows,
                 const float          *x,
                 gsize                 stride)
{
  Work work = { self, x, stride };

  begin (self, shape, n_rows);
  llm_worker_pool_run (pool, n_rows, get_grain (self), set_rows, &work);
}

/* --- in parts --- */

void
llm_w8_rows_begin_parts (LlmW8Rows            *self,
                         const LlmW8RowsShape *shape,
                         guint                 n_rows)
{
  guint most_found = n_rows * LLM_W8_PART / SHADOW_PART;

  begin (self, shape, n_rows);
  for (guint r = 0; r < n_rows; r++)
    get_row (self, r)->scale = shape->scale;
  self->n_parts = (guint) ((shape->n_in + LLM_W8_PART - 1) / LLM_W8_PART);
  if (self->n_parts > self->most_parts)
    {
      self->parts = g_renew (Part, self->parts, self->n_parts);
      memset (self->parts + self->most_parts, 0,
              (self->n_parts - self->most_parts) * sizeof *self->parts);
      self->most_parts = self->n_parts;
    }
  for (guint i = 0; i < self->n_parts; i++)
    {
      Part *part = &self->parts[i];

      part->n_found = part->n_beyond = 0;
      if (part->most_found < most_found)
        {
          part->most_found = most_found;
          part->found = g_renew (Found, part->found, most_found);
        }
    }
}

static void
add_found (Part  *part,
           guint  row,
           gsize  input,
           float  value)
{
  if (part->n_found == part->most_found)
    {
      part->most_found *= 2;
      part->found = g_renew (Found, part->found, part->most_found);
    }
  part->found[part->n_found++] = (Found) { row, { (guint32) input, value } };
}

/* Of one row: the values that quantize_part() counted. */
static void
find_in_part (LlmW8Rows   *self,
              Part        *part,
              guint        row,
              gsize        first,
              const float *x,
              gsize        n)
{
  const LlmW8RowsShape *shape = &self->shape;
  LlkW8Beyond beyond[LLM_W8_PART];
  gsize n_beyond;

  for (gsize i = 0; i < n; i++)
    if (!isfinite (x[i]))
      add_found (part, row, first + i, NAN);
  if (!shape->has_shadow)
    return;
  n_beyond = self->kernels->find_beyond (x, n, shape->scale, beyond);
  for (gsize i = 0; i < n_beyond; i++)
    {
      gsize input = first + beyond[i].input;

      if (shape->hot_of == NULL || shape->hot_of[input] == 0)
        add_found (part, row, input, beyond[i].value);
    }
}

/* The place of the first hot input from @first on. */
static gsize
find_first_hot (const LlmW8Rows *self,
                gsize            first)
{
  gsize low = 0, high = self->shape.n_hot;

  while (low < high)
    {
      gsize middle = (low + high) / 2;

      if (self->hot_inputs[middle] < first)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

void
llm_w8_rows_set_part (LlmW8Rows   *self,
                      guint        part,
                      guint        first_row,
                      guint        n_rows,
                      const float *x,
                      gsize        n)
{
  const LlmW8RowsShape *shape = &self->shape;
  gsize first = (gsize) part * LLM_W8_PART, first_hot = find_first_hot (self, first);

  for (guint r = first_row; r < first_row + n_rows; r++, x += LLM_W8_PART)
    {
      int8_t *q = get_row (self, r)->q + first;
      guint n_beyond = (guint) self->kernels->quantize_part (x, n, shape->scale, q);

      self->parts[part].n_beyond += n_beyond;
      if (n_beyond > 0)
        find_in_part (self, &self->parts[part], r, first, x, n);
      for (gsize i = first_hot; i < shape->n_hot && self->hot_inputs[i] < first + n; i++)
        {
          self->hot[r * shape->n_hot + i] = x[self->hot_inputs[i] - first];
          q[self->hot_inputs[i] - first] = 0;
        }
    }
}

/* The sums: work on rows. */
static void
finish_rows (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  LlmW8Rows *self = data;

  for (guint r = first; r < end; r++)
    {
      LlkW8Row *row = get_row (self, r);

      if (isnan (row->scale))
        memset (row->q, 0, self->shape.n_in);
      self->kernels->finish (self->shape.n_in, row);
    }
}

void
llm_w8_rows_end_parts (LlmW8Rows     *self,
                       LlmWorkerPool *pool)
{
  for (guint i = 0; i < self->n_parts; i++)
    for (guint k = 0; k < self->parts[i].n_found; k++)
      {
        const Found *found = &self->parts[i].found[k];
        guint row = found->row;

        if (isnan (found->beyond.value))
          get_row (self, row)->scale = NAN;
        else
          {
            reserve_shadows (self, row, self->n_shadows[row] + 1);
            self->shadows[row][self->n_shadows[row]++] = found->beyond;
          }
      }
  llm_worker_pool_run (pool, self->n_rows, get_grain (self), finish_rows, self);
}

/* --- what is made of them --- */

void
llm_w8_rows_multiply (const LlmW8Rows   *self,
                      const LlkW8Matrix *matrix,
                      gsize              first_panel,
                      gsize              n_panels,
                      guint              first_row,
                      guint              n_rows,
                      float             *y,
                      gsize              y_stride,
                      gboolean           is_added)
{
  self->kernels->multiply (matrix, first_panel, n_panels, get_row (self, first_row), n_rows, y,
                           y_stride, is_added);
  self->kernels->add_hot (matrix, first_panel, n_panels,
                          self->hot + first_row * self->shape.n_hot, n_rows, y, y_stride);
  self->kernels->add_beyond (matrix, first_panel, n_panels,
                             (const LlkW8Beyond *const *) self->shadows + first_row,
                             self->n_shadows + first_row, n_rows, y, y_stride);
}

guint64
llm_w8_rows_count_beyond (const LlmW8Rows *self)
{
  guint64 n = 0;

  for (guint r = 0; r < self->n_rows; r++)
    n += self->n_beyond[r];
  for (guint i = 0; i < self->n_parts; i++)
    n += self->parts[i].n_beyond;
  return n;
}

guint64
llm_w8_rows_count_shadows (const LlmW8Rows *self,
                           guint            n_rows)
{
  guint64 n = (guint64) n_rows * self->shape.n_hot;

  for (guint r = 0; r < n_rows; r++)
    n += self->n_shadows[r];
  return n;
}
