/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The keys of a file that say how a model of its architecture is built. For one call's time. */

#pragma once

#include "model/architectures/llm-architecture.h"

/* Reads keys of an architecture. The first error stays; what is read behind it is the smallest that
 * a key may be, or its fallback, so that one check at the end is enough. */
typedef struct
{
  LlmGguf *gguf;
  const LlmArchitecture *architecture;
  GError *error;  /* (nullable) */
  char key[96];   /* the last one that llm_keys_get() made */
} LlmKeys;

/* The key with the architecture before it; valid until the next call. */
const char *llm_keys_get   (LlmKeys    *self,
                            const char *suffix);
/* @fallback: 0 for a key that must be there. */
guint       llm_keys_uint  (LlmKeys    *self,
                            const char *suffix,
                            guint       min,
                            guint       max,
                            guint64     fallback);
float       llm_keys_float (LlmKeys    *self,
                            const char *suffix,
                            double      min,
                            double      max,
                            double      fallback);
/* A key that may be missing and may be 0. */
guint       llm_keys_optional (LlmKeys  *self,
                            const char *suffix,
                            guint       max,
                            guint64     fallback);
/* The field at offset @field of each of hparams->n_layers layers: of a key that is one number for
 * all of them, or has one for each; from 1 to @max. */
void        llm_keys_layers (LlmKeys    *self,
                            LlmHparams *hparams,
                            const char *suffix,
                            guint       max,
                            guint64     fallback,
                            gsize       field);
/* From 0 to @max; 0, which stands for "none", where the architecture has no such key. */
float       llm_keys_own_float (LlmKeys *self,
                            const char *suffix,
                            double      max,
                            double      fallback);
/* The same of scales: never 0, which stands for "not set". */
float       llm_keys_own_scale (LlmKeys *self,
                            const char *suffix,
                            double      fallback);
/* Whether the file has the tensor @name of the layer. */
gboolean    llm_keys_has_tensor (LlmKeys *self,
                            guint       layer,
                            const char *name);
