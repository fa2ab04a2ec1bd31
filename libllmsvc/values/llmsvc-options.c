/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "values/llmsvc-options-private.h"

#include <string.h>

#include "common/llmsvc-i18n.h"
#include "common/llmsvc-option-value.h"

#define KEY_REQUIRE "require"

/**
 * LlmsvcOptions:
 *
 * Options of calls, set by name and type.
 *
 * Every option that the service knows is a property of the same name, so that
 * `g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 64, "temperature", 0.2, NULL)` in C and
 * `Llmsvc.Options (max_tokens=64, temperature=0.2)` in Python do what they say. A property
 * reads as its default until it is set, and only what has been set is sent. Options of a
 * later service are set with [method@Llmsvc.Options.set_value].
 *
 * Setting a property can't fail; a value out of range makes the call fail with
 * %LLMSVC_ERROR_INVALID_OPTION that gets it. [method@Llmsvc.Options.set_value] and
 * [method@Llmsvc.Options.set_from_string] say so at once. An option that the service does
 * not know for a call is skipped and named in [property@Llmsvc.Answer:ignored], unless
 * [method@Llmsvc.Options.require] names it.
 *
 * One object can serve many calls. A call takes what is set when it begins; later changes
 * do not reach it. Not thread-safe.
 *
 * Since: 0.1
 */
struct _LlmsvcOptions
{
  GObject parent_instance;

  GHashTable *values;  /* (element-type utf8 GVariant) (owned) */
};

/* Of each option of the table, by its LlmsvcOption; the property's id is one more. */
static GParamSpec *properties[LLMSVC_N_OPTIONS];

G_DEFINE_FINAL_TYPE (LlmsvcOptions, llmsvc_options, G_TYPE_OBJECT)

/* --- properties, from the table --- */

static char *
make_blurb (const LlmsvcOptionInfo *info)
{
  g_autoptr(GString) blurb = g_string_new (info->summary);
  gboolean is_number = strchr ("utd", info->type[0]) != NULL;

  if (info->choices != NULL)
    {
      g_autofree char *choices = g_strjoinv (", ", (char **) info->choices);

      g_string_append_printf (blurb, " One of: %s%s.", choices,
                              info->takes_names     ? ", or a name"
                              : info->takes_numbers ? ", or a whole number"
                                                    : "");
    }
  if (is_number && info->max < (double) G_MAXUINT)
    g_string_append_printf (blurb, " From %g to %.10g.", info->min, info->max);
  if (info->unit != NULL)
    g_string_append_printf (blurb, " Unit: %s.", info->unit);

  return g_string_free (g_steal_pointer (&blurb), FALSE);
}

static GParamSpec *
make_pspec (const LlmsvcOptionInfo *info)
{
  g_autofree char *blurb = make_blurb (info);
  const GParamFlags flags =
    G_PARAM_READWRITE | G_PARAM_STATIC_NAME | G_PARAM_STATIC_NICK | G_PARAM_EXPLICIT_NOTIFY;

  if (g_str_equal (info->type, "as"))
    return g_param_spec_boxed (info->key, NULL, blurb, G_TYPE_STRV, flags);

  switch (info->type[0])
    {
    case 'b':
      return g_param_spec_boolean (info->key, NULL, blurb, FALSE, flags);
    case 'u':
      return g_param_spec_uint (info->key, NULL, blurb, 0, G_MAXUINT, 0, flags);
    case 't':
      return g_param_spec_uint64 (info->key, NULL, blurb, 0, G_MAXUINT64, 0, flags);
    case 'd':
      return g_param_spec_double (info->key, NULL, blurb, -G_MAXDOUBLE, G_MAXDOUBLE, 0, flags);
    case 's':
      return g_param_spec_string (info->key, NULL, blurb, NULL, flags);
    default:
      return g_param_spec_variant (info->key, NULL, blurb, G_VARIANT_TYPE (info->type), NULL,
                                   flags);
    }
}

/* (transfer full) (nullable): NULL for what unsets. Text that is not UTF-8 can't go over a bus: the
 * broken bytes are replaced, as a property has no way to refuse it. */
