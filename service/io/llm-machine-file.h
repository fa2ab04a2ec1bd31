/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Small files in the folder of the cache that hold what was measured: of one model, and valid only
 * on the machine and for the way of computing that it was measured with. What is damaged, or of
 * another machine, is as if it were not there. Any thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* What a file is valid for, beside the machine. */
typedef struct
{
  const char *identity;    /* of the model, see llm_model_get_identity() */
  const char *kernels;     /* the set's name */
  guint n_threads;         /* that compute, not 0 */
  gboolean is_exact;       /* prompts are computed as carefully as answers */
} LlmProfileKey;

/* (transfer full) (nullable): the file PREFIX-IDENTITY.ini in @folder (nullable), if it is valid
 * for @version and @key. What the groups beside [for] say was not looked at. */
GKeyFile *llm_machine_file_load (const char          *folder,
                                 const char          *prefix,
                                 guint                version,
                                 const LlmProfileKey *key);
/* Replaces what was there; group [for] of @file is filled in. @folder is made where it is missing.
 * @is_shared: all users may read it. @waits: until it is on the disk, and so outlives a crash of
 * the system. */
gboolean  llm_machine_file_save (const char          *folder,
                                 gboolean             is_shared,
                                 const char          *prefix,
                                 guint                version,
                                 const LlmProfileKey *key,
                                 GKeyFile            *file,
                                 gboolean             waits,
                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
