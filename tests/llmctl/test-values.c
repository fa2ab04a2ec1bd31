/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values from words and JSON, and introspection data, also what nobody should send. */

#define G_LOG_DOMAIN "test-values"

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>

#include "llmctl/bus/llmctl-object.h"
#include "support/llm-test-folder.h"
#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"

/* The program's own table is not needed here. */
const LlmctlCommand *const llmctl_commands[] = { NULL };

/* --- JSON --- */

static void
check_read (const char *json,
            const char *printed)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) value = llmctl_json_read (json, &error);
  g_autofree char *text = NULL;

  g_test_message ("%.60s", json);
  if (printed == NULL)
    {
      g_assert_null (value);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
      return;
    }
  g_assert_no_error (error);
  g_assert_false (g_variant_is_floating (value));
  text = g_variant_print (value, TRUE);
  g_assert_cmpstr (text, ==, printed);
}

static void
test_json_read (void)
{
  check_read (" 1 ", "int64 1");
  check_read ("-9223372036854775808", "int64 -9223372036854775808");
  check_read ("18446744073709551615", "uint64 18446744073709551615");
  check_read ("18446744073709551616", "1.8446744073709552e+19");
  check_read ("1e3", "1000.0");
  check_read ("true", "true");
  check_read ("\"a\\n\\u00e4\\ud83d\\ude00\\\"\"", "'a\\nä😀\"'");
  check_read ("[]", "@av []");
  check_read ("[1,\"a\",[true]]", "[<int64 1>, <'a'>, <[<true>]>]");
  check_read ("{}", "@a{sv} {}");
  check_read ("{\"a\":1,\"a\":2}", "{'a': <int64 2>}");

  check_read ("", NULL);
  check_read ("nul", NULL);
  check_read ("null", NULL);
  check_read ("01", NULL);
  check_read ("1.", NULL);
  check_read ("-", NULL);
  check_read ("1e999", NULL);
  check_read ("\"a", NULL);
  check_read ("\"\n\"", NULL);
  check_read ("\"\\u0000\"", NULL);
  check_read ("\"\\ud800\"", NULL);
  check_read ("\"\\x\"", NULL);
  check_read ("[1,]", NULL);
  check_read ("[1 2]", NULL);
  check_read ("{\"a\"}", NULL);
  check_read ("{a:1}", NULL);
  check_read ("1 2", NULL);
}

static void
test_json_deep (void)
{
  g_autofree char *deep = g_strnfill (1000000, '[');
  g_autofree char *objects = NULL;
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GVariant) value = NULL;

  check_read (deep, NULL);
  for (guint i = 0; i < 100000; i++)
    g_string_append (text, "{\"a\":");
  objects = g_string_free (g_steal_pointer (&text), FALSE);
  check_read (objects, NULL);

  /* As deep as is allowed. */
  memset (deep, '[', LLMCTL_JSON_MAX_DEPTH);
  memset (deep + LLMCTL_JSON_MAX_DEPTH, ']', LLMCTL_JSON_MAX_DEPTH);
  deep[2 * LLMCTL_JSON_MAX_DEPTH] = '\0';
  value = llmctl_json_read (deep, NULL);
  g_assert_nonnull (value);
}

static void
check_write (const char *printed,
             const char *json)
{
  g_autoptr(GVariant) value = g_variant_parse (NULL, printed, NULL, NULL, NULL);
  g_autofree char *text = NULL;

  g_assert_nonnull (value);
  text = llmctl_json_write (value, FALSE);
  g_assert_cmpstr (text, ==, json);
}

static void
test_json_write (void)
{
  g_autoptr(GVariant) value = g_variant_ref_sink (g_variant_new_parsed ("{'a': [1, 2], 'b': []}"));
  g_autofree char *indented = llmctl_json_write (value, TRUE);

  check_write ("{'a': <1>, 'b': <['x']>}", "{\"a\":1,\"b\":[\"x\"]}");
  check_write ("(1, 'a', @as [], <<true>>)", "[1,\"a\",[],true]");
  check_write ("{uint32 5: 0.1}", "{\"5\":0.1}");
  check_write ("uint64 18446744073709551615", "18446744073709551615");
  check_write ("[0.1, 1e300, 3.0, 1.23456789012345678]", "[0.1,1e+300,3,1.2345678901234567]");
  check_write ("@ad [inf, nan]", "[null,null]");
  /* Control characters of both kinds would be read by a terminal. */
  check_write ("'\\u001b[31m\\u009b\\u007f\"\\\\\\n'", "\"\\u001b[31m\\u009b\\u007f\\\"\\\\\\n\"");
  check_write ("objectpath '/a'", "\"/a\"");
  g_assert_cmpstr (indented, ==,
                   "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}");
}

