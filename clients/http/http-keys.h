/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Keys of applications, as a key file has them: a group for each name, with “user”, a number, and
 * “hash”, the SHA-256 of the key. The keys themselves are nowhere. The file is read again when it
 * changes. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _HttpKeys HttpKeys;

/* @path: need not exist */
HttpKeys *http_keys_new    (const char *path);
void      http_keys_free   (HttpKeys   *self);
/* (transfer full) (nullable): the name of the application whose @key that is; @uid: (out): of its
 * user. */
char     *http_keys_find   (HttpKeys   *self,
                            const char *key,
                            guint32    *uid);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpKeys, http_keys_free)

G_END_DECLS
