/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The model files on this machine. A scan reads headers only, so it may run in
 * any thread, but it does read files: not on the main thread.
 */

#pragma once

#include <gio/gio.h>

#include "io/llm-file-map.h"
#include "model/llm-footprint.h"
#include "model/llm-model.h"

#define LLM_MODEL_SUFFIX ".gguf"

typedef struct
{
  gatomicrefcount ref_count;
  char *id;             /* file name without ".gguf", made unique; stable */
  char *title;          /* general.name, else the id */
  char *path;           /* of one that is no file: its id */
  GBytes *content;      /* (nullable): of one that is no file */
  char *architecture;
  char *quantization;   /* type of most of the weights: "Q8_0" */
  char *license;        /* "" when the file does not say */
  guint64 parameters;
  guint64 file_bytes;
  guint context_length;
  LlmFootprint footprint;
  GError *error;        /* (nullable): why this file can't be used */
  GPtrArray *warnings;  /* (element-type GError): what to mind of one that can */
  gboolean takes_any_tokenizer; /* as asked for when it was read */
  LlmFileIdentity identity; /* of the file when it was read; zero where there was none */
} LlmModelInfo;

LlmModelInfo *llm_model_info_ref   (LlmModelInfo *self);
void          llm_model_info_unref (LlmModelInfo *self);

/* Reads one file's header. Never NULL: a file that can't be used has @error set.
 * @takes_any_tokenizer: see llm_model_new_with_any_tokenizer(). */
LlmModelInfo *llm_model_info_read  (const char   *path,
                                    gboolean      takes_any_tokenizer);

/* One that is no file but is in memory. */
LlmModelInfo *llm_model_info_new_for_bytes (GBytes     *content,
                                            const char *id,
                                            const char *title);
/* (transfer full): the model that this tells of. Reads its file. */
LlmModel     *llm_model_info_open  (LlmModelInfo *self,
                                    GError      **error) G_GNUC_WARN_UNUSED_RESULT;

/* (element-type LlmModelInfo) (transfer full): @file (nullable), then the `*.gguf` in @folders, of
 * which missing ones are skipped, not in sub-folders: in order of preference, inside a folder by
 * name. A name found in two folders counts once, the first wins; parts of split files
 * (`-00002-of-…`) are left out, broken files are listed. @known (nullable): of an earlier scan,
 * whose infos are taken for files that did not change since, without reading them again. */
GPtrArray    *llm_catalogue_scan   (const char *const *folders,
                                    const char        *file,
                                    gboolean           takes_any_tokenizer,
                                    GPtrArray         *known);

/* (nullable) (transfer none): of @models (element-type LlmModelInfo) (nullable), the one called
 * @id. */
LlmModelInfo *llm_catalogue_find   (GPtrArray         *models,
                                    const char        *id);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmModelInfo, llm_model_info_unref)
