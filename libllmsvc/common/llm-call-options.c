/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llm-call-options.h"

#include <glib/gi18n-lib.h>
#include <string.h>

#include "common/llmsvc-error-private.h"
#include "common/llmsvc-option-value.h"

#define MAX_KEYS      128
#define MAX_KEY_BYTES 64
#define MAX_REQUIRED  64
#define MAX_LOCALE_BYTES 128

struct _LlmCallOptions
{
  GVariant *values[LLMSVC_N_OPTIONS];     /* (nullable) (owned), in the type of the table */
  const char **strvs[LLMSVC_N_OPTIONS];   /* (nullable) (owned container), into values */
  GPtrArray *ignored;                     /* (element-type utf8) (owned), ends with NULL */
  char *locale;                           /* (nullable) */
};

/* The ability that just this value needs, or NULL. */
static const char *
find_needed_feature (const LlmsvcOptionInfo *info,
                     GVariant               *value)
{
  const char *string;
  guint32 percent;

  switch (info->id)
    {
    case LLMSVC_OPTION_RESPONSE_FORMAT:
      string = g_variant_get_string (value, NULL);
      if (g_str_equal (string, "text"))
        return NULL;
      return g_str_equal (string, "grammar") || g_str_equal (string, "regex")
               ? (g_str_equal (string, "regex") ? "regex" : "grammar")
               : info->feature;
    case LLMSVC_OPTION_ON_OVERFLOW:
      return g_str_equal (g_variant_get_string (value, NULL), "slide") ? info->feature : NULL;
    case LLMSVC_OPTION_SUB_MODEL:
    case LLMSVC_OPTION_PROMPT_LEVEL:
      percent = g_variant_get_uint32 (value);
      return percent != 0 && percent != 100 ? info->feature : NULL;
    default:
      return info->feature;
    }
}

/* (transfer full): short enough for a message. */
static char *
show_value (GVariant *value)
{
  g_autofree char *printed = g_variant_is_of_type (value, G_VARIANT_TYPE_STRING)
                               ? g_variant_dup_string (value, NULL)
                               : g_variant_print (value, FALSE);

  return llmsvc_shorten (printed);
}

static gboolean
check_feature (const char         *key,
               GVariant           *value,
               const char         *needed,
               const char *const  *features,
               GError            **error)
{
  g_autofree char *shown = NULL;

  if (needed == NULL || (features != NULL && g_strv_contains (features, needed)))
    return TRUE;

  shown = show_value (value);
  g_propagate_error (error, llmsvc_error_new (LLMSVC_ERROR_UNSUPPORTED, NULL,
                                              _("Option “%s” = “%s” needs the ability “%s”, which "
                                                "this service does not have; see the property "
                                                "Features"), key, shown, needed));
  return FALSE;
}

/* Fails for what callers know from elsewhere and would miss in the result. */
static gboolean
check_foreign (const char  *key,
               GVariant    *value,
               LlmsvcCall   call,
               GError     **error)
{
  const LlmsvcForeignKey *foreign = llmsvc_option_find_foreign (key, call);
  g_autofree char *shown = NULL;

  if (foreign == NULL || !llmsvc_foreign_key_is_asked (foreign, value))
    return TRUE;
  if (foreign->advice == NULL)
    return check_feature (key, value, foreign->feature, NULL, error);
  shown = show_value (value);
  g_propagate_error (error, llmsvc_error_new (LLMSVC_ERROR_UNSUPPORTED, NULL,
                                              _("Option “%s” = “%s”: this call has no such "
                                                "option; %s"), key, shown, _(foreign->advice)));
  return FALSE;
}

static gboolean
is_honoured (const char         *name,
             LlmsvcCall          call,
             const char *const  *features)
{
  const LlmsvcOptionInfo *info = llmsvc_option_find (name);
  gboolean has_feature = features != NULL && g_strv_contains (features, name);

  if (has_feature || g_str_equal (name, "require") || g_str_equal (name, "locale"))
    return TRUE;
  if (info == NULL || (info->calls & (guint) call) == 0)
    return FALSE;

  /* Those with some values that need no ability were checked by value. */
  return info->feature == NULL ||
         (features != NULL && g_strv_contains (features, info->feature)) ||
         info->id == LLMSVC_OPTION_RESPONSE_FORMAT || info->id == LLMSVC_OPTION_ON_OVERFLOW ||
         info->id == LLMSVC_OPTION_SUB_MODEL || info->id == LLMSVC_OPTION_PROMPT_LEVEL;
}

