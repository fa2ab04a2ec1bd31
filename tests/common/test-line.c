/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "test-line"

#include "common/llmsvc-line.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

static void
test_text (void)
{
  static const char *const texts[] = {
    "", "plain", "quote \" and back \\ slash", "line\nfeed\r\ttab", "\x01\x1f\x7f",
    "Gr\xc3\xbc\xc3\x9f\x65 \xf0\x9f\x98\x80", "</script>", "{\"done\":{}}",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr(GString) out = g_string_new (NULL);
      g_autoptr(JsonParser) parser = json_parser_new ();
      g_autoptr(GError) error = NULL;
      LlmsvcLine line;

      llmsvc_line_write_text (out, texts[i], strlen (texts[i]));
      g_assert_cmpint (out->str[out->len - 1], ==, '\n');
      g_assert_null (memchr (out->str, '\n', out->len - 1));

      g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
      g_assert_no_error (error);
      g_assert_cmpint (line.kind, ==, LLMSVC_LINE_TEXT);
      g_assert_cmpstr (line.text, ==, texts[i]);
      llmsvc_line_clear (&line);

      /* Another reader of JSON sees the same. */
      g_assert_true (json_parser_load_from_data (parser, out->str, (gssize) out->len, &error));
      g_assert_cmpstr (json_object_get_string_member (
                           json_node_get_object (json_parser_get_root (parser)), "t"),
                       ==, texts[i]);
    }
}

static void
test_reasoning (void)
{
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;

  llmsvc_line_write_reasoning (out, "a\n“b”", strlen ("a\n“b”"));
  g_assert_cmpstr (out->str, ==, "{\"reasoning\":\"a\\n“b”\"}\n");
  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_REASONING);
  g_assert_cmpstr (line.text, ==, "a\n“b”");
  llmsvc_line_clear (&line);
}

static void
test_text_with_nul (void)
{
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;

  llmsvc_line_write_text (out, "a\0b", 3);
  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_cmpstr (line.text, ==, "a\xef\xbf\xbd" "b");
  llmsvc_line_clear (&line);
}

static void
test_done (void)
{
  static const char *const ignored[] = { "colour", "q\"uote", NULL };
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) results = NULL;
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_auto(GVariantDict) found = G_VARIANT_DICT_INIT (NULL);
  g_autofree const char **strings = NULL;
  LlmsvcLine line;
  guint64 whole;
  double real;
  gboolean flag;
  const char *reason;

  g_variant_dict_insert (&dict, "finish-reason", "s", "stop");
  g_variant_dict_insert (&dict, "output-tokens", "u", 4294967295u);
  g_variant_dict_insert (&dict, "revision", "t", G_GUINT64_CONSTANT (999999999999999999));
  g_variant_dict_insert (&dict, "ttft-ms", "d", 12.1);
  g_variant_dict_insert (&dict, "whole", "d", 3.0);
  g_variant_dict_insert (&dict, "tiny", "d", 1e-300);
  g_variant_dict_insert (&dict, "never", "d", (double) INFINITY);
  g_variant_dict_insert (&dict, "slo-met", "b", TRUE);
  g_variant_dict_insert (&dict, "ignored", "^as", ignored);
  results = g_variant_ref_sink (g_variant_dict_end (&dict));

  llmsvc_line_write_done (out, results);
  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_DONE);

  g_variant_dict_init (&found, line.results);
  g_assert_true (g_variant_dict_lookup (&found, "finish-reason", "&s", &reason));
  g_assert_cmpstr (reason, ==, "stop");
  g_assert_true (g_variant_dict_lookup (&found, "output-tokens", "t", &whole));
  g_assert_cmpuint (whole, ==, 4294967295u);
  g_assert_true (g_variant_dict_lookup (&found, "revision", "t", &whole));
  g_assert_cmpuint (whole, ==, G_GUINT64_CONSTANT (999999999999999999));
  g_assert_true (g_variant_dict_lookup (&found, "ttft-ms", "d", &real));
  g_assert_cmpfloat (real, ==, 12.1);
  g_assert_true (g_variant_dict_lookup (&found, "whole", "d", &real));
  g_assert_cmpfloat (real, ==, 3.0);
  g_assert_true (g_variant_dict_lookup (&found, "tiny", "d", &real));
  g_assert_cmpfloat (real, ==, 1e-300);
  g_assert_false (g_variant_dict_contains (&found, "never"));
  g_assert_true (g_variant_dict_lookup (&found, "slo-met", "b", &flag));
  g_assert_true (flag);
  g_assert_true (g_variant_dict_lookup (&found, "ignored", "^a&s", &strings));
  g_assert_cmpstr (strings[1], ==, "q\"uote");
  llmsvc_line_clear (&line);
}

