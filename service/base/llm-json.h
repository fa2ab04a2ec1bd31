/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON as a tree that keeps what matters to a schema: numbers as they are written, strings with
 * their length, the order of members, and where each value lies. Untrusted text; limits on its
 * depth and size. One thread, or any while it does not change.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_JSON_NULL,
  LLM_JSON_FALSE,
  LLM_JSON_TRUE,
  LLM_JSON_NUMBER,
  LLM_JSON_STRING,
  LLM_JSON_ARRAY,
  LLM_JSON_OBJECT,
} LlmJsonKind;

typedef struct _LlmJson LlmJson;

struct _LlmJson
{
  LlmJsonKind kind;
  char *text;            /* (nullable) (owned): of a number, as written; of a string, UTF-8 that may
                          * contain NUL */
  gsize length;          /* of @text */
  GPtrArray *values;     /* (nullable) (owned) (element-type LlmJson): of arrays and objects */
  GPtrArray *keys;       /* (nullable) (owned) (element-type LlmJson): of objects: strings */
  LlmJson *parent;       /* (nullable) (unowned) */
  guint place;           /* among the values of @parent */
};

/* (transfer full) (nullable): @error, in LLMSVC_ERROR, says the line. */
LlmJson *llm_json_read        (const char    *text,
                               gsize          length,
                               GError       **error) G_GNUC_WARN_UNUSED_RESULT;
void     llm_json_free        (LlmJson       *self);
/* (transfer full) */
LlmJson *llm_json_new_string  (const char    *text);
LlmJson *llm_json_new_null    (void);
/* Gives an object the member, instead of the one with this key or as the last. Takes @value. */
void     llm_json_set         (LlmJson       *self,
                               const char    *key,
                               LlmJson       *value);
/* (transfer full) (nullable): the member, which the object then has no longer. */
LlmJson *llm_json_take        (LlmJson       *self,
                               const char    *key);
/* (nullable): the member with this key, if it is an object that has one. */
LlmJson *llm_json_get         (const LlmJson *self,
                               const char    *key);
/* The same; NULL, too, where it is null, as programs write what is not set. */
LlmJson *llm_json_get_set     (const LlmJson *self,
                               const char    *key);
/* Whether it is the string @text. */
gboolean llm_json_is          (const LlmJson *self,
                               const char    *text);
/* Whether it is NULL, null, or a string of space or of “null” alone: as programs write the
 * arguments of a call that has none. */
gboolean llm_json_is_nothing  (const LlmJson *self);
/* (transfer full): where it lies, as the fragment of an URI: “#/properties/name”. */
char    *llm_json_get_pointer (const LlmJson *self);

/* Appends it, as it was but for space and escapes. */
void     llm_json_write       (const LlmJson *self,
                               GString       *out);

/* --- numbers: exact decimals --- */

typedef struct
{
  gboolean is_negative;  /* not of zero */
  char *whole;           /* (owned): digits, no zeros in front of others */
  char *fraction;        /* (owned): digits, no zeros at the end */
} LlmDecimal;

/* FALSE: it has an exponent beyond ±400. */
gboolean llm_decimal_read     (LlmDecimal    *self,
                               const char    *text);
void     llm_decimal_clear    (LlmDecimal    *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmJson, llm_json_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmDecimal, llm_decimal_clear)

G_END_DECLS
