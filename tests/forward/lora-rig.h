/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Adapters for tests: files with random halves for most matrices of a model, and
 * what forty tokens come to with them. Failure aborts the test. One thread.
 */

#pragma once

#include "forward-rig.h"
#include "split-weights.h"
#include "support/llm-test-gguf.h"

G_BEGIN_DECLS

#define LORA_N_TOKENS 40
#define LORA_RIG_N_OPS 8

/* Those that can be adapted. */
extern const LlmOperator lora_rig_ops[LORA_RIG_N_OPS];

void     lora_rig_add_keys    (LlmTestGguf      *gguf,
                               const char       *architecture,
                               double            alpha);
/* The tensor @base with @suffix, [@n_out × @n_in]. */
void     lora_rig_add_half    (LlmTestGguf      *gguf,
                               GRand            *random,
                               const char       *base,
                               const char       *suffix,
                               LlkType           type,
                               guint64           n_in,
                               guint64           n_out);
/* Halves of most matrices of @model, of several types, of @rank and one more. */
void     lora_rig_add_tensors (LlmTestGguf      *gguf,
                               LlmGguf          *model,
                               const LlmHparams *hparams,
                               guint             rank,
                               guint             seed);
/* (transfer full): for the rig's model. */
LlmGguf *lora_rig_new_file    (ExecRig          *rig,
                               guint             rank,
                               guint             seed);
/* Gives the rig the adapters of @files. */
void     lora_rig_set         (ExecRig          *rig,
                               ExecRigConfig    *config,
                               LlmGguf         **files,
                               guint             n_files);
/* A model in nine levels of four groups of heads: some add none. */
ExecRig *lora_rig_new_split   (LlkType              type,
                               const ExecRigConfig *config,
                               SplitCounts         *counts);
/* A file of the tests' data. */
char    *lora_rig_get_path    (const char       *folder,
                               const char       *file,
                               const char       *ending);

void     lora_rig_fill_tokens (gint32            tokens[LORA_N_TOKENS]);
/* (transfer full): logits of all tokens with one adapter and level, by steps of @step rows. */
float   *lora_rig_run         (ExecRig          *rig,
                               guint8            adapter,
                               guint             level,
                               guint             step);
/* Of these. */
gsize    lora_rig_count_bytes (ExecRig          *rig);

G_END_DECLS