static void
test_logprobs (void)
{
  static const char items[] = "{\"id\":5,\"token\":\"a\\\"\",\"bytes\":[97,34],\"logprob\":-0.5}";
  static const char *const bad[] = {
    "{\"logprobs\":{}}", "{\"logprobs\":\"[]\"}", "{\"logprobs\":[1e999]}",
    "{\"logprobs\":[],\"t\":\"\"}", "{\"logprobs\":[}",
  };
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;

  llmsvc_line_write_logprobs (out, items);
  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_LOGPROBS);
  g_assert_cmpstr (line.text, ==, items);
  llmsvc_line_clear (&line);
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_false (llmsvc_line_parse (bad[i], strlen (bad[i]), &line, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
      g_clear_error (&error);
    }
}

static void
test_call (void)
{
  static const char call[] = "{\"id\":\"a\",\"function\":{\"arguments\":\"{\\\"x\\\":[1]}\"}}";
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;

  llmsvc_line_write_call (out, call);
  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_CALL);
  g_assert_cmpstr (line.text, ==, call);
  llmsvc_line_clear (&line);
  g_assert_false (llmsvc_line_parse ("{\"call\":\"x\"}", 12, &line, &error));
  g_assert_nonnull (strstr (error->message, "call"));
}

static void
test_progress (void)
{
  static const char *const bad[] = {
    "{\"progress\":[]}", "{\"progress\":3}", "{\"progress\":{},\"t\":\"x\"}",
  };
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GVariant) progress = g_variant_ref_sink (g_variant_new_parsed (
    "{'phase': <'prefill'>, 'done': <uint64 320>, 'total': <uint64 969>}"));
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;
  guint64 done = 0;

  llmsvc_line_write_progress (out, progress);
  g_assert_true (g_str_has_suffix (out->str, "}\n"));
  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_PROGRESS);
  g_assert_true (g_variant_lookup (line.results, "done", "t", &done));
  g_assert_cmpuint (done, ==, 320);
  llmsvc_line_clear (&line);
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_false (llmsvc_line_parse (bad[i], strlen (bad[i]), &line, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
      g_clear_error (&error);
    }
}

static void
test_other (void)
{
  static const char *const lines[] = {
    "{}",
    " { \"later\" : [ 1 , { \"deep\" : null } , -2.5e3 ] } \r",
    "{\"t\":null}", "{\"a\":1e999}",
    "{\"\\u0041\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\":\"\"}",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autoptr(GError) error = NULL;
      LlmsvcLine line;

      g_assert_true (llmsvc_line_parse (lines[i], strlen (lines[i]), &line, &error));
      g_assert_no_error (error);
      g_assert_cmpint (line.kind, ==, LLMSVC_LINE_OTHER);
      g_assert_null (line.text);
      g_assert_null (line.results);
      llmsvc_line_clear (&line);
    }
}

