/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of translations, good and bad, and errors said in their language. */

#include <string.h>

#include "base/llm-translation.h"
#include "common/llmsvc-error-private.h"
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

/* Of a copy, as most errors become one on their way. */
static void
assert_says (const LlmTranslation *translation,
             GError               *error,
             const char           *expected)
{
  g_autoptr(GError) owned = error;
  g_autoptr(GError) copy = g_error_copy (error);
  g_autofree char *found = llm_translation_apply (translation, copy);

  g_assert_cmpstr (found, ==, expected);
}

#define SAY(...) llmsvc_error_new (LLMSVC_ERROR_FAILED, NULL, __VA_ARGS__)

static GError *
make_foreign (const char *message)
{
  return g_error_new_literal (G_IO_ERROR, G_IO_ERROR_FAILED, message);
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
  assert_says (translation, SAY ("The context was closed"), "Kontext geschlossen");
  assert_says (translation, make_foreign ("The context was closed"), "Kontext geschlossen");
  assert_says (translation, make_foreign ("The context was closed."), "The context was closed.");
  assert_says (translation, make_foreign ("Open"), "Open");
  assert_says (translation, make_foreign ("No text"), "No text");
  assert_says (translation, make_foreign (""), "");
}

static void
test_bad_file (void)
{
  static const char *const entries[] = { HEADER, "a b", "c d", "%s: e", "%s: f", NULL };
  static const char *const latin[] = { HEADER, "a b", "c \xe4", "c d", "e", NULL };
  g_autoptr(GBytes) whole = llm_test_mo_new (entries, FALSE);
  g_autoptr(LlmTranslation) mixed = make_translation (latin);
  gsize size;
  const guint8 *content = g_bytes_get_data (whole, &size);

  assert_says (mixed, make_foreign ("a b"), "a b");
  assert_says (mixed, make_foreign ("c d"), "e");

  /* every beginning of a file, in a block of its own that ends where it ends */
  for (gsize length = 0; length < size; length++)
    {
      g_autoptr(GBytes) bytes = g_bytes_new (content, length);
      g_autoptr(LlmTranslation) translation = llm_translation_new (bytes);

      /* the texts lie in the order of the entries */
      if (translation != NULL)
        assert_says (translation, SAY ("%s: e", "x"), "x: e");
    }

  /* every word of it as the largest number, and one bit of each byte turned */
  for (gsize at = 0; at < 2 * size; at++)
    {
      g_autofree guint8 *copy = g_memdup2 (content, size);
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmTranslation) translation = NULL;
      g_autoptr(GError) error = SAY ("%s: e", "x");

      if (at < size)
        copy[at] ^= (guint8) (1 << (at % 8));
      else
        memset (copy + at - size, 0xff, MIN (4, 2 * size - at));
      bytes = g_bytes_new_take (g_steal_pointer (&copy), size);
      translation = llm_translation_new (bytes);
      if (translation != NULL)
        {
          g_autofree char *text = llm_translation_apply (translation, error);

          g_assert_true (g_utf8_validate (text, -1, NULL));
        }
    }
}

static void
test_arguments (void)
{
  static const char *const entries[] = {
    HEADER,
    "%u turns can't be rolled back: the context has %u", "Kontext hat %2$u, nicht %1$u",
    "Token %d is none", "Kein Token: %d",
    "No room for %zu of %ju bytes", "Kein Platz für %zu von %ju Byte",
    "%s is %g, up to %.1f", "%s ist %g, bis %.1f",
    "has U+%04X here", "hier U+%04X",
    "line %ld, %-4d|%s", "%3$s|%2$-4d, Zeile %1$ld",
    "%s [%c]: %s", "%3$s (%1$s, %2$c)",
    "has 100%% of %s", "%s hat 100 %%",
    "100 %% sure", "100 %% sicher",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, SAY ("%u turns can't be rolled back: the context has %u", 3u, 12u),
               "Kontext hat 12, nicht 3");
  assert_says (translation, SAY ("Token %d is none", -4), "Kein Token: -4");
  assert_says (translation, SAY ("No room for %zu of %ju bytes", G_MAXSIZE, (guint64) 7),
               "Kein Platz für 18446744073709551615 von 7 Byte");
  assert_says (translation, SAY ("%s is %g, up to %.1f", "a.b", -1.5e-07, 2.0),
               "a.b ist -1.5e-07, bis 2.0");
  assert_says (translation, SAY ("has U+%04X here", 0xadu), "hier U+00AD");
  assert_says (translation, SAY ("line %ld, %-4d|%s", -5000000000L, 6, "%s"),
               "%s|6   , Zeile -5000000000");
  assert_says (translation, SAY ("%s [%c]: %s", "one", 'x', "two"), "two (one, x)");
  assert_says (translation, SAY ("has 100%% of %s", "it"), "it hat 100 %");
  assert_says (translation, SAY ("100 %% sure"), "100 % sicher");
  assert_says (translation, SAY ("%s is not known here", "it"), "it is not known here");
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
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);
  g_autoptr(GError) key = SAY ("key %s", "“x y”");
  g_autoptr(GError) type = llmsvc_error_new (LLMSVC_ERROR_FAILED, key, "%s has type %u",
                                             key->message, 77u);
  g_autoptr(GError) foreign = make_foreign ("No model");

  assert_says (translation,
               llmsvc_error_new (LLMSVC_ERROR_FAILED, type, "“%s”: %s", "a/b.gguf", type->message),
               "„a/b.gguf“: Schlüssel “x y” hat den Typ 77");
  assert_says (translation,
               llmsvc_error_new (LLMSVC_ERROR_FAILED, foreign, "Answer %s", foreign->message),
               "Antwort Kein Modell");
  /* what is quoted came from outside, and a word is a name */
  assert_says (translation, SAY ("There is no model “%s”", "No model"), "Kein Modell „No model“");
  assert_says (translation, SAY ("Answer %s", "stopped"), "Antwort stopped");
  assert_says (translation, SAY ("Answer %s", "No model"), "Antwort Kein Modell");
  assert_says (translation, SAY ("Answer %s", "Answer No model"), "Antwort Answer No model");
}

/* A translation that asks for what the message does not have is none. */
static void
test_unfit (void)
{
  static const char *const entries[] = {
    HEADER,
    "one %s", "%s und %s",
    "three %s", "drei %2$s",
    "five %s", "fünf %",
    "six %s", "sechs %*d",
    "seven %s", "sieben %0$s",
    "eight %s", "acht",
    "nine %u", "neun %99999999999999999999$u",
    NULL
  };
  g_autoptr(LlmTranslation) translation = make_translation (entries);

  assert_says (translation, SAY ("one %s", "a"), "one a");
  assert_says (translation, SAY ("three %s", "a"), "three a");
  assert_says (translation, SAY ("five %s", "a"), "five a");
  assert_says (translation, SAY ("six %s", "6"), "six 6");
  assert_says (translation, SAY ("seven %s", "a"), "seven a");
  assert_says (translation, SAY ("eight %s", "a"), "acht");
  assert_says (translation, SAY ("nine %u", 9u), "nine 9");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/translation/file", GINT_TO_POINTER (FALSE), test_file);
  g_test_add_data_func ("/translation/swapped-file", GINT_TO_POINTER (TRUE), test_file);
  g_test_add_func ("/translation/bad-file", test_bad_file);
  g_test_add_func ("/translation/arguments", test_arguments);
  g_test_add_func ("/translation/nested", test_nested);
  g_test_add_func ("/translation/unfit", test_unfit);
  return g_test_run ();
}
