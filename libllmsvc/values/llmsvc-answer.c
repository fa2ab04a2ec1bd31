/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "values/llmsvc-answer-private.h"

#include "llmsvc-enum-types.h"

/**
 * LlmsvcAnswer:
 *
 * A whole answer: its text, and what the service has told about how it was made.
 *
 * An answer does not change and can be used in any thread. A number that the service has
 * not told is 0.
 *
 * Since: 0.1
 */
struct _LlmsvcAnswer
{
  GObject parent_instance;

  char *text;
  GVariant *results;  /* (owned): a{sv} */
  GStrv ignored;
  GStrv unheld;
};

/* The word on the bus; without a word there is none for it. */
static const char *const reasons[] = {
  [LLMSVC_FINISH_REASON_STOP] = "stop",
  [LLMSVC_FINISH_REASON_LENGTH] = "length",
  [LLMSVC_FINISH_REASON_CONTEXT_FULL] = "context-full",
  [LLMSVC_FINISH_REASON_CANCELLED] = "cancelled",
  [LLMSVC_FINISH_REASON_STALLED] = "stalled",
  [LLMSVC_FINISH_REASON_REPEATS] = "repeats",
};

G_DEFINE_FINAL_TYPE (LlmsvcAnswer, llmsvc_answer, G_TYPE_OBJECT)

/* --- values of what the service tells --- */

double
llmsvc_dict_get_double (GVariant   *dict,
                        const char *key)
{
  g_autoptr(GVariant) value = g_variant_lookup_value (dict, key, NULL);

  if (value == NULL)
    return 0;

  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_DOUBLE:
      return g_variant_get_double (value);
    case G_VARIANT_CLASS_UINT32:
      return g_variant_get_uint32 (value);
    case G_VARIANT_CLASS_INT32:
      return g_variant_get_int32 (value);
    case G_VARIANT_CLASS_UINT64:
      return (double) g_variant_get_uint64 (value);
    case G_VARIANT_CLASS_INT64:
      return (double) g_variant_get_int64 (value);
    default:
      return 0;
    }
}

guint64
llmsvc_dict_get_uint64 (GVariant   *dict,
                        const char *key)
{
  guint64 whole = 0;
  double value;

  if (g_variant_lookup (dict, key, "t", &whole))
    return whole;

  value = llmsvc_dict_get_double (dict, key);
  return value > 0 && value < 18446744073709551616.0 ? (guint64) value : 0;
}

guint
llmsvc_dict_get_uint (GVariant   *dict,
                      const char *key)
{
  guint64 value = llmsvc_dict_get_uint64 (dict, key);

  return value <= G_MAXUINT ? (guint) value : 0;
}

const char *
llmsvc_dict_get_string (GVariant   *dict,
                        const char *key)
{
  const char *value = "";

  g_variant_lookup (dict, key, "&s", &value);
  return value;
}

gboolean
llmsvc_dict_get_boolean (GVariant   *dict,
                         const char *key)
{
  gboolean value = FALSE;

  g_variant_lookup (dict, key, "b", &value);
  return value;
}

/* --- the object --- */

static LlmsvcFinishReason
get_finish_reason (LlmsvcAnswer *self)
{
  const char *word = llmsvc_dict_get_string (self->results, "finish-reason");

  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (g_strcmp0 (word, reasons[i]) == 0)
      return (LlmsvcFinishReason) i;

  return LLMSVC_FINISH_REASON_OTHER;
}

#include "llmsvc-answer-properties.h"

static void
llmsvc_answer_finalize (GObject *object)
{
  LlmsvcAnswer *self = LLMSVC_ANSWER (object);

  g_free (self->text);
  g_variant_unref (self->results);
  g_strfreev (self->ignored);
  g_strfreev (self->unheld);

  G_OBJECT_CLASS (llmsvc_answer_parent_class)->finalize (object);
}

static void
llmsvc_answer_class_init (LlmsvcAnswerClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llmsvc_answer_finalize;
  install_properties (G_OBJECT_CLASS (klass));
}

static void
llmsvc_answer_init (LlmsvcAnswer *self)
{
}

LlmsvcAnswer *
llmsvc_answer_new (const char *text,
                   GVariant   *results)
{
  LlmsvcAnswer *self;

  g_return_val_if_fail (text != NULL, NULL);
  g_return_val_if_fail (g_variant_is_of_type (results, G_VARIANT_TYPE_VARDICT), NULL);

  self = g_object_new (LLMSVC_TYPE_ANSWER, NULL);
  self->text = g_strdup (text);
  self->results = g_variant_ref_sink (results);
  /* Serialized, its strings stay where they are for as long as it lives. */
  (void) g_variant_get_data (self->results);
  if (!g_variant_lookup (results, "ignored", "^as", &self->ignored))
    self->ignored = g_new0 (char *, 1);
  if (!g_variant_lookup (results, "unheld", "^as", &self->unheld))
    self->unheld = g_new0 (char *, 1);
  return self;
}

LlmsvcAnswer *
llmsvc_answer_new_standalone (LlmsvcAnswer      *self,
                              const char *const *ignored)
{
  g_autoptr(GVariantDict) dict = NULL;
  g_autoptr(GStrvBuilder) all = g_strv_builder_new ();
  g_auto(GStrv) keys = NULL;

  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), NULL);

  g_strv_builder_addv (all, (const char **) self->ignored);
  if (ignored != NULL)
    g_strv_builder_addv (all, (const char **) ignored);
  keys = g_strv_builder_end (all);

  dict = g_variant_dict_new (self->results);
  g_variant_dict_remove (dict, "revision");
  if (keys[0] != NULL)
    g_variant_dict_insert_value (dict, "ignored",
                                 g_variant_new_strv ((const char *const *) keys, -1));
  return llmsvc_answer_new (self->text, g_variant_dict_end (dict));
}
