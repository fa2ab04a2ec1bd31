/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "test-options"

#include "common/llm-call-options.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"

static const char *const all_features[] = { "json-schema",   "grammar",       "regex", "slo-shares",
                                            "sub-models",    "prompt-levels", "sliding-window",
                                            NULL };

static GVariant *
parse_dict (const char *text)
{
  g_autoptr(GError) error = NULL;
  GVariant *dict = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, &error);

  g_assert_no_error (error);
  return dict;
}

static LlmCallOptions *
parse_good (const char *text,
            LlmsvcCall  call)
{
  g_autoptr(GVariant) dict = parse_dict (text);
  g_autoptr(GError) error = NULL;
  LlmCallOptions *options = llm_call_options_parse (dict, call, all_features, &error);

  g_assert_no_error (error);
  g_assert_nonnull (options);
  return options;
}

static void
test_table (void)
{
  for (int id = 0; id < LLMSVC_N_OPTIONS; id++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) id);

      g_assert_cmpint ((int) info->id, ==, id);
      g_assert_nonnull (info->key);
      g_assert_true (llmsvc_option_find (info->key) == info);
      g_assert_true (g_variant_type_string_is_valid (info->type));
      g_assert_cmpuint (info->calls, !=, 0);
      g_assert_true (g_str_has_suffix (info->summary, "."));
      g_assert_cmpuint (info->since, >=, 1);
      g_assert_cmpuint (info->since, <=, LLMSVC_API_VERSION);
      if (strchr ("utd", info->type[0]) != NULL)
        g_assert_cmpfloat (info->max, >, info->min);
      if (g_str_has_suffix (info->key, "-ms"))
        g_assert_cmpstr (info->unit, ==, "ms");
      for (const char *p = info->key; *p != '\0'; p++)
        g_assert_true (g_ascii_islower (*p) || *p == '-');
    }

  g_assert_null (llmsvc_option_get_info (LLMSVC_N_OPTIONS));
  g_assert_null (llmsvc_option_find ("colour"));
  g_assert_null (llmsvc_option_find ("require"));
}

static void
test_none (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmCallOptions) options =
      llm_call_options_parse (NULL, LLMSVC_CALL_GENERATE, NULL, &error);

  g_assert_no_error (error);
  g_assert_false (llm_call_options_has (options, LLMSVC_OPTION_SEED));
  g_assert_cmpuint (llm_call_options_get_uint (options, LLMSVC_OPTION_SEED, 7), ==, 7);
  g_assert_cmpfloat (llm_call_options_get_double (options, LLMSVC_OPTION_TOP_P, 0.5), ==, 0.5);
  g_assert_true (llm_call_options_get_boolean (options, LLMSVC_OPTION_RAW, TRUE));
  g_assert_cmpstr (llm_call_options_get_string (options, LLMSVC_OPTION_SLO, "x"), ==, "x");
  g_assert_null (llm_call_options_get_strv (options, LLMSVC_OPTION_STOP));
  g_assert_null (llm_call_options_get_variant (options, LLMSVC_OPTION_LOGIT_BIAS));
  g_assert_null (llm_call_options_get_ignored (options)[0]);
}

