/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of translations, good and bad, and messages found again in them. */

#include <string.h>

#include "base/llm-translation.h"
#include "support/llm-test-mo.h"

#define HEADER "", "Content-Type: text/plain; charset=UTF-8\n"

static LlmTranslation *
make_translation (const char *const *entries)
{
  g_autoptr(GBytes) bytes = llm_test_mo_new (entries, FALSE);
  LlmTranslation *translation = llm_translation_new (bytes);

  g_assert_nonnull (translation);
  return translation;
}

static void
assert_says (const LlmTranslation *translation,
             const char           *message,
             const char           *expected)
{
  g_autofree char *found = llm_translation_apply (translation, message);

  g_assert_cmpstr (found, ==, expected);
}

static void
test_file (gconstpointer data)
{
  static const char *const entries[] = { HEADER, "The context was closed", "Kontext geschlossen",
                                         "menu\004Open", "Öffnen", "No text", "", NULL };
  g_autoptr(GBytes) bytes = llm_test_mo_new (entries, GPOINTER_TO_INT (data));
  g_autoptr(LlmTranslation) translation = llm_translation_new (bytes);

  /* neither the header, nor what has a context, nor what has no translation */
  g_assert_nonnull (translation);
  assert_says (translation, "The context was closed", "Kontext geschlossen");
  assert_says (translation, "menu\004Open", "menu\004Open");
  assert_says (translation, "Open", "Open");
  assert_says (translation, "No text", "No text");
  assert_says (translation, "", "");
}

static void
test_bad_file (void)
{
  static const char *const entries[] = { HEADER, "a b", "c d", "%s: e", "%s: f", NULL };
  static const char *const latin[] = { "", "Content-Type: text/plain; charset=ISO-8859-1\n",
                                       "a b", "c d", NULL };
  static const char *const bare[] = { "a b", "c d", NULL };
  static const char *const *const refused[] = { latin, bare };
  g_autoptr(GBytes) whole = llm_test_mo_new (entries, FALSE);
  gsize size;
  const guint8 *content = g_bytes_get_data (whole, &size);

  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr(GBytes) bytes = llm_test_mo_new (refused[i], FALSE);

      g_assert_null (llm_translation_new (bytes));
    }

  /* every beginning of a file, in a block of its own that ends where it ends */
  for (gsize length = 0; length < size; length++)
    {
      g_autoptr(GBytes) bytes = g_bytes_new (content, length);
      g_autoptr(LlmTranslation) translation = llm_translation_new (bytes);

      /* the texts lie in the order of the entries */
      if (translation != NULL)
        assert_says (translation, "x: e", "x: e");
    }

  /* every word of it as the largest number, and one bit of each byte turned */
  for (gsize at = 0; at < 2 * size; at++)
    {
      g_autofree guint8 *copy = g_memdup2 (content, size);
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmTranslation) translation = NULL;

      if (at < size)
        copy[at] ^= (guint8) (1 << (at % 8));
      else
        memset (copy + at - size, 0xff, MIN (4, 2 * size - at));
      bytes = g_bytes_new_take (g_steal_pointer (&copy), size);
      translation = llm_translation_new (bytes);
      if (translation != NULL)
        {
          g_autofree char *text = llm_translation_apply (translation, "x: e");

          g_assert_true (g_utf8_validate (text, -1, NULL));
        }
    }
}

static void
test_plain (void)
{
  static const char *const entries[] = { HEADER, "The context was closed", "Kontext geschlossen",
                                         "100 %% sure", "100 %% sicher", NULL };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, "The context was closed", "Kontext geschlossen");
  assert_says (translation, "The context was closed.", "The context was closed.");
  assert_says (translation, "100 % sure", "100 % sicher");
  assert_says (translation, "", "");
}

static void
test_arguments (void)
{
  static const char *const entries[] = {
    HEADER,
    "%u turns can't be rolled back: the context has %u", "Kontext hat %2$u, nicht %1$u",
    "Token %d is none", "Kein Token: %d",
    "No room for %zu bytes", "Kein Platz für %zu Byte",
    "%s is %g, up to %.1f", "%s ist %g, bis %.1f",
    "has U+%04X here", "hier U+%04X",
    "%s [%c]: %s", "%3$s (%1$s, %2$c)",
    "has 100%% of %s", "%s hat 100 %%",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, "3 turns can't be rolled back: the context has 12",
               "Kontext hat 12, nicht 3");
  assert_says (translation, "-3 turns can't be rolled back: the context has 12",
               "-3 turns can't be rolled back: the context has 12");
  assert_says (translation, "Token -4 is none", "Kein Token: -4");
  assert_says (translation, "Token - is none", "Token - is none");
  assert_says (translation, "No room for 18446744073709551615 bytes",
               "Kein Platz für 18446744073709551615 Byte");
  assert_says (translation, "a.b is -1.5e-07, up to 2.0", "a.b ist -1.5e-07, bis 2.0");
  assert_says (translation, "a.b is nan, up to inf", "a.b ist nan, bis inf");
  assert_says (translation, "has U+00AD here", "hier U+00AD");
  assert_says (translation, "one [ß]: two", "two (one, ß)");
  assert_says (translation, "has 100% of it", "it hat 100 %");
}

