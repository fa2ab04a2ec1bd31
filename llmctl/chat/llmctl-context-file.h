/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A conversation as a file:
 *
 *   {"format": "llmsvc-context", "version": 1, "name": "notes", "messages": [
 *     {"role": "user", "text": "Hi", "extras": {"key": "'GVariant text'"}}]}
 *
 * "name" is "" for a context that had none, "extras" is left out when there are none.
 * What is read is untrusted: size, depth and shape are checked, and errors say where.
 * Keys that are not known are skipped; another version is refused. Main thread.
 */

#pragma once

#include "llmsvc.h"

G_BEGIN_DECLS

#define LLMCTL_CONTEXT_FILE_MAX_BYTES (16 * 1024 * 1024)

/* (transfer floating): the list of "messages", aa{sv}. @messages: (element-type LlmsvcMessage). */
GVariant *llmctl_context_file_describe (GPtrArray  *messages);
/* (transfer full): the file's text. @messages: (element-type LlmsvcMessage). */
char     *llmctl_context_file_format (const char   *name,
                                      GPtrArray    *messages);
/* Writes @text to @path, at once or not at all, for its owner only. */
gboolean  llmctl_context_file_write  (const char   *path,
                                      const char   *text,
                                      GError      **error) G_GNUC_WARN_UNUSED_RESULT;
/* @name: (out) (transfer full): "" for none.
 * @messages: (out) (transfer full): a(ssa{sv}). */
gboolean  llmctl_context_file_parse  (const char   *text,
                                      char        **name,
                                      GVariant    **messages,
                                      GError      **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