static void
test_values (void)
{
  g_autoptr(LlmCallOptions) options =
      parse_good ("{'slo': <'background'>, 'max-tokens': <uint32 16>, 'temperature': <0.7>,"
                  " 'seed': <uint64 18446744073709551615>, 'stop': <['a', '\\n']>,"
                  " 'logit-bias': <{uint32 3: -1.5, 4: 2}>, 'schema': <'{}'>}",
                  LLMSVC_CALL_GENERATE);
  LlmCallOptions *again = llm_call_options_ref (options);
  GVariant *biases = llm_call_options_get_variant (options, LLMSVC_OPTION_LOGIT_BIAS);
  const char *const *stops = llm_call_options_get_strv (options, LLMSVC_OPTION_STOP);

  llm_call_options_unref (again);
  g_assert_cmpstr (llm_call_options_get_string (options, LLMSVC_OPTION_SLO, ""), ==, "background");
  g_assert_cmpuint (llm_call_options_get_uint (options, LLMSVC_OPTION_MAX_TOKENS, 0), ==, 16);
  g_assert_cmpfloat (llm_call_options_get_double (options, LLMSVC_OPTION_TEMPERATURE, 0), ==, 0.7);
  g_assert_cmpuint (llm_call_options_get_uint (options, LLMSVC_OPTION_SEED, 0), ==, G_MAXUINT64);
  g_assert_cmpuint (g_strv_length ((char **) stops), ==, 2);
  g_assert_cmpstr (stops[1], ==, "\n");
  g_assert_cmpstr (g_variant_get_type_string (biases), ==, "a{ud}");
  g_assert_cmpuint (g_variant_n_children (biases), ==, 2);
  g_assert_null (llm_call_options_get_ignored (options)[0]);
}

/* Every type of number that D-Bus has, wherever the value fits. */
static void
test_number_types (void)
{
  static const char *const numbers[] = { "byte 5",  "int16 5",  "uint16 5", "5",
                                         "uint32 5", "int64 5", "uint64 5", "5.0",
                                         "<5>",      "<<<5>>>" };

  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_autofree char *text =
          g_strdup_printf ("{'max-tokens': <%s>, 'temperature': <%s>, 'seed': <%s>,"
                           " 'logit-bias': <{9: <%s>}>}",
                           numbers[i], numbers[i], numbers[i], numbers[i]);
      g_autoptr(LlmCallOptions) options = parse_good (text, LLMSVC_CALL_COMPLETE);

      g_assert_cmpuint (llm_call_options_get_uint (options, LLMSVC_OPTION_MAX_TOKENS, 0), ==, 5);
      g_assert_cmpfloat (llm_call_options_get_double (options, LLMSVC_OPTION_TEMPERATURE, 0),
                         ==, 5);
      g_assert_cmpuint (llm_call_options_get_uint (options, LLMSVC_OPTION_SEED, 0), ==, 5);
    }
}

