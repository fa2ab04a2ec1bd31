/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the parts that read hyper-parameters share. For one call's time. */

#pragma once

#include "model/architectures/llm-architecture.h"

G_BEGIN_DECLS

typedef struct
{
  LlmGguf *gguf;
  const LlmArchitecture *architecture;
  char key[96];   /* the last one that llm_keys_get() made */
} LlmKeys;

/* The key with the architecture before it; valid until the next call. */
const char *llm_keys_get         (LlmKeys      *self,
                                  const char   *suffix);
/* @fallback: 0 for a key that must be there. */
gboolean    llm_keys_read_uint   (LlmKeys      *self,
                                  const char   *suffix,
                                  guint         min,
                                  guint         max,
                                  guint64       fallback,
                                  guint        *value,
                                  GError      **error);
gboolean    llm_keys_read_float  (LlmKeys      *self,
                                  const char   *suffix,
                                  double        min,
                                  double        max,
                                  double        fallback,
                                  float        *value,
                                  GError      **error);

/* llm-hparams-rope.c: the rotary embeddings, and which of them each layer has; its
 * windows are known already, as are the operators. */
gboolean    llm_hparams_read_rope (LlmKeys     *keys,
                                  LlmHparams   *hparams,
                                  GError      **error);

G_END_DECLS
