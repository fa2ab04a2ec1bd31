/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads a script's JSON: each function checks what it takes and says in an error
 * where the fault is and what is allowed. A place is the way to a value, as
 * "rules[2].when"; "" is the whole file. The text is untrusted. Any thread.
 */

#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *path;   /* of the file: errors begin with it */
  GError **error;
} LlmScriptReader;

/* Sets the error; always FALSE, so that what calls it can return it. */
gboolean    llm_script_fail        (LlmScriptReader   *reader,
                                    const char        *place,
                                    const char        *format,
                                    ...) G_GNUC_PRINTF (3, 4);

/* (transfer full) (nullable): the value in the text. No object has a key twice. */
JsonNode   *llm_script_parse       (LlmScriptReader   *reader,
                                    const char        *text,
                                    gsize              length);

/* (transfer full): the place of a key in the object at @place */
char       *llm_script_make_place  (const char        *place,
                                    const char        *key);

/* (nullable): NULL when it is no object, or has other keys than @keys, which ends
 * with NULL. */
JsonObject *llm_script_read_object (LlmScriptReader   *reader,
                                    const char        *place,
                                    JsonNode          *node,
                                    const char *const *keys);
/* (nullable): a list of up to @max entries, at least one */
JsonArray  *llm_script_read_list   (LlmScriptReader   *reader,
                                    const char        *place,
                                    JsonNode          *node,
                                    guint              max);
/* (nullable): owned by @node */
const char *llm_script_read_text   (LlmScriptReader   *reader,
                                    const char        *place,
                                    JsonNode          *node);

/* Members of the object at @place. All leave the value alone when there is none, and
 * are FALSE when it is wrong. */

/* @text: (out) (transfer full) */
gboolean    llm_script_get_text    (LlmScriptReader   *reader,
                                    const char        *place,
                                    JsonObject        *object,
                                    const char        *key,
                                    char             **text);
gboolean    llm_script_get_uint    (LlmScriptReader   *reader,
                                    const char        *place,
                                    JsonObject        *object,
                                    const char        *key,
                                    guint              min,
                                    guint              max,
                                    guint             *value);
/* One of @names, which end with NULL; @value: its index. */
gboolean    llm_script_get_choice  (LlmScriptReader   *reader,
                                    const char        *place,
                                    JsonObject        *object,
                                    const char        *key,
                                    const char *const *names,
                                    guint             *value);

G_END_DECLS
