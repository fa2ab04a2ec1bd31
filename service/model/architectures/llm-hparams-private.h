/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the parts that read hyper-parameters share. For one call's time. */

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

/* llm-hparams-rope.c: the rotary embeddings, and which of them each layer has; its
 * windows are known already, as are the operators. */
void        llm_hparams_read_rope (LlmKeys    *keys,
                                   LlmHparams *hparams);