static GVariant *
read_gvalue (const LlmsvcOptionInfo *info,
             const GValue           *value)
{
  g_auto(GStrv) strings = NULL;
  const char *string;

  if (g_str_equal (info->type, "s"))
    {
      string = g_value_get_string (value);
      return string != NULL ? g_variant_ref_sink (g_variant_new_take_string (
                                g_utf8_make_valid (string, -1)))
                            : NULL;
    }
  if (G_VALUE_HOLDS_VARIANT (value))
    return g_value_dup_variant (value);
  if (!g_str_equal (info->type, "as"))
    return g_dbus_gvalue_to_gvariant (value, G_VARIANT_TYPE (info->type));

  strings = g_value_dup_boxed (value);
  for (guint i = 0; strings != NULL && strings[i] != NULL; i++)
    {
      char *valid = g_utf8_make_valid (strings[i], -1);

      g_free (strings[i]);
      strings[i] = valid;
    }
  return strings != NULL ? g_variant_ref_sink (g_variant_new_strv ((const char *const *) strings,
                                                                   -1))
                         : NULL;
}

static void
notify (LlmsvcOptions *self,
        const char    *key)
{
  const LlmsvcOptionInfo *info = llmsvc_option_find (key);

  if (info != NULL)
    g_object_notify_by_pspec (G_OBJECT (self), properties[info->id]);
}

/* @value: (nullable): NULL unsets; floating references are taken */
static void
store (LlmsvcOptions *self,
       const char    *key,
       GVariant      *value)
{
  GVariant *old = g_hash_table_lookup (self->values, key);

  if (value == NULL && old == NULL)
    return;
  if (value == NULL)
    {
      g_hash_table_remove (self->values, key);
      notify (self, key);
      return;
    }

  g_variant_ref_sink (value);
  if (old != NULL && g_variant_is_of_type (value, g_variant_get_type (old)) &&
      g_variant_equal (value, old))
    {
      g_variant_unref (value);
      return;
    }
  g_hash_table_insert (self->values, g_strdup (key), value);
  notify (self, key);
}

static void
llmsvc_options_get_property (GObject    *object,
                             guint       id,
                             GValue     *value,
                             GParamSpec *pspec)
{
  LlmsvcOptions *self = LLMSVC_OPTIONS (object);
  const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) (id - 1));
  GVariant *variant;

  if (info == NULL)
    {
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      return;
    }

  variant = g_hash_table_lookup (self->values, info->key);
  if (variant != NULL)
    {
      g_auto(GValue) found = G_VALUE_INIT;

      g_dbus_gvariant_to_gvalue (variant, &found);
      g_value_copy (&found, value);
    }
  else
    {
      g_param_value_set_default (pspec, value);
    }
}

static void
llmsvc_options_set_property (GObject      *object,
                             guint         id,
                             const GValue *value,
                             GParamSpec   *pspec)
{
  const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) (id - 1));
  g_autoptr(GVariant) variant = NULL;

  if (info == NULL)
    {
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
      return;
    }

  variant = read_gvalue (info, value);
  store (LLMSVC_OPTIONS (object), info->key, variant);
}

static void
llmsvc_options_finalize (GObject *object)
{
  LlmsvcOptions *self = LLMSVC_OPTIONS (object);

  g_hash_table_unref (self->values);

  G_OBJECT_CLASS (llmsvc_options_parent_class)->finalize (object);
}

static void
llmsvc_options_class_init (LlmsvcOptionsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  llmsvc_i18n_init ();
  object_class->get_property = llmsvc_options_get_property;
  object_class->set_property = llmsvc_options_set_property;
  object_class->finalize = llmsvc_options_finalize;

  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      properties[i] = make_pspec (llmsvc_option_get_info ((LlmsvcOption) i));
      g_object_class_install_property (object_class, i + 1, properties[i]);
    }
}

static void
llmsvc_options_init (LlmsvcOptions *self)
{
  self->values =
    g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_variant_unref);
}

/* --- public --- */

/**
 * llmsvc_options_new:
 *
 * Makes options of which none is set.
 *
 * Returns: (transfer full): the options
 *
 * Since: 0.1
 */
LlmsvcOptions *
llmsvc_options_new (void)
{
  return g_object_new (LLMSVC_TYPE_OPTIONS, NULL);
}

/**
 * llmsvc_options_copy:
 * @self: the options
 *
 * Makes options with the same values, which can be changed without @self.
 *
 * Returns: (transfer full): the copy
 *
 * Since: 0.1
 */
LlmsvcOptions *
llmsvc_options_copy (LlmsvcOptions *self)
{
  LlmsvcOptions *copy;
  GHashTableIter iter;
  gpointer key, value;

  g_return_val_if_fail (LLMSVC_IS_OPTIONS (self), NULL);

  copy = llmsvc_options_new ();
  g_hash_table_iter_init (&iter, self->values);
  while (g_hash_table_iter_next (&iter, &key, &value))
    g_hash_table_insert (copy->values, g_strdup (key), g_variant_ref (value));
  return copy;
}

