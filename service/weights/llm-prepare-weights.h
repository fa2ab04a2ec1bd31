/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packs a model's matrices into panels as a plan says, on several threads, into
 * memory or straight into a file. Whoever calls it waits; any one thread.
 */

#pragma once

#include "weights/llm-prepared-file.h"

G_BEGIN_DECLS

/* Packs into @memory, of plan->bytes bytes, 64-byte aligned. @n_threads: 0 for as
 * many as the machine gives. Fails only when the model file was damaged meanwhile. */
gboolean llm_prepare_in_memory (const LlmPreparedPlan *plan,
                                LlmGguf               *gguf,
                                guint                  n_threads,
                                guint8                *memory,
                                GError               **error);

/* Writes the matrices to the open file from plan->data_offset on, in pieces at
 * multiples of LLM_PREPARED_PIECE, and fills in their @checksums. */
gboolean llm_prepare_in_file   (const LlmPreparedPlan *plan,
                                LlmGguf               *gguf,
                                guint                  n_threads,
                                int                    fd,
                                guint64               *checksums,
                                GError               **error);

/* Writes all of @bytes at @offset; FALSE with errno set. */
gboolean llm_prepare_write     (int                    fd,
                                gconstpointer          bytes,
                                gsize                  size,
                                guint64                offset);

G_END_DECLS