static void
test_bad_values (void)
{
  const struct
  {
    const char *text;
    const char *key;   /* must be named */
    const char *said;  /* must be in the message */
  } cases[] = {
    { "{'max-tokens': <-1>}", "max-tokens", "-1, it must be from 1 to 16777216" },
    { "{'max-tokens': <0>}", "max-tokens", "from 1" },
    { "{'max-tokens': <16777217>}", "max-tokens", "16777217" },
    { "{'max-tokens': <uint64 18446744073709551615>}", "max-tokens", "18446744073709551615" },
    { "{'max-tokens': <1e300>}", "max-tokens", "1e+300" },
    { "{'max-tokens': <2.5>}", "max-tokens", "2.5, it must be a whole number" },
    { "{'max-tokens': <'16'>}", "max-tokens", "a string (s), it must be a number (u)" },
    { "{'max-tokens': <true>}", "max-tokens", "true or false (b)" },
    { "{'max-tokens': <@av []>}", "max-tokens", "a list (av)" },
    { "{'max-tokens': <@mi nothing>}", "max-tokens", "something else" },
    { "{'max-tokens': <<<<<<5>>>>>>}", "max-tokens", "something else (v)" },
    { "{'temperature': <nan>}", "temperature", "not a number" },
    { "{'temperature': <inf>}", "temperature", "not finite" },
    { "{'temperature': <-0.1>}", "temperature", "-0.1, it must be from 0 to 5" },
    { "{'temperature': <5.01>}", "temperature", "5.01" },
    { "{'temperature': <int64 -9223372036854775808>}", "temperature", "-9223372036854775808" },
    { "{'top-p': <1.5>}", "top-p", "from 0 to 1" },
    { "{'min-p': <-1>}", "min-p", "from 0 to 1" },
    { "{'top-k': <4294967295.0>}", "top-k", "from 0 to 2147483648" },
    { "{'repeat-penalty': <0>}", "repeat-penalty", "from 0.01 to 10" },
    { "{'frequency-penalty': <3>}", "frequency-penalty", "from -2 to 2" },
    { "{'presence-penalty': <-3>}", "presence-penalty", "from -2 to 2" },
    { "{'seed': <-1>}", "seed", "-1, it must be from 0 to 18446744073709551615" },
    { "{'seed': <18446744073709551616.0>}", "seed", "whole number" },
    { "{'deadline-ms': <0>}", "deadline-ms", "from 1 to 86400000 ms" },
    { "{'ttft-ms': <86400001>}", "ttft-ms", "86400001" },
    { "{'sub-model': <101>}", "sub-model", "percent" },
    { "{'active': <81>}", "active", "80" },
    { "{'slo': <'fast'>}", "slo", "“fast”, it must be one of: interactive, responsive" },
    { "{'slo': <''>}", "slo", "one of" },
    { "{'locale': <''>}", "locale", "0 bytes long" },
    { "{'locale': <1>}", "locale", "a number (i)" },
    { "{'locale': <'../de'>}", "locale", "“../de”, it must be the name of a locale" },
    { "{'locale': <'de\u00e4'>}", "locale", "it must be the name of a locale" },
    { "{'locale': <'de'>, 'locale': <'de'>}", "locale", "twice" },
    { "{'slo': <1>}", "slo", "a number (i)" },
    { "{'stream': <'xml'>}", "stream", "text, jsonl" },
    { "{'stop': <'x'>}", "stop", "a string (s), it must be a list of strings (as)" },
    { "{'stop': <['']>}", "stop", "0 bytes long, it must be from 1 to 256" },
    { "{'stop': <@av []>}", "stop", "list of strings" },
    { "{'stop': <['1','2','3','4','5','6','7','8','9','0','1','2','3','4','5','6','7']>}", "stop",
      "17 entries, at most 16" },
    { "{'logit-bias': <{uint32 1: 101.0}>}", "logit-bias", "101, it must be from -100 to 100" },
    { "{'logit-bias': <{uint32 1: nan}>}", "logit-bias", "not a number" },
    { "{'logit-bias': <{-1: 1.0}>}", "logit-bias", "-1" },
    { "{'logit-bias': <{uint64 4294967296: 1.0}>}", "logit-bias", "4294967296" },
    { "{'logit-bias': <{1: 1.0, 1: 2.0}>}", "logit-bias", "twice" },
    { "{'logit-bias': <{'1': 1.0}>}", "logit-bias", "a dictionary" },
    { "{'logit-bias': <[1.0]>}", "logit-bias", "a list (ad)" },
    { "{'request-id': <''>}", "request-id", "from 1 to 128" },
    { "{'response-format': <'xml'>}", "response-format", "json-schema" },
    { "{'if-revision': <'1'>}", "if-revision", "a number (t)" },
    { "{'seed': <1>, 'seed': <2>}", "seed", "twice" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GVariant) dict = parse_dict (cases[i].text);
      g_autoptr(GError) error = NULL;

      g_test_message ("%s", cases[i].text);
      g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_GENERATE, all_features, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, cases[i].key));
      g_assert_nonnull (strstr (error->message, cases[i].said));
    }
}

