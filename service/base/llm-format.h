/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The formats of printf(), as far as our messages need them, taken apart: text
 * that is fixed, and arguments with their kinds. Formats come from a file and are
 * never given to printf(). Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Our longest format has nine. */
#define LLM_FORMAT_MAX_ARGUMENTS 16

typedef enum
{
  LLM_FORMAT_FIXED,
  LLM_FORMAT_STRING,
  LLM_FORMAT_CHARACTER,
  LLM_FORMAT_SIGNED,
  LLM_FORMAT_UNSIGNED,
  LLM_FORMAT_HEX,
  LLM_FORMAT_REAL,
} LlmFormatKind;

typedef struct
{
  LlmFormatKind kind;
  char *fixed;     /* (nullable): of LLM_FORMAT_FIXED */
  gsize length;    /* of @fixed */
  guint argument;  /* of the others, from 0 */
} LlmFormatPiece;

/**
 * llm_format_parse:
 * @format: in UTF-8; arguments may have positions, "%2$s"
 *
 * Returns: (transfer full) (nullable) (element-type LlmFormatPiece): NULL for what is no
 *   format, or has widths or precisions that are arguments
 */
GArray   *llm_format_parse             (const char   *format);

/* Whether each argument that @to uses is one of @from's, and of its kind. */
gboolean  llm_format_fits              (const GArray *from,
                                        const GArray *to);

/* Bytes of text that is fixed. */
gsize     llm_format_count_fixed_bytes (const GArray *pieces);

G_END_DECLS