/* --- values --- */

static void
check_value (const char *type,
             const char *word,
             const char *printed)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) value = llmctl_value_parse ("name", type, word, &error);
  g_autofree char *shown = g_strescape (word, NULL);
  g_autofree char *text = NULL;

  g_test_message ("%s %s", type, shown);
  if (printed == NULL)
    {
      g_assert_null (value);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
      g_assert_nonnull (strstr (error->message, "name"));
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpstr (g_variant_get_type_string (value), ==, type);
  text = g_variant_print (value, FALSE);
  g_assert_cmpstr (text, ==, printed);
}

static void
test_values (void)
{
  check_value ("s", "12", "'12'");
  check_value ("s", "-", "'-'");
  check_value ("b", "true", "true");
  check_value ("b", "yes", NULL);
  check_value ("y", "255", "0xff");
  check_value ("y", "256", NULL);
  check_value ("n", "-32768", "-32768");
  check_value ("n", "-32769", NULL);
  check_value ("q", "-1", NULL);
  check_value ("u", "4294967295", "4294967295");
  check_value ("u", "4294967296", NULL);
  check_value ("u", "1e3", "1000");
  check_value ("u", "1.5", NULL);
  check_value ("u", "1e300", NULL);
  check_value ("u", "", NULL);
  check_value ("i", "2147483648", NULL);
  check_value ("x", "-9223372036854775808", "-9223372036854775808");
  check_value ("x", "9223372036854775808", NULL);
  check_value ("t", "18446744073709551615", "18446744073709551615");
  check_value ("t", "18446744073709551616", NULL);
  check_value ("d", "3", "3.0");
  check_value ("d", "nan", NULL);
  check_value ("o", "/a/b", "'/a/b'");
  check_value ("o", "a", NULL);
  check_value ("g", "a{sv}", "'a{sv}'");
  check_value ("g", "a{", NULL);
  check_value ("h", "0", NULL);
  check_value ("s", "\xff", NULL);
  check_value ("as", "[\"a\",\"b\"]", "['a', 'b']");
  check_value ("as", "[1]", NULL);
  check_value ("as", "a", NULL);
  check_value ("(si)", "[\"a\",1]", "('a', 1)");
  check_value ("(si)", "[\"a\"]", NULL);
  check_value ("(si)", "[\"a\",1,2]", NULL);
  check_value ("a{ss}", "{\"a\":\"b\"}", "{'a': 'b'}");
  check_value ("a{ss}", "[]", NULL);
  check_value ("a{ud}", "{\"7\":-1}", "{7: -1.0}");
  check_value ("a{ud}", "{\"x\":1}", NULL);
  check_value ("a(ssa{sv})", "[[\"user\",\"hi\"]]", "[('user', 'hi', {})]");
  check_value ("a{sv}", "{\"a\":[1,2]}", "{'a': <[int64 1, 2]>}");
  check_value ("a{sv}", "{\"a\":[1,0.5]}", "{'a': <[1.0, 0.5]>}");
  check_value ("a{sv}", "{\"a\":[\"x\"]}", "{'a': <['x']>}");
  check_value ("a{sv}", "{\"a\":[]}", "{'a': <@as []>}");
  check_value ("a{sv}", "{\"a\":[1,\"x\"]}", "{'a': <[<int64 1>, <'x'>]>}");
  check_value ("v", "12", "<int64 12>");
  check_value ("v", "0.5", "<0.5>");
  check_value ("v", "true", "<true>");
  check_value ("v", "\"12\"", "<'12'>");
  check_value ("v", "word", "<'word'>");
  check_value ("v", "[{\"a\":1}]", "<[{'a': <int64 1>}]>");
  check_value ("v", "[", NULL);
}