gboolean
llmsvc_options_set_value (LlmsvcOptions *self,
                          const char    *key,
                          GVariant      *value,
                          GError       **error)
{
  g_autoptr(GVariant) owned = value != NULL ? g_variant_ref_sink (value) : NULL;
  g_autoptr(GVariant) converted = NULL;
  g_autoptr(GVariant) plain = NULL;
  const LlmsvcOptionInfo *info;

  g_return_val_if_fail (LLMSVC_IS_OPTIONS (self), FALSE);
  g_return_val_if_fail (key != NULL, FALSE);
  g_return_val_if_fail (g_utf8_validate (key, -1, NULL), FALSE);

  info = llmsvc_option_find (key);
  if (owned == NULL || info == NULL)
    {
      store (self, key, owned);
      return TRUE;
    }

  plain = llmsvc_option_value_unwrap (owned);
  converted = llmsvc_option_value_convert (info, plain, error);
  if (converted == NULL)
    return FALSE;

  store (self, key, converted);
  return TRUE;
}

/**
 * llmsvc_options_get_value:
 * @self: the options
 * @key: the name of an option
 *
 * Gets the value of one option, in the type of the table.
 *
 * Returns: (transfer none) (nullable): the value, %NULL when it is not set
 *
 * Since: 0.1
 */
GVariant *
llmsvc_options_get_value (LlmsvcOptions *self,
                          const char    *key)
{
  g_return_val_if_fail (LLMSVC_IS_OPTIONS (self), NULL);
  g_return_val_if_fail (key != NULL, NULL);

  return g_hash_table_lookup (self->values, key);
}

/**
 * llmsvc_options_unset:
 * @self: the options
 * @key: the name of an option
 *
 * Takes one option out, so that the service decides.
 *
 * Since: 0.1
 */
void
llmsvc_options_unset (LlmsvcOptions *self,
                      const char    *key)
{
  g_return_if_fail (LLMSVC_IS_OPTIONS (self));
  g_return_if_fail (key != NULL);

  store (self, key, NULL);
}

/**
 * llmsvc_options_require:
 * @self: the options
 * @name: the name of an option, or of a feature of [property@Llmsvc.Client:features]
 *
 * Makes a call fail with %LLMSVC_ERROR_UNSUPPORTED when the service does not have @name,
 * rather than go on without it.
 *
 * Since: 0.1
 */
void
llmsvc_options_require (LlmsvcOptions *self,
                        const char    *name)
{
  g_autofree const char **names = NULL;
  GVariant *old;

  g_return_if_fail (LLMSVC_IS_OPTIONS (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (g_utf8_validate (name, -1, NULL));

  old = g_hash_table_lookup (self->values, KEY_REQUIRE);
  if (old != NULL && g_variant_is_of_type (old, G_VARIANT_TYPE_STRING_ARRAY))
    names = g_variant_get_strv (old, NULL);
  if (names == NULL || !g_strv_contains (names, name))
    store (self, KEY_REQUIRE, llmsvc_options_append (self, KEY_REQUIRE, name));
}

GVariant *
llmsvc_options_append (LlmsvcOptions *self,
                       const char    *key,
                       const char    *entry)
{
  g_autoptr(GStrvBuilder) entries = g_strv_builder_new ();
  g_auto(GStrv) all = NULL;
  GVariant *old = g_hash_table_lookup (self->values, key);

  if (old != NULL && g_variant_is_of_type (old, G_VARIANT_TYPE_STRING_ARRAY))
    {
      g_autofree const char **before = g_variant_get_strv (old, NULL);

      g_strv_builder_addv (entries, before);
    }
  g_strv_builder_add (entries, entry);
  all = g_strv_builder_end (entries);
  return g_variant_new_strv ((const char *const *) all, -1);
}

/**
 * llmsvc_options_to_variant:
 * @self: the options
 *
 * Gets everything that is set, as it goes over the bus, in the order of the keys.
 *
 * Returns: (transfer full): an `a{sv}`, not floating
 *
 * Since: 0.1
 */
GVariant *
llmsvc_options_to_variant (LlmsvcOptions *self)
{
  g_autoptr(GList) keys = NULL;
  GVariantBuilder builder;

  g_return_val_if_fail (LLMSVC_IS_OPTIONS (self), NULL);

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  keys = g_list_sort (g_hash_table_get_keys (self->values), (GCompareFunc) strcmp);
  for (GList *l = keys; l != NULL; l = l->next)
    g_variant_builder_add (&builder, "{sv}", l->data, g_hash_table_lookup (self->values, l->data));

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
