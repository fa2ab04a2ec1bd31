/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records of model files, so that K and V on storage are never used with other weights than they
 * were computed with: the checksums of files, in the cache folder, and beside the chunks the file
 * that those of a model were computed from. A damaged record counts as missing. Any thread, one at
 * a time.
 */

#pragma once

#include "io/llm-file-sum.h"

G_BEGIN_DECLS

/* In the cache folder (nullable): the checksum of this very file, by device, inode, size and times,
 * if it is known. @digits: [LLM_FILE_SUM_DIGITS + 1]. */
gboolean llm_checksum_load      (const char            *folder,
                                 const LlmFileIdentity *file,
                                 char                  *digits);
/* @is_shared: all users may read it. Fails with STORAGE. */
gboolean llm_checksum_save      (const char            *folder,
                                 gboolean               is_shared,
                                 const LlmFileIdentity *file,
                                 const char            *digits,
                                 GError               **error) G_GNUC_WARN_UNUSED_RESULT;

/* Of the chunks of a model, which is named by its sampled weights. */
typedef struct
{
  guint64 lineage;       /* part of the chunks' identity, never 0; a new one makes all chunks on
                          * storage worthless */
  LlmFileIdentity file;  /* the file that they were computed from */
  char checksum[LLM_FILE_SUM_DIGITS + 1]; /* of it; "" while it is not known */
} LlmWeightRecord;

/* In the folder of the chunks. @weights: of llm_model_get_weight_identity(). */
gboolean llm_weight_record_load (const char            *folder,
                                 const char            *weights,
                                 LlmWeightRecord       *record);
gboolean llm_weight_record_save (const char            *folder,
                                 const char            *weights,
                                 const LlmWeightRecord *record,
                                 GError               **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