static void
check_type (const char *type,
            const char *described)
{
  g_autofree char *text = llmctl_type_describe (type);

  g_assert_cmpstr (text, ==, described);
}

static void
test_types (void)
{
  check_type ("s", "string");
  check_type ("a{sv}", "{key: any, …}");
  check_type ("a(ssa{sv})", "[[string, string, {key: any, …}], …]");
  check_type ("a{ud}", "{unsigned: number, …}");
  check_type ("(xbo)", "[integer, true|false, path]");
}

/* --- introspection --- */

static const char xml_with_help[] =
  "<!DOCTYPE node PUBLIC \"x\" \"y\">"
  "<!-- SPDX-License-Identifier: CC0-1.0 -->"
  "<node name='/a'>\n"
  "<!--\n  org.test.One:\n  @short_description: The first\n  @since: 1\n\n  First line of\n"
  "  the help, see #org.test.Two and @Size.\n\n  Second `@raw` one.\n-->"
  "<interface name='org.test.One'>"
  "  <!-- Size: How large it is. -->"
  "  <property name='Size' type='u' access='readwrite'/>"
  "  <!--\n    Paint:\n    @colour: Which one.\n"
  "    @options: As for Draw(), and `style` (s: `plain`,\n"
  "      `wild`), how; `layers` (u).\n    @picture: What came out.\n\n    Paints a picture.\n  -->"
  "  <method name='Paint'>"
  "    <arg name='colour' type='s' direction='in'/>"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <arg name='picture' type='s' direction='out'/>"
  "  </method>"
  "  <method name='Draw'>"
  "    <!--\n Draw:\n @options: `size` (t), how large.\n\n Draws @it. -->"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <annotation name='org.freedesktop.DBus.Deprecated' value='true'/>"
  "  </method>"
  "  <signal name='Done'><arg name='how' type='s'/></signal>"
  "</interface>"
  "<interface name='org.test.Two'><method name='Draw'/></interface>"
  "<node name='child'><interface name='org.test.Three'/></node>"
  "</node>";

/* The last comment goes on, and on. */
static const char odd_help[] =
  "<interface name='org.test.Odd'><method name='Odd'>"
  "<arg name='a' type='a{sv}' direction='in'/><arg name='b' type='a{sv}' direction='in'/>"
  "<arg name='c' type='a{sv}' direction='in'/><arg name='d' type='a{sv}' direction='in'/>"
  "</method>\n<!-- Odd:\n@a: `k` (s: `\n@b: As for Odd(), as for (), `x` (a{, `` (s), `y` (s\n"
  "@c: `y` (s: `a`, `b)\n@d: ";

static void
test_introspection (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmctlNode) node = llmctl_node_parse (xml_with_help, &error);
  const LlmctlMember *paint, *member;
  g_autofree char *described = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (node->interfaces->len, ==, 2);
  g_assert_cmpstr (node->info->nodes[0]->path, ==, "child");
  g_assert_null (node->info->nodes[1]);

  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", NULL, "short_description"), ==,
                   "The first");
  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", NULL, NULL), ==,
                   "First line of the help, see org.test.Two and Size.\n\nSecond `@raw` one.");
  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", "Size", NULL), ==,
                   "How large it is.");
  member = llmctl_node_lookup (node, "org.test.One", LLMCTL_MEMBER_PROPERTY, "Size");
  g_assert_cmpint (member->flags, ==, G_DBUS_PROPERTY_INFO_FLAGS_READABLE |
                                        G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE);
  paint = llmctl_node_lookup (node, "org.test.One", LLMCTL_MEMBER_METHOD, "Paint");
  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", "Paint", NULL), ==,
                   "Paints a picture.");
  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", "Paint", "colour"), ==,
                   "Which one.");
  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", "Paint", "picture"), ==,
                   "What came out.");
  described = llmctl_arguments_describe (paint->in);
  g_assert_cmpstr (described, ==, "colour: string, options: {key: any, …}");
  member = llmctl_node_lookup (node, "org.test.One", LLMCTL_MEMBER_METHOD, "Draw");
  g_assert_true (member->is_deprecated);
  g_assert_cmpstr (llmctl_docs_get_help ("org.test.One", "Draw", NULL), ==, "Draws it.");
  g_assert_null (llmctl_docs_get_help ("org.test.Two", "Draw", NULL));

  g_assert_true (llmctl_node_find_member (node, "/a", LLMCTL_MEMBER_METHOD, "Paint", NULL) ==
                 paint);
  g_assert_true (llmctl_node_find_member (node, "/a", LLMCTL_MEMBER_METHOD, "One.Draw", NULL) ==
                 member);
  g_assert_null (llmctl_node_find_member (node, "/a", LLMCTL_MEMBER_METHOD, "Draw", &error));
  g_assert_nonnull (strstr (error->message, "org.test.One.Draw, org.test.Two.Draw"));
  g_clear_error (&error);
  g_assert_null (llmctl_node_find_member (node, "/a", LLMCTL_MEMBER_METHOD, "Piant", &error));
  g_assert_nonnull (strstr (error->message, "did you mean “Paint”"));
  g_clear_error (&error);
  g_assert_null (llmctl_node_find_member (node, "/a", LLMCTL_MEMBER_METHOD, "wo.Draw", &error));
}

