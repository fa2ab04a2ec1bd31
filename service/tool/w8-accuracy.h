/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What “accuracy --w8a8” and “calibrate” share: methods that are compared, outliers put into a
 * model, and the model with its text. The only thread of the tool.
 */

#pragma once

#include "tool-model.h"
#include "tool/llm-w8-lab.h"

typedef enum
{
  TOOL_W8_SMOOTH,    /* like SmoothQuant: inputs and weights made as large as each other, one scale */
  TOOL_W8_ROWS,      /* like LLM.int8(): a scale for each row, large channels in floats */
  TOOL_W8_NAIVE,     /* one scale, up to the largest activation */
  TOOL_W8_CLIPPED,   /* one scale, up to the calibration's quantile */
  TOOL_W8_SHADOW,    /* and what is beyond in floats */
  TOOL_W8_PRUNED,    /* and that only at the sites that need it */
  TOOL_W8_N_METHODS,
} ToolW8Method;

/* What a backend needs for a method. */
typedef struct
{
  guint n_sites;
  LlmW8Site *sites;        /* (owned), as what follows */
  LlmW8Method *methods;
  float **factors;
  guint8 **is_float;
} ToolW8Table;

ToolW8Table *tool_w8_table_new  (const LlmW8Lab         *lab,
                                 const LlmW8Calibration *calibration,
                                 ToolW8Method            method,
                                 GError                **error);
void         tool_w8_table_free (ToolW8Table            *self);

/* The model of tool_model_options, exact, and the text of a file. */
typedef struct
{
  ToolModel *model;
  GArray *tokens;
  LlmW8Lab lab;
} ToolW8;

ToolW8      *tool_w8_open       (const char  *text,
                                 guint        n_ctx,
                                 guint        n_windows,
                                 GError     **error);
/* Another text for the same model. */
gboolean     tool_w8_set_text   (ToolW8      *self,
                                 const char  *text,
                                 GError     **error);
void         tool_w8_free       (ToolW8      *self);
/* As llm_w8_calibrate(), with progress. */
LlmW8Calibration *tool_w8_calibrate (ToolW8 *self,
                                 double      max_loss,
                                 GError    **error);

void         tool_w8_print_calibration (const LlmW8Calibration *calibration);

/* The whole of “accuracy --w8a8”: of @text, with scales found on @calibration. @factor: of outliers
 * that are put in, 0 for none. */
int          tool_w8_accuracy_run (const char *text,
                                 const char  *calibration,
                                 double       factor,
                                 gboolean     is_uneven,
                                 guint        n_windows);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (ToolW8Table, tool_w8_table_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ToolW8, tool_w8_free)