static void
test_names (void)
{
  static const char *const good[] = { "notes", "Ein Name mit Ä", "a.b-c_d" };
  static const char *const bad[] = { "a/b", "a\nb", "\x7f", "\xe2\x80\xae" };
  g_autofree char *longest = g_strnfill (128, 'x');
  g_autofree char *too_long = g_strnfill (129, 'x');

  for (gsize i = 0; i <= G_N_ELEMENTS (good); i++)
    {
      const char *name = i < G_N_ELEMENTS (good) ? good[i] : longest;
      g_autoptr(GVariant) dict = g_variant_ref_sink (g_variant_new_parsed ("{'name': <%s>}", name));
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmCallOptions) options =
          llm_call_options_parse (dict, LLMSVC_CALL_CREATE_CONTEXT, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpstr (llm_call_options_get_string (options, LLMSVC_OPTION_NAME, ""), ==, name);
    }

  for (gsize i = 0; i <= G_N_ELEMENTS (bad); i++)
    {
      const char *name = i < G_N_ELEMENTS (bad) ? bad[i] : too_long;
      g_autoptr(GVariant) dict = g_variant_ref_sink (g_variant_new_parsed ("{'name': <%s>}", name));
      g_autoptr(GError) error = NULL;

      g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_FORK, NULL, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
    }
}

static void
test_ignored (void)
{
  g_autoptr(LlmCallOptions) options =
      parse_good ("{'colour': <'red'>, 'raw': <'not even a boolean'>, 'seed': <1>}",
                  LLMSVC_CALL_GENERATE);
  const char *const *ignored = llm_call_options_get_ignored (options);

  g_assert_cmpuint (g_strv_length ((char **) ignored), ==, 2);
  g_assert_cmpstr (ignored[0], ==, "colour");
  g_assert_cmpstr (ignored[1], ==, "raw");
  g_assert_false (llm_call_options_has (options, LLMSVC_OPTION_RAW));
}

static void
test_require (void)
{
  static const char *const good[] = {
    "{'require': <@as []>}",
    "{'require': <['seed']>, 'seed': <1>}",
    "{'require': <['seed', 'json-schema', 'response-format', 'sub-model']>}",
    "{'require': <<['require']>>}",
  };
  static const char *const unsupported[] = {
    "{'require': <['colour']>}",
    "{'colour': <1>, 'require': <['colour']>}",
    "{'require': <['tools']>}",
    "{'require': <['raw']>}",
    "{'require': <['hold']>}",
  };
  static const char *const invalid[] = {
    "{'require': <'seed'>}",
    "{'require': <@av []>}",
    "{'require': <['']>}",
    "{'require': <1>}",
  };
  static const char *const few[] = { "grammar", NULL };

  for (gsize i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr(LlmCallOptions) options = parse_good (good[i], LLMSVC_CALL_ASK);

      g_assert_null (llm_call_options_get_ignored (options)[0]);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (unsupported); i++)
    {
      g_autoptr(GVariant) dict = parse_dict (unsupported[i]);
      g_autoptr(GError) error = NULL;

      g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_ASK, all_features, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (invalid); i++)
    {
      g_autoptr(GVariant) dict = parse_dict (invalid[i]);
      g_autoptr(GError) error = NULL;

      g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_ASK, all_features, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
    }

  /* Known, but the ability behind it is not there. */
  {
    g_autoptr(GVariant) dict = parse_dict ("{'require': <['schema']>}");
    g_autoptr(GError) error = NULL;

    g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_ASK, few, &error));
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  }
}

/* Options that this service has not, but that callers know from others: leaving them out would
 * change the result. */
