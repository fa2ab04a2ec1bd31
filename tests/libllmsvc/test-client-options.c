/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options, of the whole table; and messages. No service. */

#include <locale.h>
#include <string.h>

#include "common/llmsvc-option-table.h"
#include "llmsvc.h"

/* A value that the table takes. */
static GVariant *
make_value (const LlmsvcOptionInfo *info)
{
  if (info->choices != NULL)
    return g_variant_new_string (info->choices[0]);
  if (g_str_equal (info->type, "as"))
    return g_variant_new_strv ((const char *const[]) { "one", "two", NULL }, -1);
  if (g_str_equal (info->type, "a{ud}"))
    return g_variant_new_parsed ("{uint32 7: 1.5}");
  if (g_str_equal (info->type, "a(ssa{sv})"))
    return g_variant_new_parsed ("[('user', 'Hello', @a{sv} {})]");

  switch (info->type[0])
    {
    case 'b':
      return g_variant_new_boolean (TRUE);
    case 'u':
      return g_variant_new_uint32 ((guint32) info->max);
    case 't':
      return g_variant_new_uint64 (info->max >= 18446744073709551615.0 ? G_MAXUINT64
                                                                      : (guint64) info->max);
    case 'd':
      return g_variant_new_double (info->max);
    default:
      return g_variant_new_string ("some text");
    }
}

static GType
get_gtype (const char *type)
{
  if (g_str_equal (type, "as"))
    return G_TYPE_STRV;

  switch (type[0])
    {
    case 'b':
      return G_TYPE_BOOLEAN;
    case 'u':
      return G_TYPE_UINT;
    case 't':
      return G_TYPE_UINT64;
    case 'd':
      return G_TYPE_DOUBLE;
    case 's':
      return G_TYPE_STRING;
    default:
      return G_TYPE_VARIANT;
    }
}

static void
count_notify (GObject    *object,
              GParamSpec *pspec,
              gpointer    data)
{
  ++*(guint *) data;
}

/* Each option of the table is a property of its type, goes through it and set_value() alike,
 * and comes out in the table's type. */
static void
test_table (void)
{
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) i);
      g_autoptr(LlmsvcOptions) set = llmsvc_options_new ();
      g_autoptr(LlmsvcOptions) copied = llmsvc_options_new ();
      g_autoptr(GVariant) value = g_variant_ref_sink (make_value (info));
      g_autoptr(GVariant) all = NULL;
      g_autoptr(GVariant) sent = NULL;
      g_autoptr(GError) error = NULL;
      g_autofree char *signal = g_strconcat ("notify::", info->key, NULL);
      g_auto(GValue) property = G_VALUE_INIT;
      GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (set), info->key);
      guint n_notified = 0;

      g_assert_nonnull (pspec);
      g_assert_true (pspec->value_type == get_gtype (info->type));
      g_assert_true (g_str_has_prefix (g_param_spec_get_blurb (pspec), info->summary));
      g_assert_null (llmsvc_options_get_value (set, info->key));

      g_signal_connect (set, signal, G_CALLBACK (count_notify), &n_notified);
      g_assert_true (llmsvc_options_set_value (set, info->key, value, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (n_notified, ==, 1);
      g_assert_true (llmsvc_options_set_value (set, info->key, value, &error));
      g_assert_cmpuint (n_notified, ==, 1);
      all = llmsvc_options_to_variant (set);
      g_assert_cmpuint (g_variant_n_children (all), ==, 1);
      sent = g_variant_lookup_value (all, info->key, G_VARIANT_TYPE (info->type));
      g_assert_nonnull (sent);
      g_assert_true (g_variant_equal (sent, value));

      /* through the property to another object */
      g_object_get_property (G_OBJECT (set), info->key, &property);
      g_object_set_property (G_OBJECT (copied), info->key, &property);
      g_assert_true (g_variant_equal (llmsvc_options_get_value (copied, info->key), value));
      if (info->type[0] == 'a' || info->type[0] == 's')
        {
          g_object_set (copied, info->key, NULL, NULL);
          g_assert_null (llmsvc_options_get_value (copied, info->key));
        }

      llmsvc_options_unset (set, info->key);
      g_assert_cmpuint (n_notified, ==, 2);
      g_assert_null (llmsvc_options_get_value (set, info->key));
    }
}

