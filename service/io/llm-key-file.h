/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Small files of keys and values that the service writes for itself, in folders that others may
 * have written to: read with a limit, and replaced as a whole. Any thread.
 */

#pragma once

#include <gio/gio.h>

/* (transfer full) (nullable): NULL when it can't be read, is no such file, or has more than
 * @max_bytes. What it says was not looked at. */
GKeyFile *llm_key_file_read  (const char  *path,
                              gsize        max_bytes);
/* Replaces FOLDER/@name. @folder is made where it is missing. @is_shared: all users may read it.
 * @waits: until it is on the disk, and so outlives a crash of the system. Fails with STORAGE. */
gboolean  llm_key_file_write (GKeyFile    *file,
                              const char  *folder,
                              const char  *name,
                              gboolean     is_shared,
                              gboolean     waits,
                              GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* --- of one machine: in the folder of the cache, what was measured of one model. Valid only on the
 * machine and for the way of computing that it was measured with; what is damaged, or of another
 * machine, is as if it were not there --- */

/* What a file is valid for, beside the machine. */
typedef struct
{
  const char *identity;    /* of the model, see llm_model_get_identity() */
  const char *kernels;     /* the set's name */
  guint n_threads;         /* that compute, not 0 */
  gboolean is_exact;       /* computed with the weights of the file, in floats */
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