/* From the interface file of the service, which main() has put where it is looked for. */
static void
test_keys (void)
{
  const LlmctlMember *paint = llmctl_node_lookup (llmctl_docs_get_node (), "org.test.One",
                                                  LLMCTL_MEMBER_METHOD, "Paint");
  g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (paint, "options");
  g_autofree char *lead = llmctl_docs_get_lead (paint, paint->in[1]);
  const LlmctlKey *key;

  g_assert_cmpuint (keys->len, ==, 3);
  key = keys->pdata[0];
  g_assert_cmpstr (key->key, ==, "style");
  g_assert_cmpstr (key->type, ==, "s");
  g_assert_cmpstr (key->help, ==, "how");
  g_assert_cmpstr (key->choices[0], ==, "plain");
  g_assert_cmpstr (key->choices[1], ==, "wild");
  g_assert_null (key->choices[2]);
  key = keys->pdata[1];
  g_assert_cmpstr (key->key, ==, "layers");
  g_assert_cmpstr (key->help, ==, "");
  key = llmctl_docs_find_key (keys, "size");
  g_assert_cmpstr (key->type, ==, "t");
  g_assert_cmpstr (key->help, ==, "how large.");
  g_assert_cmpstr (lead, ==, "As for Draw()");
}

/* What nobody writes. */
static void
test_hostile_keys (void)
{
  const LlmctlMember *odd = llmctl_node_lookup (llmctl_docs_get_node (), "org.test.Odd",
                                                LLMCTL_MEMBER_METHOD, "Odd");

  g_assert_nonnull (odd);
  for (gsize i = 0; odd->in[i] != NULL; i++)
    {
      g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (odd, odd->in[i]->name);
      g_autofree char *lead = llmctl_docs_get_lead (odd, odd->in[i]);

      g_test_message ("%s: %u", odd->in[i]->name, keys->len);
      g_assert_cmpuint (keys->len, <=, 256);
      g_assert_cmpstr (lead, !=, NULL);
    }
}

static gboolean
parses (const char *xml)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmctlNode) node = llmctl_node_parse (xml, &error);

  g_assert_true ((node == NULL) == (error != NULL));
  if (error != NULL)
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  return node != NULL;
}

/* What is left out without harm: "name" and how many interfaces and members stay. */
static void
check_left (const char *inside,
            guint       n_interfaces,
            guint       n_members)
{
  g_autofree char *xml = g_strconcat ("<node>", inside, "</node>", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmctlNode) node = llmctl_node_parse (xml, &error);

  g_test_message ("%s", inside);
  g_assert_no_error (error);
  g_assert_cmpuint (node->interfaces->len, ==, n_interfaces);
  g_assert_cmpuint (node->members->len, ==, n_members);
}