static void
test_ranges (void)
{
  const struct
  {
    const char *key;
    const char *value;
  } wrong[] = {
    { "max-tokens", "uint32 0" },       { "max-tokens", "'many'" },
    { "temperature", "-0.1" },          { "temperature", "5.1" },
    { "slo", "'at once'" },             { "stop", "['']" },
    { "stop", "'one'" },                { "seed", "-1" },
    { "top-p", "2" },                   { "name", "'a/b'" },
    { "messages", "[('user', 'x')]" },  { "wait", "'true'" },
  };
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
  g_autoptr(GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_false (llmsvc_options_set_value (
        options, wrong[i].key, g_variant_new_parsed (wrong[i].value), &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_assert_nonnull (strstr (error->message, wrong[i].key));
      g_clear_error (&error);
      g_assert_null (llmsvc_options_get_value (options, wrong[i].key));
    }

  /* any number type, where the value fits; variants in variants */
  g_assert_true (llmsvc_options_set_value (options, "max-tokens", g_variant_new_int64 (64), NULL));
  g_assert_cmpuint (g_variant_get_uint32 (llmsvc_options_get_value (options, "max-tokens")), ==,
                    64);
  g_assert_true (llmsvc_options_set_value (
    options, "temperature", g_variant_new_variant (g_variant_new_uint32 (1)), NULL));
  g_assert_cmpfloat (g_variant_get_double (llmsvc_options_get_value (options, "temperature")), ==,
                     1);
}

static void
test_text (void)
{
  const struct
  {
    const char *key;
    const char *text;
    const char *value;  /* NULL for an error */
  } cases[] = {
    { "max-tokens", "64", "uint32 64" },
    { "max-tokens", "-1", NULL },
    { "max-tokens", " 64", NULL },
    { "max-tokens", "64x", NULL },
    { "max-tokens", "", NULL },
    { "max-tokens", "6.5", NULL },
    { "seed", "18446744073709551615", "uint64 18446744073709551615" },
    { "seed", "18446744073709551616", NULL },
    { "temperature", "0.2", "0.2" },
    { "temperature", "1", "1.0" },
    { "temperature", "nan", NULL },
    { "temperature", "hot", NULL },
    { "create", "true", "true" },
    { "create", "no", "false" },
    { "create", "perhaps", NULL },
    { "slo", "background", "'background'" },
    { "slo", "slow", NULL },
    { "logit-bias", "{7: -1.5}", "{uint32 7: -1.5}" },
    { "logit-bias", "{7", NULL },
    { "messages", "[('user', 'Hello', {})]", "[('user', 'Hello', @a{sv} {})]" },
    { "of-a-later-version", "uint16 3", "uint16 3" },
    { "of-a-later-version", "[", NULL },
    { "system", "\xff", NULL },
  };
  g_autoptr(LlmsvcOptions) stop = llmsvc_options_new ();
  g_autoptr(GVariant) both = g_variant_ref_sink (g_variant_new_parsed ("['one', 'two']"));

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
      g_autoptr(GError) error = NULL;
      g_autoptr(GVariant) value = NULL;
      gboolean is_set =
        llmsvc_options_set_from_string (options, cases[i].key, cases[i].text, &error);

      if (cases[i].value == NULL)
        {
          g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
          g_assert_false (is_set);
          g_assert_null (llmsvc_options_get_value (options, cases[i].key));
          continue;
        }
      g_assert_no_error (error);
      value = g_variant_ref_sink (g_variant_new_parsed (cases[i].value));
      g_assert_true (g_variant_equal (llmsvc_options_get_value (options, cases[i].key), value));
    }

  g_assert_true (llmsvc_options_set_from_string (stop, "stop", "one", NULL));
  g_assert_true (llmsvc_options_set_from_string (stop, "stop", "two", NULL));
  g_assert_true (g_variant_equal (llmsvc_options_get_value (stop, "stop"), both));
}

static void
test_properties (void)
{
  g_autoptr(LlmsvcOptions) options = NULL;
  g_autoptr(LlmsvcOptions) copy = NULL;
  const char *const stop[] = { "\n", NULL };
  g_auto(GStrv) read_stop = NULL;
  g_autoptr(GVariant) all = NULL;
  g_autofree char *text = NULL;
  guint max_tokens = 1;
  double temperature = 1;

  options = g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 64, "temperature", 0.25, "stop", stop,
                          "slo", "background", "seed", G_GUINT64_CONSTANT (1) << 40, NULL);
  llmsvc_options_require (options, "json-schema");
  llmsvc_options_require (options, "seed");
  llmsvc_options_require (options, "seed");
  all = llmsvc_options_to_variant (options);
  text = g_variant_print (all, FALSE);
  g_assert_cmpstr (text, ==,
                   "{'max-tokens': <uint32 64>, 'require': <['json-schema', 'seed']>, "
                   "'seed': <uint64 1099511627776>, 'slo': <'background'>, "
                   "'stop': <['\\n']>, 'temperature': <0.25>}");
  g_assert_false (g_variant_is_floating (all));

  copy = llmsvc_options_copy (options);
  g_object_set (options, "slo", NULL, "max-tokens", 32, NULL);
  g_assert_null (llmsvc_options_get_value (options, "slo"));
  g_object_get (copy, "max-tokens", &max_tokens, "stop", &read_stop, NULL);
  g_assert_cmpuint (max_tokens, ==, 64);
  g_assert_true (g_strv_equal ((const char *const *) read_stop, stop));
  g_assert_nonnull (llmsvc_options_get_value (copy, "slo"));

  /* what is not set reads as the property's default and is not sent */
  llmsvc_options_unset (copy, "temperature");
  g_object_get (copy, "temperature", &temperature, NULL);
  g_assert_cmpfloat (temperature, ==, 0);
  g_assert_null (llmsvc_options_get_value (copy, "temperature"));
}

