/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What errors in the values of a KV head do to a layer's output, from the weights behind attention:
 * how to round them such that they cancel out there. Any thread.
 */

#pragma once

#include "kernels/llk.h"
#include "model/architectures/llm-operator.h"

G_BEGIN_DECLS

/* (nullable) (transfer full): [n_layers × n_kv_heads × head_dim × LLK_KV_FEEDBACK], see LlkKvOps;
 * the same for the same file, whatever @kernels. Reads the first rows of each layer's
 * matrix, and so may wait for the disk. NULL where the file lacks one. */
float      *llm_feedback_new       (LlmGguf          *gguf,
                                    const LlmHparams *hparams,
                                    const LlkOps     *kernels);

G_END_DECLS