static void
test_hostile_xml (void)
{
  g_autoptr(GString) text = g_string_new (NULL);
  const char *open = "<node><interface name='a.b'>";

  g_assert_false (parses (""));
  g_assert_false (parses ("no xml"));
  g_assert_false (parses ("<interface name='a.b'/>"));
  g_assert_false (parses ("<node>"));
  g_assert_false (parses ("<node>&lol;</node>"));
  g_assert_false (parses ("<node name='\xff'/>"));
  /* An argument that can't be read would make another method. */
  g_assert_false (parses ("<node><interface name='a.b'><method name='M'><arg type='a{' "
                          "direction='in'/></method></interface></node>"));
  g_assert_false (parses ("<node><interface name='a.b'><method name='M'><arg type='ms' "
                          "direction='in'/></method></interface></node>"));
  g_assert_false (parses ("<node><interface name='a.b'><method name='M'><arg/></method></interface>"
                          "</node>"));
  g_assert_false (parses ("<node><interface/></node>"));
  g_assert_false (parses ("<node><arg type='s'/><method name='M'/></node>"));
  g_assert_false (parses ("<node><interface name='a.b'><property name='P'/></interface></node>"));

  check_left ("<interface name='no name'/>", 0, 0);
  check_left ("<interface name='a.b'/><interface name='a.b'><method name='M'/></interface>", 1, 0);
  check_left ("<interface name='a.b'><method name='../M'/><method name='M'/></interface>", 1, 1);
  check_left ("<interface name='a.b'><method name='M'/><method name='M'/></interface>", 1, 1);
  check_left ("<interface name='a.b'><property name='Q' type='ss' access='read'/></interface>", 1,
              0);
  check_left ("<interface name='a.b'><other/></interface>", 1, 0);
  check_left ("<!-- a.b: --><!-- @ --><!----><!-- : --><!-- a: @: @x:\n@y:-->"
              "<interface name='a.b'/>", 1, 0);

  for (guint i = 0; i < 20000; i++)
    g_string_append (text, "<node>");
  for (guint i = 0; i < 20000; i++)
    g_string_append (text, "</node>");
  g_assert_false (parses (text->str));

  g_string_assign (text, open);
  for (guint i = 0; i < 10000; i++)
    g_string_append_printf (text, "<method name='M%u'/>", i);
  g_string_append (text, "</interface></node>");
  g_assert_true (parses (text->str));

  g_string_assign (text, "<node><!-- a.b: ");
  for (guint i = 0; i < 200000; i++)
    g_string_append (text, "`k` (");
  g_string_append (text, "--></node>");
  g_assert_true (parses (text->str));

  g_string_assign (text, "<node>");
  for (guint i = 0; i < 2 * 1024 * 1024; i++)
    g_string_append_c (text, ' ');
  g_string_append (text, "</node>");
  g_assert_false (parses (text->str));
}

/* The real file, cut off and damaged everywhere. */
static void
test_damaged_xml (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("G_TEST_SRCDIR"), "..", "service", "bus",
                                            "org.llm.Service.xml", NULL);
  g_autofree char *xml = NULL;
  g_autoptr(GError) error = NULL;
  gsize length;

  g_file_get_contents (path, &xml, &length, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < length; i += 131)
    {
      g_autofree char *damaged = g_strndup (xml, length);
      g_autofree char *before = g_strndup (xml, i);
      g_autoptr(LlmctlNode) cut = llmctl_node_parse (before, NULL);
      g_autoptr(LlmctlNode) node = NULL;

      g_assert_null (cut);
      damaged[i] ^= 0x15;
      node = llmctl_node_parse (damaged, NULL);
      for (const LlmctlMember *member = node != NULL ? llmctl_node_get_members (node) : NULL;
           member != NULL && member->name != NULL; member++)
        g_free (llmctl_member_describe (member));
    }
}

/* --- text --- */

static void
test_harmless (void)
{
  g_autofree char *text = llmctl_output_make_harmless ("a\033[2J\xc2\x9b" "b\n\tc\xff\x7f");

  g_assert_cmpstr (text, ==, "a\xef\xbf\xbd[2J\xef\xbf\xbd" "b\n\tc\xef\xbf\xbd\xef\xbf\xbd");
  g_assert_cmpuint (llmctl_output_get_width ("aä语\xff"), ==, 5);
}