static void
test_bad (void)
{
  static const char *const lines[] = {
    "", " ", "x", "[]", "\"t\"", "1", "{", "}", "{\"t\"", "{\"t\":", "{\"t\":\"", "{\"t\":\"a\"",
    "{\"t\":\"a\"}}", "{\"t\":\"a\"} {}", "{\"t\":\"a\",}", "{,}", "{\"t\":1}", "{\"t\":[]}",
    "{\"reasoning\":1}", "{\"t\":\"a\",\"reasoning\":\"b\"}", "{\"done\":[]}",
    "{\"done\":\"x\"}", "{\"t\":\"a\",\"done\":{}}", "{\"t\":\"a\",\"t\":\"b\"}",
    "{'t':'a'}", "{t:\"a\"}", "{\"t\":\"a\"/* */}", "var a = {}", "{\"a\":01}", "{\"a\":1.}",
    "{\"a\":.5}", "{\"a\":+1}", "{\"a\":1e}", "{\"a\":1000000000000000000}", "{\"a\":NaN}", "{\"a\":tru}",
    "{\"a\":-}", "{\"a\":0x10}", "{\"t\":\"\\u0000\"}", "{\"t\":\"\\ud800\"}",
    "{\"t\":\"\\udc00\\udc00\"}", "{\"t\":\"\\ud800\\u0041\"}", "{\"t\":\"\\u12\"}",
    "{\"t\":\"\\x41\"}", "{\"t\":\"\\\"}", "{\"t\":\"a\nb\"}", "{\"t\":\"\xff\"}",
    "{\"t\":\"\xc3\"}", "{\"t\":\"\xed\xa0\x80\"}", "{\"a\":[}", "{\"a\":[1,]}", "{\"a\":[1 2]}",
    "\xef\xbb\xbf{}", "{\"error\":\"x\"}", "{\"error\":{}}", "{\"error\":{\"name\":\"Failed\"}}",
    "{\"done\":{},\"error\":{\"name\":\"Failed\",\"message\":\"\"}}",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autoptr(GError) error = NULL;
      LlmsvcLine line;

      g_test_message ("line %" G_GSIZE_FORMAT, i);
      g_assert_false (llmsvc_line_parse (lines[i], strlen (lines[i]), &line, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
      g_assert_true (g_str_has_prefix (error->message, "The stream has a line"));
    }
}

/* Neither many brackets nor many entries may cost stack or memory without bound. */
static void
test_bounds (void)
{
  g_autofree char *brackets = g_strnfill (1000000, '[');
  g_autoptr(GString) deep = g_string_new ("{\"a\":");
  g_autoptr(GString) wide = g_string_new ("{\"a\":[0");
  g_autoptr(GString) keys = g_string_new ("{\"a\":0");
  g_autoptr(GString) digits = g_string_new ("{\"a\":1");
  const GString *lines[] = { deep, wide, keys, digits };

  g_string_append (deep, brackets);
  for (guint i = 0; i < 100000; i++)
    g_string_append (wide, ",0");
  g_string_append (wide, "]}");
  for (guint i = 0; i < 100000; i++)
    g_string_append_printf (keys, ",\"%u\":0", i);
  g_string_append_c (keys, '}');
  for (guint i = 0; i < 1000; i++)
    g_string_append_c (digits, '0');
  g_string_append_c (digits, '}');

  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autoptr(GError) error = NULL;
      LlmsvcLine line;

      g_assert_false (llmsvc_line_parse (lines[i]->str, lines[i]->len, &line, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
    }
}

/* The same bytes in pieces of any size give the same lines. */
static void
test_reader (void)
{
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GVariant) results = g_variant_ref_sink (g_variant_new_parsed ("{'a': <1.5>}"));

  llmsvc_line_write_text (out, "one\n", 4);
  llmsvc_line_write_text (out, "zwei \xc3\xa4", 7);
  g_string_append (out, "{\"later\":1}\n");
  llmsvc_line_write_done (out, results);

  for (gsize step = 1; step <= out->len; step++)
    {
      g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
      g_autoptr(GString) seen = g_string_new (NULL);
      g_autoptr(GError) error = NULL;
      LlmsvcLine line;

      for (gsize at = 0; at < out->len; at += step)
        {
          g_assert_true (llmsvc_line_reader_push (reader, out->str + at,
                                                  MIN (step, out->len - at), &error));
          while (llmsvc_line_reader_next (reader, &line, &error))
            {
              g_string_append_printf (seen, "%d:%s;", (int) line.kind,
                                      line.text != NULL ? line.text : "");
              llmsvc_line_clear (&line);
            }
          g_assert_no_error (error);
        }

      g_assert_cmpstr (seen->str, ==, "0:one\n;0:zwei \xc3\xa4;7:;1:;");
    }
}

static void
test_reader_endless_line (void)
{
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autofree char *spaces = g_strnfill (64 * 1024, ' ');
  g_autoptr(GError) error = NULL;
  gsize pushed = 0;
  LlmsvcLine line;

  while (error == NULL)
    {
      g_assert_cmpuint (pushed, <=, LLMSVC_LINE_MAX_BYTES);
      g_assert_true (llmsvc_line_reader_push (reader, spaces, 64 * 1024, &error));
      pushed += 64 * 1024;
      g_assert_false (llmsvc_line_reader_next (reader, &line, &error));
    }

  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
}

static void
test_reader_no_end (void)
{
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;

  g_assert_true (llmsvc_line_reader_push (reader, "{\"t\":\"a\"}", 9, &error));
  g_assert_false (llmsvc_line_reader_next (reader, &line, &error));
  g_assert_no_error (error);
}

static void
test_error (void)
{
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;

  llmsvc_line_write_error (out, "org.llm.Service.Error.NoMemory", "say \"no\"\n");
  g_assert_cmpstr (out->str, ==,
                   "{\"error\":{\"name\":\"org.llm.Service.Error.NoMemory\","
                   "\"message\":\"say \\\"no\\\"\\n\"}}\n");

  g_assert_true (llmsvc_line_parse (out->str, out->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_ERROR);
  g_assert_cmpstr (line.name, ==, "org.llm.Service.Error.NoMemory");
  g_assert_cmpstr (line.text, ==, "say \"no\"\n");
  llmsvc_line_clear (&line);

  g_assert_false (llmsvc_line_parse ("{\"error\":{\"name\":\"x\"}}", 22, &line, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/line/text", test_text);
  g_test_add_func ("/line/text-with-nul", test_text_with_nul);
  g_test_add_func ("/line/reasoningreasoning", test_reasoning);
  g_test_add_func ("/line/done", test_done);
  g_test_add_func ("/line/error", test_error);
  g_test_add_func ("/line/logprobs", test_logprobs);
  g_test_add_func ("/line/call", test_call);
  g_test_add_func ("/line/progress", test_progress);
  g_test_add_func ("/line/other", test_other);
  g_test_add_func ("/line/bad", test_bad);
  g_test_add_func ("/line/bounds", test_bounds);
  g_test_add_func ("/line/reader", test_reader);
  g_test_add_func ("/line/reader-endless-line", test_reader_endless_line);
  g_test_add_func ("/line/reader-no-end", test_reader_no_end);

  return g_test_run ();
}
