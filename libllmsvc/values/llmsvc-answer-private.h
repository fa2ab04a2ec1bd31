/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How answers are made, from what the service tells. Any thread. */

#pragma once

#include "llmsvc-answer.h"

G_BEGIN_DECLS

/* @results: an a{sv} with numbers of any type, as from a reply or a stream's last line. */
LlmsvcAnswer *llmsvc_answer_new            (const char   *text,
                                            GVariant     *results);
/* (transfer full): the same answer as it would be without a context: @self was asked in
 * a hidden one. @ignored: (nullable): more keys that had no effect. */
LlmsvcAnswer *llmsvc_answer_new_standalone (LlmsvcAnswer      *self,
                                            const char *const *ignored);

/* The number @key of @dict, whatever its type; 0 when it is none or does not fit. */
double        llmsvc_dict_get_double       (GVariant     *dict,
                                            const char   *key);
guint64       llmsvc_dict_get_uint64       (GVariant     *dict,
                                            const char   *key);
guint         llmsvc_dict_get_uint         (GVariant     *dict,
                                            const char   *key);
gboolean      llmsvc_dict_get_boolean      (GVariant     *dict,
                                            const char   *key);
/* (transfer none): "" when it is none. */
const char   *llmsvc_dict_get_string       (GVariant     *dict,
                                            const char   *key);

G_END_DECLS