static gboolean
check_required (GVariant           *value,
                LlmsvcCall          call,
                const char *const  *features,
                GError            **error)
{
  static const LlmsvcOptionInfo require = { .key = "require", .type = "as", .min = 1,
                                            .max = MAX_KEY_BYTES,
                                            .max_entries = MAX_REQUIRED };
  g_autoptr(GVariant) strings = llmsvc_option_value_convert (&require, value, error);
  GVariantIter iter;
  const char *name;

  if (strings == NULL)
    return FALSE;

  g_variant_iter_init (&iter, strings);
  while (g_variant_iter_next (&iter, "&s", &name))
    {
      g_autofree char *shown = NULL;

      if (is_honoured (name, call, features))
        continue;

      shown = llmsvc_shorten (name);
      g_propagate_error (error, llmsvc_error_new (LLMSVC_ERROR_UNSUPPORTED, NULL,
                                                  _("“%s” is required, but this call of this "
                                                    "service has no such option or ability; see "
                                                    "the property Features"), shown));
      return FALSE;
    }

  return TRUE;
}

/* As in the environment: "de_DE.UTF-8", or several by preference, "de_AT:de:en".
 * No character of it means anything in a path. */
static gboolean
is_locale (const char *text)
{
  if (!g_ascii_isalpha (text[0]) || strlen (text) > MAX_LOCALE_BYTES)
    return FALSE;

  for (const char *p = text; *p != '\0'; p++)
    if (!g_ascii_isalnum (*p) && strchr ("_-.@:", *p) == NULL)
      return FALSE;

  return TRUE;
}

static gboolean
take_locale (LlmCallOptions  *self,
             GVariant        *wrapped,
             GError         **error)
{
  static const LlmsvcOptionInfo locale = { .key = "locale", .type = "s", .min = 1,
                                           .max = MAX_LOCALE_BYTES };
  g_autoptr(GVariant) value = llmsvc_option_value_unwrap (wrapped);
  g_autoptr(GVariant) string = llmsvc_option_value_convert (&locale, value, error);
  const char *text;

  if (string == NULL)
    return FALSE;

  text = g_variant_get_string (string, NULL);
  if (!is_locale (text))
    {
      g_autofree char *shown = llmsvc_shorten (text);

      return llmsvc_option_fail (error, _("Option “locale” is “%s”, it must be the name of a "
                                          "locale, such as “de_DE.UTF-8”"), shown);
    }

  self->locale = g_strdup (text);
  return TRUE;
}

char *
llm_call_options_peek_locale (GVariant *dict)
{
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GVariant) inner = NULL;

  if (dict == NULL || !g_variant_is_of_type (dict, G_VARIANT_TYPE_VARDICT))
    return NULL;

  value = g_variant_lookup_value (dict, "locale", NULL);
  inner = value != NULL ? llmsvc_option_value_unwrap (value) : NULL;
  if (inner == NULL || !g_variant_is_of_type (inner, G_VARIANT_TYPE_STRING) ||
      !is_locale (g_variant_get_string (inner, NULL)))
    return NULL;

  return g_variant_dup_string (inner, NULL);
}

static gboolean
take_entry (LlmCallOptions     *self,
            const char         *key,
            GVariant           *wrapped,
            LlmsvcCall          call,
            const char *const  *features,
            GError            **error)
{
  const LlmsvcOptionInfo *info = llmsvc_option_find (key);
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GVariant) converted = NULL;

  value = llmsvc_option_value_unwrap (wrapped);
  if (info == NULL || (info->calls & (guint) call) == 0)
    {
      if (!check_foreign (key, value, call, error))
        return FALSE;
      g_ptr_array_add (self->ignored, g_strdup (key));
      return TRUE;
    }

  converted = llmsvc_option_value_convert (info, value, error);
  if (converted == NULL
      || !check_feature (info->key, converted, find_needed_feature (info, converted), features,
                         error))
    return FALSE;

  if (g_str_equal (info->type, "as"))
    self->strvs[info->id] = g_variant_get_strv (converted, NULL);
  self->values[info->id] = g_steal_pointer (&converted);
  return TRUE;
}

static gboolean
check_dict (GVariant  *dict,
            GError   **error)
{
  if (!g_variant_is_of_type (dict, G_VARIANT_TYPE_VARDICT))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 _("The options are not a dictionary (a{sv})"));
  else if (!g_variant_is_normal_form (dict))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 _("The options are damaged: they are not valid as a{sv}"));
  else if (g_variant_n_children (dict) > MAX_KEYS)
    g_propagate_error (error, llmsvc_error_new (LLMSVC_ERROR_INVALID_ARGUMENT, NULL,
                                                _("There are %zu options, a call takes at most %u"),
                                                g_variant_n_children (dict), MAX_KEYS));
  else
    return TRUE;

  return FALSE;
}

