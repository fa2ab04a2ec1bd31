/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A GGUF file that is written: keys that are added, and those and the tensors of another file. The
 * thread that made it.
 */

#pragma once

#include "gguf/llm-gguf.h"

typedef struct _LlmGgufWriter LlmGgufWriter;

LlmGgufWriter *llm_gguf_writer_new        (void);
void           llm_gguf_writer_free       (LlmGgufWriter *self);

void           llm_gguf_writer_add_string (LlmGgufWriter *self,
                                           const char    *key,
                                           const char    *text);
void           llm_gguf_writer_add_uint   (LlmGgufWriter *self,
                                           const char    *key,
                                           guint32        value);
void           llm_gguf_writer_add_floats (LlmGgufWriter *self,
                                           const char    *key,
                                           const float   *items,
                                           gsize          n);
void           llm_gguf_writer_add_uints  (LlmGgufWriter *self,
                                           const char    *key,
                                           const guint32 *items,
                                           gsize          n);
/* All keys of @from but those that begin with one of @except, which NULL ends, and all tensors; once. Both
 * files have the default alignment. */
void           llm_gguf_writer_copy       (LlmGgufWriter *self,
                                           LlmGguf       *from,
                                           const char *const *except);
/* Writes it to @path, in place of what is there, which stays until all is written. */
gboolean       llm_gguf_writer_save       (LlmGgufWriter *self,
                                           const char    *path,
                                           GError       **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmGgufWriter, llm_gguf_writer_free)