static void
test_foreign (void)
{
  static const struct
  {
    const char *text;
    const char *key;
    const char *feature;
  } cases[] = {
    { "{'functions': <[{'name': <'clock'>}]>}", "functions", "functions" },
    { "{'function-call': <'auto'>}", "function-call", "functions" },
    { "{'tool_choice': <'auto'>}", "tool_choice", "tools" },
    { "{'json-schema': <'{}'>}", "json-schema", "json-schema" },
    { "{'images': <['cat.png']>}", "images", "images" },
    { "{'n': <2>}", "n", "make as many calls" },
    { "{'n': <<uint64 3>>}", "n", "fork" },
    { "{'best-of': <2>}", "best-of", "seed" },
    { "{'energy-share': <0.5>}", "energy-share", "ttft-share" },
    { "{'energy': <3>}", "energy", "no energy of a single call" },
    { "{'top_logprobs': <5>}", "top_logprobs", "“logprobs”" },
    { "{'seed': <1>, 'functions': <[1]>, 'require': <['seed']>}", "functions", "functions" },
  };
  static const char *const neutral[] = {
    "{'functions': <@av []>}", "{'function-call': <'none'>}",
    "{'n': <uint32 1>}", "{'suffix': <''>}",
    "{'json-schema': <''>}", "{'n': <1.0>}",
  };
  static const LlmsvcCall calls[] = {
    LLMSVC_CALL_GENERATE, LLMSVC_CALL_ASK,          LLMSVC_CALL_COMPLETE, LLMSVC_CALL_COUNT_TOKENS,
    LLMSVC_CALL_APPEND,   LLMSVC_CALL_CREATE_CONTEXT, LLMSVC_CALL_FORK,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (calls); j++)
      {
        g_autoptr(GVariant) dict = parse_dict (cases[i].text);
        g_autoptr(GError) error = NULL;

        g_test_message ("%s", cases[i].text);
        g_assert_null (llm_call_options_parse (dict, calls[j], NULL, &error));
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
        g_assert_nonnull (strstr (error->message, cases[i].key));
        g_assert_nonnull (strstr (error->message, cases[i].feature));
      }
  /* What they say without effect is nothing to fail for. */
  for (gsize i = 0; i < G_N_ELEMENTS (neutral); i++)
    {
      g_autoptr(LlmCallOptions) options = parse_good (neutral[i], LLMSVC_CALL_ASK);

      g_assert_nonnull (llm_call_options_get_ignored (options)[0]);
    }
  /* An option of other calls; and a number where other services have a truth value. */
  {
    g_autoptr(GVariant) dict = parse_dict ("{'suffix': <'x'>}");
    g_autoptr(GVariant) truth = parse_dict ("{'logprobs': <true>}");
    g_autoptr(GError) error = NULL;

    g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_ASK, NULL, &error));
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
    g_assert_nonnull (strstr (error->message, "Complete()"));
    g_clear_error (&error);
    g_assert_null (llm_call_options_parse (truth, LLMSVC_CALL_ASK, NULL, &error));
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  }
  /* To calls that answer nothing they are options like any other. */
  {
    g_autoptr(LlmCallOptions) options = parse_good (cases[0].text, LLMSVC_CALL_CLOSE);

    g_assert_cmpstr (llm_call_options_get_ignored (options)[0], ==, "functions");
  }
}

/* What is required has to be honoured with the value that it has. */
static void
test_required_values (void)
{
  static const char *const cases[] = {
    "{'require': <['response-format']>, 'response-format': <'json'>}",
    "{'response-format': <'json'>, 'require': <['response-format']>}",
    "{'require': <['on-overflow']>, 'on-overflow': <'slide'>}",
    "{'require': <['sub-model']>, 'sub-model': <50>}",
    "{'require': <['ttft-share']>, 'ttft-share': <0.5>}",
    "{'require': <['ttft-share']>}",
    "{'require': <['n']>, 'n': <1>}",
  };
  g_autoptr(LlmCallOptions) options =
    parse_good ("{'require': <['response-format', 'sub-model', 'on-overflow']>,"
                " 'response-format': <'text'>, 'sub-model': <100>, 'on-overflow': <'error'>}",
                LLMSVC_CALL_ASK);

  g_assert_null (llm_call_options_get_ignored (options)[0]);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GVariant) dict = parse_dict (cases[i]);
      g_autoptr(GError) error = NULL;

      g_test_message ("%s", cases[i]);
      g_assert_null (llm_call_options_parse (dict, LLMSVC_CALL_ASK, NULL, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
    }
}

