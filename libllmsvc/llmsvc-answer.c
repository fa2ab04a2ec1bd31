/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-answer-private.h"

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
};

enum
{
  PROP_TEXT = 1,
  PROP_FINISH_REASON,
  PROP_PROMPT_TOKENS,
  PROP_REUSED_TOKENS,
  PROP_OUTPUT_TOKENS,
  PROP_KEPT_TOKENS,
  PROP_TTFT_MS,
  PROP_TPOT_MS,
  PROP_SLO_MET,
  PROP_MODEL_ID,
  PROP_REVISION,
  PROP_IS_REPEATED,
  PROP_IGNORED,
  PROP_RESULTS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* The word on the bus; without a word there is none for it. */
static const char *const reasons[] = {
  [LLMSVC_FINISH_REASON_STOP] = "stop",
  [LLMSVC_FINISH_REASON_LENGTH] = "length",
  [LLMSVC_FINISH_REASON_CONTEXT_FULL] = "context-full",
  [LLMSVC_FINISH_REASON_CANCELLED] = "cancelled",
  [LLMSVC_FINISH_REASON_STALLED] = "stalled",
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

static gboolean
get_boolean (GVariant   *dict,
             const char *key)
{
  gboolean value = FALSE;

  g_variant_lookup (dict, key, "b", &value);
  return value;
}

/* --- the object --- */

static void
llmsvc_answer_get_property (GObject    *object,
                            guint       id,
                            GValue     *value,
                            GParamSpec *pspec)
{
  LlmsvcAnswer *self = LLMSVC_ANSWER (object);

  switch (id)
    {
    case PROP_TEXT:
      g_value_set_string (value, self->text);
      break;
    case PROP_FINISH_REASON:
      g_value_set_enum (value, (int) llmsvc_answer_get_finish_reason (self));
      break;
    case PROP_PROMPT_TOKENS:
      g_value_set_uint (value, llmsvc_answer_get_prompt_tokens (self));
      break;
    case PROP_REUSED_TOKENS:
      g_value_set_uint (value, llmsvc_answer_get_reused_tokens (self));
      break;
    case PROP_OUTPUT_TOKENS:
      g_value_set_uint (value, llmsvc_answer_get_output_tokens (self));
      break;
    case PROP_KEPT_TOKENS:
      g_value_set_uint (value, llmsvc_answer_get_kept_tokens (self));
      break;
    case PROP_TTFT_MS:
      g_value_set_double (value, llmsvc_answer_get_ttft_ms (self));
      break;
    case PROP_TPOT_MS:
      g_value_set_double (value, llmsvc_answer_get_tpot_ms (self));
      break;
    case PROP_SLO_MET:
      g_value_set_boolean (value, llmsvc_answer_get_slo_met (self));
      break;
    case PROP_MODEL_ID:
      g_value_set_string (value, llmsvc_answer_get_model_id (self));
      break;
    case PROP_REVISION:
      g_value_set_uint64 (value, llmsvc_answer_get_revision (self));
      break;
    case PROP_IS_REPEATED:
      g_value_set_boolean (value, llmsvc_answer_get_is_repeated (self));
      break;
    case PROP_IGNORED:
      g_value_set_boxed (value, self->ignored);
      break;
    case PROP_RESULTS:
      g_value_set_variant (value, self->results);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
llmsvc_answer_finalize (GObject *object)
{
  LlmsvcAnswer *self = LLMSVC_ANSWER (object);

  g_free (self->text);
  g_variant_unref (self->results);
  g_strfreev (self->ignored);

  G_OBJECT_CLASS (llmsvc_answer_parent_class)->finalize (object);
}

static void
llmsvc_answer_class_init (LlmsvcAnswerClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->get_property = llmsvc_answer_get_property;
  object_class->finalize = llmsvc_answer_finalize;

  /**
   * LlmsvcAnswer:text:
   *
   * The whole text, UTF-8.
   *
   * Since: 0.1
   */
  properties[PROP_TEXT] = g_param_spec_string ("text", NULL, NULL, "", flags);
  /**
   * LlmsvcAnswer:finish-reason:
   *
   * Why it ended.
   *
   * Since: 0.1
   */
  properties[PROP_FINISH_REASON] =
    g_param_spec_enum ("finish-reason", NULL, NULL, LLMSVC_TYPE_FINISH_REASON,
                       LLMSVC_FINISH_REASON_OTHER, flags);
  /**
   * LlmsvcAnswer:prompt-tokens:
   *
   * The tokens of everything that the model has read for it.
   *
   * Since: 0.1
   */
  properties[PROP_PROMPT_TOKENS] =
    g_param_spec_uint ("prompt-tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcAnswer:reused-tokens:
   *
   * Those of [property@Llmsvc.Answer:prompt-tokens] that were in memory already.
   *
   * Since: 0.1
   */
  properties[PROP_REUSED_TOKENS] =
    g_param_spec_uint ("reused-tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcAnswer:output-tokens:
   *
   * The tokens of the answer.
   *
   * Since: 0.1
   */
  properties[PROP_OUTPUT_TOKENS] =
    g_param_spec_uint ("output-tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcAnswer:kept-tokens:
   *
   * How many tokens of the prompt and the answer the model still sees, when the context is longer
   * than that and the option `on-overflow` is `slide`; 0 when it sees all.
   *
   * Since: 0.1
   */
  properties[PROP_KEPT_TOKENS] =
    g_param_spec_uint ("kept-tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcAnswer:ttft-ms:
   *
   * The time to the first token, in milliseconds.
   *
   * Since: 0.1
   */
  properties[PROP_TTFT_MS] =
    g_param_spec_double ("ttft-ms", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * LlmsvcAnswer:tpot-ms:
   *
   * The time of each further token, in milliseconds.
   *
   * Since: 0.1
   */
  properties[PROP_TPOT_MS] =
    g_param_spec_double ("tpot-ms", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * LlmsvcAnswer:slo-met:
   *
   * Whether it came as soon as it was wanted.
   *
   * Since: 0.1
   */
  properties[PROP_SLO_MET] = g_param_spec_boolean ("slo-met", NULL, NULL, FALSE, flags);
  /**
   * LlmsvcAnswer:model-id:
   *
   * The [property@Llmsvc.Model:id] of the model that has answered.
   *
   * Since: 0.1
   */
  properties[PROP_MODEL_ID] = g_param_spec_string ("model-id", NULL, NULL, "", flags);
  /**
   * LlmsvcAnswer:revision:
   *
   * The revision of the context after this turn; 0 without a context.
   *
   * Since: 0.1
   */
  properties[PROP_REVISION] =
    g_param_spec_uint64 ("revision", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * LlmsvcAnswer:is-repeated:
   *
   * Whether the same request had been answered before, and nothing was done again.
   *
   * Since: 0.1
   */
  properties[PROP_IS_REPEATED] = g_param_spec_boolean ("is-repeated", NULL, NULL, FALSE, flags);
  /**
   * LlmsvcAnswer:ignored:
   *
   * The options that had no effect, because the service does not know them.
   *
   * Since: 0.1
   */
  properties[PROP_IGNORED] = g_param_spec_boxed ("ignored", NULL, NULL, G_TYPE_STRV, flags);
  /**
   * LlmsvcAnswer:results:
   *
   * Everything that the service has told, of type `a{sv}`.
   *
   * Since: 0.1
   */
  properties[PROP_RESULTS] =
    g_param_spec_variant ("results", NULL, NULL, G_VARIANT_TYPE_VARDICT, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
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

/**
 * llmsvc_answer_get_text:
 * @self: an answer
 *
 * Gets the whole text.
 *
 * Returns: (transfer none): the text, UTF-8
 *
 * Since: 0.1
 */
const char *
llmsvc_answer_get_text (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), NULL);

  return self->text;
}

/**
 * llmsvc_answer_get_finish_reason:
 * @self: an answer
 *
 * Gets why it ended.
 *
 * Returns: the reason, %LLMSVC_FINISH_REASON_OTHER for one of a later version
 *
 * Since: 0.1
 */
LlmsvcFinishReason
llmsvc_answer_get_finish_reason (LlmsvcAnswer *self)
{
  const char *word;

  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), LLMSVC_FINISH_REASON_OTHER);

  word = llmsvc_dict_get_string (self->results, "finish-reason");
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (g_strcmp0 (word, reasons[i]) == 0)
      return (LlmsvcFinishReason) i;

  return LLMSVC_FINISH_REASON_OTHER;
}

/**
 * llmsvc_answer_get_prompt_tokens:
 * @self: an answer
 *
 * Gets how many tokens the model has read for it, with the earlier turns.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_answer_get_prompt_tokens (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return llmsvc_dict_get_uint (self->results, "prompt-tokens");
}

/**
 * llmsvc_answer_get_reused_tokens:
 * @self: an answer
 *
 * Gets how many of the prompt's tokens were in memory already.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_answer_get_reused_tokens (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return llmsvc_dict_get_uint (self->results, "reused-tokens");
}

/**
 * llmsvc_answer_get_output_tokens:
 * @self: an answer
 *
 * Gets how many tokens the answer has.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_answer_get_output_tokens (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return llmsvc_dict_get_uint (self->results, "output-tokens");
}

/**
 * llmsvc_answer_get_kept_tokens:
 * @self: an answer
 *
 * Gets how many tokens of the prompt and the answer the model still sees, when the context is
 * longer than that and the option `on-overflow` is `slide`.
 *
 * Returns: tokens, 0 when it sees all
 *
 * Since: 0.1
 */
guint
llmsvc_answer_get_kept_tokens (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return llmsvc_dict_get_uint (self->results, "kept-tokens");
}

/**
 * llmsvc_answer_get_ttft_ms:
 * @self: an answer
 *
 * Gets the time to the first token, as the service has measured it.
 *
 * Returns: milliseconds
 *
 * Since: 0.1
 */
double
llmsvc_answer_get_ttft_ms (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return MAX (llmsvc_dict_get_double (self->results, "ttft-ms"), 0);
}

/**
 * llmsvc_answer_get_tpot_ms:
 * @self: an answer
 *
 * Gets the time of each further token, as the service has measured it.
 *
 * Returns: milliseconds
 *
 * Since: 0.1
 */
double
llmsvc_answer_get_tpot_ms (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return MAX (llmsvc_dict_get_double (self->results, "tpot-ms"), 0);
}

/**
 * llmsvc_answer_get_slo_met:
 * @self: an answer
 *
 * Gets whether it came as soon as it was wanted.
 *
 * Returns: whether it did
 *
 * Since: 0.1
 */
gboolean
llmsvc_answer_get_slo_met (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), FALSE);

  return get_boolean (self->results, "slo-met");
}

/**
 * llmsvc_answer_get_model_id:
 * @self: an answer
 *
 * Gets the model that has answered.
 *
 * Returns: (transfer none): its [property@Llmsvc.Model:id], "" when it was not told
 *
 * Since: 0.1
 */
const char *
llmsvc_answer_get_model_id (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), NULL);

  return llmsvc_dict_get_string (self->results, "model");
}

/**
 * llmsvc_answer_get_revision:
 * @self: an answer
 *
 * Gets the revision of the context after this turn.
 *
 * Returns: the revision, 0 without a context
 *
 * Since: 0.1
 */
guint64
llmsvc_answer_get_revision (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), 0);

  return llmsvc_dict_get_uint64 (self->results, "revision");
}

/**
 * llmsvc_answer_get_is_repeated:
 * @self: an answer
 *
 * Gets whether a request with the same option `request-id` had been answered before: then
 * this is that answer, and nothing was done again.
 *
 * Returns: whether it had been
 *
 * Since: 0.1
 */
gboolean
llmsvc_answer_get_is_repeated (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), FALSE);

  return get_boolean (self->results, "repeated");
}

/**
 * llmsvc_answer_get_ignored:
 * @self: an answer
 *
 * Gets the options that had no effect, because the service does not know them.
 *
 * Returns: (array zero-terminated=1) (transfer none): their keys
 *
 * Since: 0.1
 */
const char *const *
llmsvc_answer_get_ignored (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), NULL);

  return (const char *const *) self->ignored;
}

/**
 * llmsvc_answer_get_results:
 * @self: an answer
 *
 * Gets everything that the service has told. Whole numbers are of any type.
 *
 * Returns: (transfer none): an `a{sv}`
 *
 * Since: 0.1
 */
GVariant *
llmsvc_answer_get_results (LlmsvcAnswer *self)
{
  g_return_val_if_fail (LLMSVC_IS_ANSWER (self), NULL);

  return self->results;
}