static void
test_wrap (void)
{
  g_autofree char *text = llmctl_wrap ("one two\n\nthree", 2);
  g_autofree char *words = g_strnfill (200, 'x');
  g_autofree char *long_words = g_strconcat (words, " ", words, NULL);
  g_autofree char *wrapped = llmctl_wrap (long_words, 0);

  g_assert_cmpstr (text, ==, "  one two\n\n  three\n");
  g_assert_cmpuint (strcspn (wrapped, "\n"), ==, 200);
}

/* Chinese has no spaces: a line ends anywhere but before punctuation. */
static void
test_wrap_wide (void)
{
  guint columns = llmctl_output_get_columns ();
  GString *text = g_string_new (NULL);
  g_autofree char *wrapped = NULL;
  g_auto(GStrv) lines = NULL;
  g_autofree char *joined = NULL;

  for (guint i = 0; i < 200; i++)
    g_string_append (text, "“语”，");
  wrapped = llmctl_wrap (text->str, 0);
  lines = g_strsplit (wrapped, "\n", -1);
  joined = g_strjoinv ("", lines);
  g_assert_cmpstr (joined, ==, text->str);
  g_assert_cmpuint (g_strv_length (lines), >, 2);
  for (guint i = 0; *lines[i] != '\0'; i++)
    {
      g_assert_true (g_str_has_prefix (lines[i], "“"));
      g_assert_true (g_str_has_suffix (lines[i], "，"));
      g_assert_cmpuint (llmctl_output_get_width (lines[i]), <=, columns);
    }
  g_assert_cmpuint (llmctl_output_get_width (lines[0]), >, columns - 6);
  g_string_free (text, TRUE);
}

static void
test_suggest (void)
{
  const char *const names[] = { "context", "complete", "call", NULL };
  g_autofree char *huge = g_strnfill (100000, 'c');

  g_assert_cmpstr (llmctl_suggest ("contxet", names), ==, "context");
  g_assert_cmpstr (llmctl_suggest ("cal", names), ==, "call");
  g_assert_cmpstr (llmctl_suggest ("compl", names), ==, "complete");
  g_assert_null (llmctl_suggest ("zebra", names));
  g_assert_null (llmctl_suggest ("", names));
  g_assert_null (llmctl_suggest (huge, names));
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr(GString) odd = g_string_new (odd_help);
  g_autofree char *folder = NULL;
  g_autofree char *file = NULL;
  int result;

  g_test_init (&argc, &argv, NULL);

  folder = llm_test_folder_new ();
  file = g_build_filename (folder, "dbus-1", "interfaces", NULL);
  g_assert_cmpint (g_mkdir_with_parents (file, 0700), ==, 0);
  g_free (file);
  file = g_build_filename (folder, "dbus-1", "interfaces", "org.llm.Service.xml", NULL);
  /* enough for what takes the square of it to show; address sanitizers measure each rest of a text */
  for (guint i = 0; i < 30000; i++)
    g_string_append (odd, "`k` (");
  g_string_append (odd, "--></interface>");
  g_string_insert (odd, 0, "</interface>");
  g_string_insert_len (odd, 0, xml_with_help,
                       strstr (xml_with_help, "</interface>") - xml_with_help);
  g_string_append (odd, "</node>");
  g_assert_true (g_file_set_contents (file, odd->str, -1, NULL));
  g_setenv ("XDG_DATA_HOME", folder, TRUE);

  g_test_add_func ("/json/read", test_json_read);
  g_test_add_func ("/json/deep", test_json_deep);
  g_test_add_func ("/json/write", test_json_write);
  g_test_add_func ("/values", test_values);
  g_test_add_func ("/types", test_types);
  g_test_add_func ("/introspection", test_introspection);
  g_test_add_func ("/keys", test_keys);
  g_test_add_func ("/hostile-keys", test_hostile_keys);
  g_test_add_func ("/hostile-xml", test_hostile_xml);
  g_test_add_func ("/damaged-xml", test_damaged_xml);
  g_test_add_func ("/harmless", test_harmless);
  g_test_add_func ("/wrap", test_wrap);
  g_test_add_func ("/wrap-wide", test_wrap_wide);
  g_test_add_func ("/suggest", test_suggest);

  result = g_test_run ();
  llm_test_folder_remove (folder);
  return result;
}
