/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON from and to GVariant, strict and with whole numbers of 64 bits. What is read is
 * untrusted: its depth is limited, and so is its size by who has read it into memory.
 * Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Of arrays and objects in each other. */
#define LLMCTL_JSON_MAX_DEPTH 32

/* (transfer full): any value, without a newline at its end, in lines for people if @is_indented.
 * Variants are what they hold, dictionaries are objects, structures and arrays are arrays, NaN and
 * infinity are `null`. Control characters are escaped, those above ASCII as well. */
char     *llmctl_json_write (GVariant    *value,
                             gboolean     is_indented);

/* (transfer full): the same in one line, but text without quotes, as it is. */
char     *llmctl_json_write_plain (GVariant *value);

/* (transfer full): objects are `a{sv}`, arrays `av`, whole numbers `x`, or `t` when they are too
 * large for it, other numbers `d`; of keys that stand twice the last counts. There is no `null` on
 * D-Bus, so it is LLMSVC_ERROR_INVALID_ARGUMENT. @text: valid UTF-8 */
GVariant *llmctl_json_read  (const char  *text,
                             GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* (nullable) (transfer full): a number alone, as JSON has it: `x`, `t` or `d`. */
GVariant *llmctl_json_read_number (const char *text);

/* (transfer full): @name of a property or argument as all keys of our JSON are written:
 * "KvResident" is "kv-resident". */
char     *llmctl_json_make_key     (const char *name);
/* (transfer floating): an a{sv} with its keys made so; NULL for NULL. */
GVariant *llmctl_json_rename_keys  (GVariant   *dict);

/* (transfer floating): an a{sv} of members in this order, each a key with the type of its value behind
 * a colon, and the value; ends with NULL: “s” is a text, “b” a gboolean, “u” a guint32, “t” a guint64,
 * “*” a GVariant, which is taken when floating. A text or GVariant that is NULL adds nothing. */
GVariant *llmctl_json_object      (const char      *member,
                                   ...) G_GNUC_NULL_TERMINATED;

/* Members of an object that is written: @dict builds an a{sv}, which keeps their order.
 * Nothing is added for a %NULL @text; a floating @value is taken. */
void      llmctl_json_add         (GVariantBuilder *dict,
                                   const char      *key,
                                   GVariant        *value);
void      llmctl_json_add_string  (GVariantBuilder *dict,
                                   const char      *key,
                                   const char      *text);

G_END_DECLS