static void
test_message (void)
{
  g_autoptr(LlmsvcMessage) message = llmsvc_message_new (LLMSVC_ROLE_USER, "Hello");
  g_autoptr(LlmsvcMessage) plain = g_object_new (LLMSVC_TYPE_MESSAGE, NULL);
  g_autoptr(LlmsvcMessage) rich = NULL;
  g_autofree char *role = NULL;
  g_autofree char *text = NULL;

  g_object_get (message, "role", &role, "text", &text, NULL);
  g_assert_cmpstr (role, ==, "user");
  g_assert_cmpstr (text, ==, "Hello");
  g_assert_null (llmsvc_message_get_extras (message));
  g_assert_cmpstr (llmsvc_message_get_role (plain), ==, "user");
  g_assert_cmpstr (llmsvc_message_get_text (plain), ==, "");

  rich = g_object_new (LLMSVC_TYPE_MESSAGE, "role", "tool", "text", "3", "extras",
                       g_variant_new_parsed ("{'call': <'add'>}"), NULL);
  g_assert_cmpuint (g_variant_n_children (llmsvc_message_get_extras (rich)), ==, 1);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/libllmsvc/options/table", test_table);
  g_test_add_func ("/libllmsvc/options/ranges", test_ranges);
  g_test_add_func ("/libllmsvc/options/text", test_text);
  g_test_add_func ("/libllmsvc/options/properties", test_properties);
  g_test_add_func ("/libllmsvc/message", test_message);

  return g_test_run ();
}