/* Every call takes a locale, and it is known even when other options are wrong. */
static void
test_locale (void)
{
  static const struct
  {
    const char *text;
    const char *locale;
  } cases[] = {
    { "{'locale': <'de_AT.UTF-8@euro'>}", "de_AT.UTF-8@euro" },
    { "{'locale': <'de_AT:de:en'>}", "de_AT:de:en" },
    { "{'max-tokens': <0>, 'locale': <<'zh-Hans-CN'>>}", "zh-Hans-CN" },
    { "{'locale': <'C'>, 'stream': <1>}", "C" },
    { "{'locale': <'/de'>}", NULL },
    { "{'locale': <5>}", NULL },
    { "{'seed': <1>}", NULL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GVariant) dict = parse_dict (cases[i].text);
      g_autoptr(LlmCallOptions) options = NULL;
      g_autofree char *peeked = llm_call_options_peek_locale (dict);

      g_assert_cmpstr (peeked, ==, cases[i].locale);
      options = llm_call_options_parse (dict, LLMSVC_CALL_GENERATE, NULL, NULL);
      if (options != NULL)
        g_assert_cmpstr (llm_call_options_get_locale (options), ==, peeked);
    }

  g_assert_null (llm_call_options_peek_locale (NULL));
  for (guint call = 1; call <= LLMSVC_CALL_SET_QUOTA; call <<= 1)
    {
      g_autoptr(GVariant) dict = parse_dict ("{'locale': <'de'>, 'require': <['locale']>}");
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmCallOptions) options =
          llm_call_options_parse (dict, (LlmsvcCall) call, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpstr (llm_call_options_get_locale (options), ==, "de");
      g_assert_null (llm_call_options_get_ignored (options)[0]);
    }
}

static void
test_features (void)
{
  const struct
  {
    const char *text;
    const char *feature;  /* needed for it, or NULL */
  } cases[] = {
    { "{'response-format': <'text'>}", NULL },
    { "{'response-format': <'json'>}", "json-schema" },
    { "{'response-format': <'json-schema'>}", "json-schema" },
    { "{'response-format': <'grammar'>}", "grammar" },
    { "{'response-format': <'regex'>}", "regex" },
    { "{'regex': <'a'>}", "regex" },
    { "{'schema': <'{}'>}", "json-schema" },
    { "{'grammar': <'root ::= \"a\"'>}", "grammar" },
    { "{'ttft-share': <0.5>}", "slo-shares" },
    { "{'tpot-share': <0.5>}", "slo-shares" },
    { "{'call-share': <0.5>}", "slo-shares" },
    { "{'least-sub-model': <50>}", "sub-models" },
    { "{'sub-model': <0>}", NULL },
    { "{'sub-model': <100>}", NULL },
    { "{'sub-model': <50>}", "sub-models" },
    { "{'prompt-level': <100>}", NULL },
    { "{'prompt-level': <99>}", "prompt-levels" },
    { "{'on-overflow': <'error'>}", NULL },
    { "{'on-overflow': <'slide'>}", "sliding-window" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const char *only[] = { cases[i].feature, NULL };
      g_autoptr(GVariant) dict = parse_dict (cases[i].text);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmCallOptions) without = NULL;
      g_autoptr(LlmCallOptions) with =
          llm_call_options_parse (dict, LLMSVC_CALL_GENERATE, only, &error);

      g_assert_no_error (error);
      g_assert_nonnull (with);

      without = llm_call_options_parse (dict, LLMSVC_CALL_GENERATE, NULL, &error);
      if (cases[i].feature == NULL)
        {
          g_assert_no_error (error);
          continue;
        }
      g_assert_null (without);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, cases[i].feature));
    }
}

