/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON from outside, read strictly, and values of results as both sides of the bus write and
 * read them. What is read is untrusted: depth and values are limited, and the caller limits the
 * bytes. Any thread.
 */

#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* More is never allowed. */
#define LLMSVC_JSON_MAX_DEPTH 64

typedef struct
{
  guint depth;         /* of arrays and objects in each other */
  guint values;        /* in all */
  guint whole_digits;  /* of a number, before a point */
} LlmsvcJsonLimits;

/* (nullable): what is wrong with @text, which is UTF-8 and need not end with NUL, as the JSON of one
 * value. @at: (out): behind it. */
const char *llmsvc_json_find_fault   (const char              *text,
                                      gsize                    length,
                                      const LlmsvcJsonLimits  *allowed,
                                      const char             **at);

/* (transfer full) (nullable): the one value in @text, which need not end with NUL. Takes JSON and
 * nothing else, no key twice in an object, and whole numbers of up to 18 digits; @error says the
 * line and the column. */
JsonNode *llmsvc_json_parse          (const char  *text,
                                      gsize        length,
                                      GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer floating) (nullable): whole numbers as t (below zero x), others as d, lists of strings
 * as as, objects as a{sv}. NULL for null and other lists, which an object is given without. */
GVariant *llmsvc_json_to_variant     (JsonNode    *node);

/* The inside of a string, without its quotes; @text is valid UTF-8. A NUL byte
 * becomes U+FFFD, because neither D-Bus nor C strings can carry it. */
void      llmsvc_json_append_escaped (GString     *out,
                                      const char  *text,
                                      gsize        length);

/* A value of type b, u, t, d, s, as or a{sv} of these; a double that is not
 * finite is written as null. */
void      llmsvc_json_append_value   (GString     *out,
                                      GVariant    *value);

G_END_DECLS
