/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows of activations as W8A8 products read them: int8 of one scale, floats of the hot inputs, and
 * what is beyond the scale as sparse floats (shadows). Memory for them is kept from step to step.
 * The executor's thread, but for what says otherwise.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "kernels/llk.h"

#define LLM_W8_PART (4 * LLK_W8_OUTPUTS)

typedef struct _LlmW8Rows LlmW8Rows;

/* What all rows of a step have in common. */
typedef struct
{
  gsize n_in;
  gsize n_hot;
  const guint16 *hot_of;    /* (nullable) (unowned) [n_in]: as LlkW8Matrix has it, places rising */
  float scale;
  gboolean is_dynamic;      /* instead, the scale of each row is its own largest magnitude */
  gboolean has_shadow;
  const float *factors;     /* (nullable) (unowned) [n_in]: what inputs are divided by */
} LlmW8RowsShape;

/* @kernels: (unowned). */
LlmW8Rows *llm_w8_rows_new       (const LlkW8Ops       *kernels);
void       llm_w8_rows_free      (LlmW8Rows            *self);
/* Frees the memory, until the next begin(). */
void       llm_w8_rows_trim      (LlmW8Rows            *self);
guint64    llm_w8_rows_get_bytes (const LlmW8Rows      *self);

/* @n_rows rows from @x, @stride apart, on all workers of @pool. */
void       llm_w8_rows_set       (LlmW8Rows            *self,
                                  LlmWorkerPool        *pool,
                                  const LlmW8RowsShape *shape,
                                  guint                 n_rows,
                                  const float          *x,
                                  gsize                 stride);

/* The same in parts of LLM_W8_PART inputs, so that no rows of floats need be in memory: between these
 * two, set_part() for all of them. What @shape points to lives until then. */
void       llm_w8_rows_begin_parts (LlmW8Rows            *self,
                                  const LlmW8RowsShape *shape,
                                  guint                 n_rows);
void       llm_w8_rows_end_parts (LlmW8Rows            *self,
                                  LlmWorkerPool        *pool);
/* Part @part of some rows: @n inputs of each in @x, rows LLM_W8_PART apart. Any thread; parts beside
 * each other, rows of a part in order. */
void       llm_w8_rows_set_part  (LlmW8Rows            *self,
                                  guint                 part,
                                  guint                 first_row,
                                  guint                 n_rows,
                                  const float          *x,
                                  gsize                 n);

/* The rows from @first_row on with panels of @matrix, whose inputs are those of the shape, as
 * LlkW8Ops.multiply() has it: with all that belongs to them. Any thread. */
void       llm_w8_rows_multiply  (const LlmW8Rows      *self,
                                  const LlkW8Matrix    *matrix,
                                  gsize                 first_panel,
                                  gsize                 n_panels,
                                  guint                 first_row,
                                  guint                 n_rows,
                                  float                *y,
                                  gsize                 y_stride,
                                  gboolean              is_added);

/* Values of all rows beyond the scale, hot ones too. */
guint64    llm_w8_rows_count_beyond  (const LlmW8Rows  *self);
/* Values of the first @n_rows that are multiplied as floats. */
guint64    llm_w8_rows_count_shadows (const LlmW8Rows  *self,
                                  guint                 n_rows);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmW8Rows, llm_w8_rows_free)