/* What stands between fixed parts may hold them too. */
static void
test_strings (void)
{
  static const char *const entries[] = {
    HEADER,
    "%s has %u entries", "%2$u Einträge in %1$s",
    "“%s” is “%s”, it must be one of: %s", "„%s“ ist „%s“, möglich: %s",
    "Only %s", "Nur %s",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, "a has b has 3 entries", "3 Einträge in a has b");
  assert_says (translation, " has 3 entries", "3 Einträge in ");
  assert_says (translation, "“a” is “”, it must be one of: b, c", "„a“ ist „“, möglich: b, c");
  assert_says (translation, "“a” is “b” is “c”, it must be one of: ”",
               "„a“ ist „b” is “c“, möglich: ”");
  assert_says (translation, "Only ", "Nur ");
  assert_says (translation, "Only %s%n%99$s", "Nur %s%n%99$s");
}

static void
test_longest (void)
{
  static const char *const entries[] = {
    HEADER,
    "%s: %s", "%s – %s",
    "%s: %s is missing", "%s: %s fehlt",
    "%s", "nie",
    "%s %s", "auch nie %s %s",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, "a.gguf: the key is missing", "a.gguf: the key fehlt");
  assert_says (translation, "a.gguf: the key is there", "a.gguf – the key is there");
  assert_says (translation, "no sentence of ours", "no sentence of ours");
}

static void
test_nested (void)
{
  static const char *const entries[] = {
    HEADER,
    "“%s”: %s", "„%s“: %s",
    "%s has type %u", "%s hat den Typ %u",
    "key %s", "Schlüssel %s",
    "No model", "Kein Modell",
    "There is no model “%s”", "Kein Modell „%s“",
    "stopped", "angehalten",
    "Answer %s", "Antwort %s",
    "deep %s", "tief %s",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, "“a/b.gguf”: key “x y” has type 77",
               "„a/b.gguf“: Schlüssel “x y” hat den Typ 77");
  /* what is quoted came from outside, and a word is a name */
  assert_says (translation, "There is no model “No model”", "Kein Modell „No model“");
  assert_says (translation, "Answer stopped", "Antwort stopped");
  assert_says (translation, "Answer No model", "Antwort Kein Modell");
  assert_says (translation, "deep deep deep deep deep deep deep No model",
               "tief tief tief tief tief deep deep No model");
}

/* A translation that asks for what the message does not have is none. */
static void
test_unfit (void)
{
  static const char *const entries[] = {
    HEADER,
    "one %s", "%s und %s",
    "two %u", "zwei %s",
    "three %s", "drei %2$s",
    "four %s", "vier %n",
    "five %s", "fünf %",
    "six %*d", "sechs %*d",
    "seven %s", "sieben %0$s",
    "eight %s", "acht",
    "nine %u", "neun %99999999999$u",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, "one a", "one a");
  assert_says (translation, "two 2", "two 2");
  assert_says (translation, "three a", "three a");
  assert_says (translation, "four a", "four a");
  assert_says (translation, "five a", "five a");
  assert_says (translation, "six 6", "six 6");
  assert_says (translation, "seven a", "seven a");
  assert_says (translation, "eight a", "acht");
  assert_says (translation, "nine 9", "nine 9");
}

/* Messages made to be slow, long or wrong come back as they are. */
static void
test_bounds (void)
{
  static const char *const entries[] = {
    HEADER,
    "%sa%sa%sa%sa%sa%sa%sa%sb", "%s%s%s%s%s%s%s%s",
    "x %s %s %s %s %s", "%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s%1$s",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);
  g_autofree char *slow = g_strnfill (4000, 'a');
  g_autofree char *repeated = g_strconcat ("x ", slow, " b c d e", NULL);
  g_autofree char *long_text = g_strnfill (100000, 'a');

  assert_says (translation, slow, slow);
  assert_says (translation, repeated, repeated);
  assert_says (translation, long_text, long_text);
  assert_says (translation, "x \xff b c d e", "x \xff b c d e");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/translation/file", GINT_TO_POINTER (FALSE), test_file);
  g_test_add_data_func ("/translation/swapped-file", GINT_TO_POINTER (TRUE), test_file);
  g_test_add_func ("/translation/bad-file", test_bad_file);
  g_test_add_func ("/translation/plain", test_plain);
  g_test_add_func ("/translation/arguments", test_arguments);
  g_test_add_func ("/translation/strings", test_strings);
  g_test_add_func ("/translation/longest", test_longest);
  g_test_add_func ("/translation/nested", test_nested);
  g_test_add_func ("/translation/unfit", test_unfit);
  g_test_add_func ("/translation/bounds", test_bounds);
  return g_test_run ();
}