/* The same key is for some calls only. */
static void
test_calls (void)
{
  const struct
  {
    const char *text;
    LlmsvcCall call;
    gboolean is_taken;
  } cases[] = {
    { "{'if-revision': <1>}", LLMSVC_CALL_GENERATE, TRUE },
    { "{'if-revision': <1>}", LLMSVC_CALL_ROLLBACK, TRUE },
    { "{'if-revision': <1>}", LLMSVC_CALL_COMPLETE, FALSE },
    { "{'stream': <'text'>}", LLMSVC_CALL_GENERATE, TRUE },
    { "{'stream': <'text'>}", LLMSVC_CALL_ASK, FALSE },
    { "{'raw': <true>}", LLMSVC_CALL_COMPLETE, TRUE },
    { "{'messages': <@a(ssa{sv}) [('user', 'x', {})]>}", LLMSVC_CALL_COMPLETE, TRUE },
    { "{'messages': <@a(ssa{sv}) []>}", LLMSVC_CALL_CREATE_CONTEXT, TRUE },
    { "{'create': <true>}", LLMSVC_CALL_OPEN_CONTEXT, TRUE },
    { "{'create': <true>}", LLMSVC_CALL_CREATE_CONTEXT, FALSE },
    { "{'bytes': <0>}", LLMSVC_CALL_SET_BUDGET, TRUE },
    { "{'app-id': <''>}", LLMSVC_CALL_SET_BUDGET, TRUE },
    { "{'target-bytes': <1e9>}", LLMSVC_CALL_TRIM, TRUE },
    { "{'hold': <true>}", LLMSVC_CALL_TRIM, TRUE },
    { "{'share': <0.25>}", LLMSVC_CALL_SET_QUOTA, TRUE },
    { "{'slo': <'background'>}", LLMSVC_CALL_PREWARM, TRUE },
    { "{'slo': <'background'>}", LLMSVC_CALL_CLOSE, FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmCallOptions) options = parse_good (cases[i].text, cases[i].call);

      g_test_message ("%s", cases[i].text);
      g_assert_cmpint (llm_call_options_get_ignored (options)[0] == NULL, ==, cases[i].is_taken);
    }
}

static void
test_too_many (void)
{
  g_autoptr(GError) error = NULL;
  g_auto(GVariantDict) many = G_VARIANT_DICT_INIT (NULL);
  g_auto(GVariantDict) wide = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) many_dict = NULL;
  g_autoptr(GVariant) wide_dict = NULL;
  g_autofree char *key = g_strnfill (65, 'k');

  for (guint i = 0; i < 129; i++)
    {
      g_autofree char *name = g_strdup_printf ("option-%u", i);

      g_variant_dict_insert (&many, name, "u", i);
    }
  many_dict = g_variant_ref_sink (g_variant_dict_end (&many));
  g_assert_null (llm_call_options_parse (many_dict, LLMSVC_CALL_ASK, NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  g_variant_dict_insert (&wide, key, "u", 1);
  wide_dict = g_variant_ref_sink (g_variant_dict_end (&wide));
  g_assert_null (llm_call_options_parse (wide_dict, LLMSVC_CALL_ASK, NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
}

static void
test_not_a_dict (void)
{
  g_autoptr(GVariant) number = g_variant_ref_sink (g_variant_new_uint32 (1));
  g_autoptr(GBytes) bytes = g_bytes_new_static ("\xff\xff\xff\xff\xff\xff\xff", 7);
  g_autoptr(GVariant) damaged =
      g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE_VARDICT, bytes, FALSE));
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_call_options_parse (number, LLMSVC_CALL_ASK, NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_null (llm_call_options_parse (damaged, LLMSVC_CALL_ASK, NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/options/table", test_table);
  g_test_add_func ("/options/none", test_none);
  g_test_add_func ("/options/values", test_values);
  g_test_add_func ("/options/number-types", test_number_types);
  g_test_add_func ("/options/bad-values", test_bad_values);
  g_test_add_func ("/options/names", test_names);
  g_test_add_func ("/options/ignored", test_ignored);
  g_test_add_func ("/options/require", test_require);
  g_test_add_func ("/options/foreign", test_foreign);
  g_test_add_func ("/options/required-values", test_required_values);
  g_test_add_func ("/options/locale", test_locale);
  g_test_add_func ("/options/features", test_features);
  g_test_add_func ("/options/calls", test_calls);
  g_test_add_func ("/options/too-many", test_too_many);
  g_test_add_func ("/options/not-a-dict", test_not_a_dict);

  return g_test_run ();
}