static gboolean
check_key (const char  *key,
           GHashTable  *seen,
           GError     **error)
{
  g_autofree char *shown = NULL;

  if (strlen (key) > MAX_KEY_BYTES)
    {
      shown = llmsvc_shorten (key);
      return llmsvc_option_fail (error, _("The name of option “%s” has more than %u bytes"), shown,
                                 MAX_KEY_BYTES);
    }

  return g_hash_table_add (seen, (gpointer) key) ||
         llmsvc_option_fail (error, _("Option “%s” is given twice"), key);
}

static void
options_clear (LlmCallOptions *self)
{
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      g_free (self->strvs[i]);
      g_clear_pointer (&self->values[i], g_variant_unref);
    }
  g_clear_pointer (&self->ignored, g_ptr_array_unref);
  g_free (self->locale);
}

LlmCallOptions *
llm_call_options_parse (GVariant           *dict,
                        LlmsvcCall          call,
                        const char *const  *features,
                        GError            **error)
{
  g_autoptr(LlmCallOptions) self = g_atomic_rc_box_new0 (LlmCallOptions);
  g_autoptr(GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr(GVariant) required = NULL;
  GVariantIter iter;
  const char *key;
  GVariant *value;

  self->ignored = g_ptr_array_new_with_free_func (g_free);
  if (dict != NULL)
    {
      if (!check_dict (dict, error))
        return NULL;

      g_variant_iter_init (&iter, dict);
      while (g_variant_iter_next (&iter, "{&sv}", &key, &value))
        {
          g_autoptr(GVariant) owned = value;

          if (!check_key (key, seen, error))
            return NULL;
          if (g_str_equal (key, "require"))
            required = llmsvc_option_value_unwrap (owned);
          else if (g_str_equal (key, "locale"))
            {
              if (!take_locale (self, owned, error))
                return NULL;
            }
          else if (!take_entry (self, key, owned, call, features, error))
            return NULL;
        }
    }
  if (required != NULL && !check_required (required, call, features, error))
    return NULL;

  g_ptr_array_add (self->ignored, NULL);
  return g_steal_pointer (&self);
}

LlmCallOptions *
llm_call_options_ref (LlmCallOptions *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

void
llm_call_options_unref (LlmCallOptions *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release_full (self, (GDestroyNotify) options_clear);
}

GVariant *
llm_call_options_get_variant (const LlmCallOptions *self,
                              LlmsvcOption         id)
{
  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail ((guint) id < LLMSVC_N_OPTIONS, NULL);

  return self->values[id];
}

gboolean
llm_call_options_has (const LlmCallOptions *self,
                      LlmsvcOption         id)
{
  return llm_call_options_get_variant (self, id) != NULL;
}

guint64
llm_call_options_get_uint (const LlmCallOptions *self,
                           LlmsvcOption         id,
                           guint64              fallback)
{
  GVariant *value = llm_call_options_get_variant (self, id);

  if (value == NULL)
    return fallback;
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32))
    return g_variant_get_uint32 (value);

  return g_variant_get_uint64 (value);
}

double
llm_call_options_get_double (const LlmCallOptions *self,
                             LlmsvcOption         id,
                             double               fallback)
{
  GVariant *value = llm_call_options_get_variant (self, id);

  return value != NULL ? g_variant_get_double (value) : fallback;
}

gboolean
llm_call_options_get_boolean (const LlmCallOptions *self,
                              LlmsvcOption         id,
                              gboolean             fallback)
{
  GVariant *value = llm_call_options_get_variant (self, id);

  return value != NULL ? g_variant_get_boolean (value) : fallback;
}

const char *
llm_call_options_get_string (const LlmCallOptions *self,
                             LlmsvcOption         id,
                             const char          *fallback)
{
  GVariant *value = llm_call_options_get_variant (self, id);

  return value != NULL ? g_variant_get_string (value, NULL) : fallback;
}

const char *const *
llm_call_options_get_strv (const LlmCallOptions *self,
                           LlmsvcOption         id)
{
  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail ((guint) id < LLMSVC_N_OPTIONS, NULL);

  return (const char *const *) self->strvs[id];
}

const char *
llm_call_options_get_locale (const LlmCallOptions *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->locale;
}

const char *const *
llm_call_options_get_ignored (const LlmCallOptions *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return (const char *const *) self->ignored->pdata;
}
