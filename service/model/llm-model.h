/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model file, opened: hyper-parameters, tokenizer, template. Weights are
 * acquired apart (llm-weights.h). Immutable and reference-counted; any thread.
 */

#pragma once

#include "gguf/llm-gguf.h"
#include "model/architectures/llm-hparams.h"
#include "template/llm-template.h"
#include "tokenizer/llm-tokenizer.h"

typedef struct _LlmModel LlmModel;

/* Opens and checks all of it; touches no weights. */
LlmModel         *llm_model_open           (const char *path,
                                            GError    **error) G_GNUC_WARN_UNUSED_RESULT;
/* Of an opened file. */
LlmModel         *llm_model_new_for_gguf   (LlmGguf    *gguf,
                                            GError    **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same, but text is cut by the default rule where the file's is not known; then
 * llm_model_get_tokenizer() says so. */
LlmModel         *llm_model_new_with_any_tokenizer (LlmGguf  *gguf,
                                                    GError  **error) G_GNUC_WARN_UNUSED_RESULT;
LlmModel         *llm_model_ref            (LlmModel   *self);
void              llm_model_unref          (LlmModel   *self);

LlmGguf          *llm_model_get_gguf       (LlmModel   *self);
const LlmHparams *llm_model_get_hparams    (LlmModel   *self);
LlmTokenizer     *llm_model_get_tokenizer  (LlmModel   *self);
/* (nullable): NULL with @error (UNSUPPORTED) set when the file's template is not known. */
LlmTemplate      *llm_model_get_template   (LlmModel   *self,
                                            GError    **error);
/* (nullable): the one called @name; without a name (nullable), that for tools where @has_tools and
 * the file has one, else its default. @error: INVALID_OPTION for an unknown name. */
LlmTemplate      *llm_model_choose_template (LlmModel   *self,
                                             const char *name,
                                             gboolean    has_tools,
                                             GError    **error);
/* (nullable): NULL for the default one. */
const char       *llm_model_get_template_name (LlmModel          *self,
                                               const LlmTemplate *template);
/* (transfer full): the names of all others than the default, for people; "" where there are
 * none. */
char             *llm_model_list_templates (LlmModel   *self);
/* Names the file without its weights (header, keys, table of tensors, size): what depends on the
 * vocabulary alone, as stored tokens do, is valid with the same identity. 16 hexadecimal
 * digits. */
const char       *llm_model_get_identity   (LlmModel   *self);
/* Names the file with its weights, as far as a sample of them tells (see
 * llm_gguf_get_weights_hash()): all that was computed with them, as K and V or a file that
 * accompanies the model, is valid only with the same. 16 hexadecimal digits. May read the sample
 * from the disk when it is first called: not on the main thread. Where another file looks
 * alike, its checksum decides (engine/llm-weight-record.h). */
const char       *llm_model_get_weight_identity (LlmModel *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmModel, llm_model_unref)
