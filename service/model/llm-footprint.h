/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a model takes of memory at the least, by its hyper-parameters: where its weights don't fit
 * they stream through a ring, and beside that there is what computes, and the context of the call.
 * An estimate for what is said and set aside; what is taken is counted in the ledger.
 */

#pragma once

#include "model/architectures/llm-hparams.h"

typedef struct
{
  guint64 work;    /* bytes that a call needs beside weights that stay, the ring with them */
  guint64 least;   /* bytes of the smallest budget: less is refused */
} LlmFootprint;

/* @gguf: whose weights they are. */
LlmFootprint llm_footprint_find      (LlmGguf           *gguf,
                                      const LlmHparams  *hparams);
/* Bytes of scratch that a step takes for each of its rows. */
guint64      llm_footprint_get_row   (const LlmHparams  *hparams);
/* Bytes of the ring for so many bytes of weights, if none of its matrices is larger. */
guint64      llm_footprint_get_ring  (guint64            weight_bytes);
