/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Computes as the CPU does and notes how large the activations are at each site (llm-w8-site.h):
 * what scales for W8A8 are found by. The executor's thread.
 */

#pragma once

#include "model/llm-w8-site.h"
#include "forward/llm-backend.h"

/* @kernels: (unowned). @sites: (nullable) (unowned): whose hot channels are left out of the shares. */
LlmBackend  *llm_backend_watch_new        (const LlkOps     *kernels,
                                           const LlmHparams *hparams,
                                           const LlmW8Site  *sites);
/* The largest magnitude of each channel so far: [n_channels] of the kind; NULL for a site that no
 * row came to. */
const float *llm_backend_watch_get_maxima (LlmBackend       *self,
                                           guint             layer,
                                           LlmW8Kind         kind);
/* What the share @quantile of all magnitudes at the site does not exceed, up to 1/32 above it; 1
 * for the largest. */
float        llm_backend_watch_get_quantile (LlmBackend     *self,
                                           guint             layer,
                                           LlmW8Kind         kind,
                                           double            quantile);
