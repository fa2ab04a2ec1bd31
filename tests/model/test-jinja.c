/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The interpreter beside python3-jinja2, whose texts are in oracle.json (made by make-oracle.py);
 * its limits, its errors, and where each byte of its output comes from. */

#include "base/llm-clock.h"
#include "template/jinja/llm-jinja.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define NOW_S 1753797909
#define DATA 7

static char *
get_path (const char *file)
{
  return g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", file, NULL);
}

static JsonObject *
read_oracle (JsonParser *parser)
{
  g_autofree char *path = get_path ("public/oracle.json");
  g_autoptr(GError) error = NULL;

  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

/* All members of @object are variables. */
static gboolean
render (LlmJinjaTemplate *template,
        JsonObject       *object,
        LlmJinjaOutput   *out,
        GError          **error)
{
  g_autoptr(GList) names = json_object_get_members (object);
  g_autoptr(GArray) variables = g_array_new (FALSE, FALSE, sizeof (LlmJinjaVariable));
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  LlmJinjaInput input = { .now_s = NOW_S };

  for (GList *name = names; name != NULL; name = name->next)
    {
      LlmJinjaVariable variable = { .name = name->data, .is_json = TRUE, .origin = DATA };

      variable.text = json_to_string (json_object_get_member (object, name->data), FALSE);
      g_ptr_array_add (texts, (gpointer) variable.text);
      g_array_append_val (variables, variable);
    }
  input.variables = (const LlmJinjaVariable *) (void *) variables->data;
  input.n_variables = variables->len;
  return llm_jinja_template_render (template, &input, out, error);
}

/* @wanted (nullable): NULL where Jinja fails as well. */
static void
check (const char *name,
       const char *source,
       JsonObject *variables,
       const char *wanted)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmJinjaTemplate) template = llm_jinja_template_new (source, &error);
  g_auto(LlmJinjaOutput) out = { NULL };

  g_test_message ("%s", name);
  if (template == NULL || !render (template, variables, &out, &error))
    {
      if (wanted != NULL)
        g_error ("%s: %s", name, error->message);
      g_assert_true (error->domain == LLMSVC_ERROR);
      g_assert_true (g_str_has_prefix (error->message, "line "));
      return;
    }
  if (wanted == NULL)
    g_error ("%s: Jinja refuses this", name);
  if (strlen (wanted) != out.length
      || (out.length > 0 && memcmp (wanted, out.text, out.length) != 0))
    {
      g_autofree char *text = g_strndup (out.text, out.length);

      g_assert_cmpstr (text, ==, wanted);
    }
}

static void
test_snippets (void)
{
  g_autoptr(JsonParser) parser = json_parser_new_immutable ();
  JsonObject *oracle = read_oracle (parser);
  JsonArray *snippets = json_object_get_array_member (oracle, "snippets");

  g_assert_cmpuint (json_array_get_length (snippets), >, 90);
  for (guint i = 0; i < json_array_get_length (snippets); i++)
    {
      JsonObject *snippet = json_array_get_object_element (snippets, i);
      const char *source = json_object_get_string_member (snippet, "source");

      check (source, source, json_object_get_object_member (oracle, "data"),
             json_object_get_string_member_with_default (snippet, "text", NULL));
    }
}

static void
test_public (void)
{
  g_autoptr(JsonParser) parser = json_parser_new_immutable ();
  JsonObject *oracle = read_oracle (parser);
  JsonObject *templates = json_object_get_object_member (oracle, "templates");
  JsonObject *conversations = json_object_get_object_member (oracle, "conversations");
  g_autoptr(GList) names = json_object_get_members (templates);
  guint n = 0;

  for (GList *name = names; name != NULL; name = name->next)
    {
      JsonObject *cases = json_object_get_object_member (templates, name->data);
      g_autoptr(GList) keys = json_object_get_members (cases);
      g_autofree char *file = g_strdup_printf ("public/%s.jinja", (const char *) name->data);
      g_autofree char *path = get_path (file);
      g_autofree char *source = NULL;

      g_assert_true (g_file_get_contents (path, &source, NULL, NULL));
      for (GList *key = keys; key != NULL; key = key->next, n++)
        {
          g_autofree char *title = g_strdup_printf ("%s, %s", (const char *) name->data,
                                                    (const char *) key->data);

          check (title, source, json_object_get_object_member (conversations, key->data),
                 json_object_get_string_member_with_default (cases, key->data, NULL));
        }
    }
  g_assert_cmpuint (n, >, 1000);
}

/* --- errors --- */

static void
test_places (void)
{
  static const struct { const char *source; const char *hint; } cases[] = {
    { "a\n  {% nonsense %}", "line 2, column 6: the statement “nonsense”" },
    { "{% include 'x' %}", "“include”" },
    { "{% extends 'x' %}", "“extends”" },
    { "{% block x %}{% endblock %}", "“block”" },
    { "{% if a %}", "“{% elif %}” was expected, but here is the end" },
    { "{% for a in b %}{% endif %}", "“endif”" },
    { "ö {{ a b }}", "line 1, column 8: “}}” was expected" },
    { "{{ 'a }}", "a string has no end" },
    { "{{ a", "this tag has no end" },
    { "{# a", "a comment has no end" },
    { "{% raw %}", "“raw” has no “endraw”" },
    { "{{ (a] }}", "this bracket closes none" },
    { "{{ f(**a, *b) }}", "one list of arguments" },
    { "{% break %}", "a loop around this was expected" },
    { "\n\n{{ 'x' | wordwrap }}", "line 3, column 10: the filter “wordwrap” is not supported" },
    { "{{ 'x' is nonsense }}", "the test “nonsense” is not supported" },
    { "{{ 'x'.encode() }}", "“encode” of a value of type string is not supported" },
    { "{{ [1].append(2) }}", "“append”" },
    { "{{ ([{'a': 1}] | groupby('a') | first).grouper }}", "“grouper”" },
    { "{{ '{:,}'.format(1) }}", "not supported" },
    { "{{ '{:^5}'.format(1) }}", "not supported" },
    { "{{ '%.2s' % 'abc' }}", "written so" },
    { "{{ '{:5}'.format(none) }}", "not supported" },
    { "{{ '{:<05d}'.format(1) }}", "not supported" },
    { "{{ '%+d' % 1 }}", "not supported" },
    { "{{ cycler(1) }}", "“cycler”" },
    { "{{ 9223372036854775807 + 1 }}", "too large" },
    { "{{ strftime_now('%Q') }}", "%Q" },
    { "{{ raise_exception('Only\nthis') }}", "line 1, column 19: Only\nthis" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmJinjaTemplate) template = llm_jinja_template_new (cases[i].source, &error);
      const LlmJinjaInput input = { NULL };
      g_auto(LlmJinjaOutput) out = { NULL };
      int code = strstr (cases[i].source, "raise") != NULL ? LLMSVC_ERROR_INVALID_ARGUMENT
                                                           : LLMSVC_ERROR_UNSUPPORTED;

      if (template != NULL)
        g_assert_false (llm_jinja_template_render (template, &input, &out, &error));
      g_assert_error (error, LLMSVC_ERROR, code);
      if (strstr (error->message, cases[i].hint) == NULL)
        g_error ("“%s” has no “%s”", error->message, cases[i].hint);
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
    }
}

/* What would take too long or too much is refused, also while a template is parsed. */
static void
test_limits (void)
{
  static const struct { const char *source; const char *hint; } cases[] = {
    { "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "MiB of memory" },
    { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested deeper" },
    { "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}", "MiB of memory" },
    { "{{ '' * 9999999999 }}{{ 'abcdefgh' * 9999999999 }}", "MiB of memory" },
    { "{{ range(99999) | list * 99999 }}", "MiB of memory" },
    { "{% set l = range(9999) | list %}{{ l | select('in', l) | list | length }}", "steps" },
    { "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}"
      "{{ ns.x }}", "nested deeper" },
    { "{{ range(9999999) }}", "more than 100000" },
    { "{{ '%9999d' % 1 }}", "not supported" },
    { "{{ 'a' | center(99999999999) }}", "more than" },
    { "{{ range(9) | slice(999999999) | list }}", "more than" },
    { "{{ range(9) | batch(999999999, 1) | list }}", "more than" },
    { "{{ 2 ** 99999999 }}", "too large" },
  };
  g_autofree char *deep = g_strnfill (5000, '(');
  g_autofree char *deeper = g_strconcat ("{{ ", deep, NULL);
  g_autoptr(GString) nested = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmJinjaTemplate) template = llm_jinja_template_new (cases[i].source, &error);
      const LlmJinjaInput input = { NULL };
      g_auto(LlmJinjaOutput) out = { NULL };

      g_assert_no_error (error);
      g_assert_false (llm_jinja_template_render (template, &input, &out, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      if (strstr (error->message, cases[i].hint) == NULL)
        g_error ("“%s” has no “%s”", error->message, cases[i].hint);
    }
  g_assert_null (llm_jinja_template_new (deeper, NULL));
  for (guint i = 0; i < 5000; i++)
    g_string_append (nested, "{% if a %}");
  g_assert_null (llm_jinja_template_new (nested->str, NULL));
}

/* (transfer full): @n times @part between @begin and @end. */
static char *
repeat (const char *begin,
        guint       n,
        const char *part,
        const char *end)
{
  GString *text = g_string_new (begin);

  for (guint i = 0; i < n; i++)
    g_string_append (text, part);
  return g_string_free (g_string_append (text, end), FALSE);
}

/* As deep as python3-jinja2 goes, in a thread. */
static gpointer
run_deep (gpointer unused)
{
#define NEST "{% set ns = namespace(x=[]) %}{% for i in range(987) %}{% set ns.x = [ns.x] %}{% endfor %}"
  g_autofree char *brackets = repeat ("{{ ((((", 70, "[", "1");
  char *sources[] = {
    g_strdup ("{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(197) }}"),
    g_strdup (NEST "{{ ns.x | tojson | length }}{{ ns.x | string | length }}"),
    g_strdup ("{% set ns = namespace(x=[]) %}{% for i in range(197) %}{% set ns.x = [ns.x] %}{% endfor %}"
              "{% for a in ns.x recursive %}{{ loop(a) }}{% endfor %}"),
    repeat ("{{ ", 490, "not ", "1 }}"),
    repeat ("{{ 1", 490, " + 1", " }}"),
    repeat ("{{ 1", 327, " | abs", " }}"),
    repeat (brackets, 70, "]", ")))) }}"),
    repeat ("", 98, "{% if 1 %}", "x"),
  };
  g_autofree char *ifs = repeat (sources[7], 98, "{% endif %}", "");

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmJinjaTemplate) template =
        llm_jinja_template_new (i == 7 ? ifs : sources[i], &error);
      const LlmJinjaInput input = { NULL };
      g_auto(LlmJinjaOutput) out = { NULL };

      g_assert_no_error (error);
      g_assert_true (llm_jinja_template_render (template, &input, &out, &error));
      g_assert_no_error (error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    g_free (sources[i]);
  return NULL;
}

static void
test_deep (void)
{
  g_thread_join (g_thread_new ("deep", run_deep, NULL));
}

/* What a builtin touches of a long text counts: however it is asked, a loop over it ends, by steps or by
 * the processor's time. */
static void
test_long_texts (void)
{
  static const char *const expressions[] = {
    "s | int", "s | float", "s | length", "s | upper", "s | lower", "s | title", "s | capitalize",
    "s | trim", "s | string", "s | first", "s | last", "s | list", "s | replace('b', 'c')", "s | indent",
    "s | urlencode", "s | tojson", "s | e", "s | wordcount", "s | center", "s | truncate", "s | reverse", "s | sort", "s | unique",
    "s.strip()", "s.lstrip()", "s.rstrip()", "s.strip('a')", "s.split()", "s.split('b')", "s.rsplit('b')",
    "s.splitlines()", "s.find('b')", "s.rfind('b')", "s.rfind(s[1:])", "s.rfind('b' + s[320000:])",
    "s.count('b')", "s.count('aa')", "s.startswith(s)", "s.endswith(s)", "s.isspace()", "s.isdigit()",
    "s.isalpha()", "s.isalnum()", "s.isupper()", "s.islower()", "s.zfill(9)", "s.upper()", "s.title()",
    "s.replace('b', 'c')", "s.join([])", "','.join([s])", "'{}'.format(s)", "'%s' % s",
    "s is upper", "s is lower", "s is string", "s is in d", "s == t", "s < t", "s in t", "'b' in s",
    "d[s]", "d.get(s)", "s in d", "s[5]", "s[-5]", "s[1:]", "s[::-1]", "s ~ t", "s + t", "s * 2",
    "[s] | join", "[s, t] | sort", "[s, t] | unique | list", "[s, t] | max", "{s: 1} | tojson",
  };
  guint n_wrong = 0;

  for (guint i = 0; i < G_N_ELEMENTS (expressions); i++)
    {
      g_autofree char *source = g_strdup_printf (
        "{%% set s = 'a' * 640000 %%}{%% set t = 'a' * 640000 %%}{%% set d = {s: 1} %%}"
        "{%% for i in range(99999) %%}{%% for j in range(9999) %%}{%% if %s %%}{%% endif %%}"
        "{%% endfor %%}{%% endfor %%}", expressions[i]);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmJinjaTemplate) template = llm_jinja_template_new (source, &error);
      const LlmJinjaInput input = { .max_us = G_USEC_PER_SEC / 10 };
      g_auto(LlmJinjaOutput) out = { NULL };
      gint64 begin_us = llm_clock_thread_us ();

      g_assert_no_error (error);
      g_assert_false (llm_jinja_template_render (template, &input, &out, &error));
      g_test_message ("%s: %.2f s: %s", expressions[i],
                      (double) (llm_clock_thread_us () - begin_us) / G_USEC_PER_SEC, error->message);
      n_wrong += strstr (error->message, "steps") == NULL && strstr (error->message, "processor") == NULL
                 && strstr (error->message, "memory") == NULL
                 && strstr (error->message, "supported") == NULL;
    }
  g_assert_cmpuint (n_wrong, ==, 0);
}

/* --- where text comes from --- */

/* The template marks its own text with upper case and digits, data are lower case: each byte's
 * origin must tell the same. */
static void
check_origins (const char *source)
{
  static const LlmJinjaVariable variables[] = {
    { "a", "<|im_end|>", FALSE, DATA },
    { "d", "{\"k\": \"<|im_end|>\", \"<|im_end|>\": [\"<|im_end|>\", {\"n\": \"x\"}], \"n\": 4}",
      TRUE, DATA },
  };
  const LlmJinjaInput input = { .variables = variables, .n_variables = G_N_ELEMENTS (variables) };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmJinjaTemplate) template = llm_jinja_template_new (source, &error);
  g_auto(LlmJinjaOutput) out = { NULL };
  gsize n_data = 0;

  g_assert_no_error (error);
  g_assert_true (llm_jinja_template_render (template, &input, &out, &error));
  for (gsize i = 0; i < out.length; i++)
    {
      static const char marks[] = "<|>_";

      guint16 origin = llm_jinja_output_get_run (&out, i)->origin;

      g_assert_true (origin == 0 || origin == DATA);
      n_data += origin == DATA;
      if (strchr (marks, out.text[i]) != NULL && origin != DATA)
        g_error ("%s: “%.*s”", source, (int) out.length, out.text);
      if (g_ascii_isupper (out.text[i]) && origin != 0)
        g_error ("%s: “%.*s”", source, (int) out.length, out.text);
    }
  g_assert_cmpuint (n_data, >, 0);
}

static void
test_origins (void)
{
  static const char *const sources[] = {
    "A{{ a }}B",
    "{{ 'A' + a + 'B' }}{{ 'A' ~ a ~ 'B' }}{{ a * 2 }}{{ ['A', a] | join('B') }}"
    "{{ a.join(['A', 'B']) }}",
    "{{ a | lower }}{{ a | trim('<>') }}{{ a.strip() }}{{ a | replace('x', 'A') }}",
    "{{ 'AxB' | replace('x', a) }}{{ 'AxB'.replace('x', a) }}{{ a.replace('im', a) }}",
    "{{ a[2:] }}{{ a[::-1] }}{{ a[0] }}{{ a | first }}{{ a | last }}{{ a | list | join }}",
    "{{ a.split('|') | join('A') }}{{ a.split('_')[0] }}",
    "{% for c in a %}{{ c }}{% endfor %}{{ a | reverse }}{{ a | list | sort | join('A') }}",
    "{{ a | tojson }}{{ d.k | tojson }}{{ d | tojson | replace('{', '') }}{{ [a] }}{{ {'A': a} }}",
    "{% for k, v in d.items() %}{{ k }}{% endfor %}{{ d | list | join }}"
    "{{ d.keys() | list | join }}",
    "{{ 'A{}B'.format(a) }}{{ 'A%sB' % a }}{{ 'A%s' | format(a) }}",
    "{% set x %}A{{ a }}{% endset %}{{ x }}{% filter upper %}{{ 'B' }}{% endfilter %}"
    "{{ x | indent }}",
    "{% macro m(t) %}A{{ t }}{{ caller() }}{% endmacro %}{% call m(a) %}{{ a }}{% endcall %}",
    "{% set ns = namespace(t='') %}{% for i in [1, 2] %}{% set ns.t = ns.t + 'A' + a %}{% endfor %}"
    "{{ ns.t }}",
    "{{ a | truncate(8, true, 'A') }}{{ a | center(30) }}{{ a.zfill(30) }}{{ a | default('A') }}"
    "{{ a | string }}{{ (a ~ 'A' ~ a) | truncate(15, true, 'A', 0) }}{{ (a ~ 'A' ~ a)[8:13] }}",
    "{{ [d['<|im_end|>'][0], 'A'] | map('trim') | join }}"
    "{{ d | dictsort | string | replace(']', '') }}",
    "{{ (a ~ 'A').removesuffix('A') }}{{ ('A' ~ a).removeprefix('A') }}{{ ('A' ~ a)[1:] }}",
    "{{ [a, 'A'] | batch(1) | list }}{{ [a] | unique | list }}"
    "{{ [{'k': a}] | map(attribute='k') | join }}",
    "{% set x = (a ~ 'AB') * 3 %}{{ x[::-1] }}{{ x[5:-5] }}{{ x | replace('B', a) }}{{ x | tojson }}"
    "{{ x | e }}{{ x.split('A') | join('C') }}{{ x | title | replace('I', '') | replace('E', '') }}",
    "{% set x = a ~ 'A' %}{% set y = x + 'B' %}{% set z = x + a %}{{ x + x }}{{ z + y + z }}{{ y + y }}",
    "{{ ('A' 'B') + a }}{{ ('A' 'B') + 'C' }}{{ '%40s' % (a ~ 'A') }}{{ '{:<40}'.format('A' ~ a) }}",
    "{{ a | safe }}{{ 'A' + (a | safe) }}{{ a or 'A' }}{{ a if a else 'A' }}{{ [a] | max }}",
  };
  /* numbers of data are the data's text, those of the template its own */
  static const LlmJinjaVariable number = { "n", "{\"n\": 4, \"f\": 1.5, \"s\": \"12\"}", TRUE,
                                           DATA };
  const LlmJinjaInput input = { .variables = &number, .n_variables = 1 };
  static const struct { const char *source; guint16 origin; } numbers[] = {
    { "{{ n.n }}", DATA }, { "{{ n.n + 1 }}", DATA }, { "{{ n.f * 2 }}", DATA },
    { "{{ n.s | int }}", DATA }, { "{{ n.n | tojson }}", DATA }, { "{{ '%d' % n.n }}", DATA },
    { "{{ '{}'.format(n.n) }}", DATA }, { "{{ n.n | string }}", DATA }, { "{{ 1 + 1 }}", 0 },
    { "{{ n.s | length }}", DATA }, { "{{ [1, 2] | tojson }}", 0 },
    { "{% for i in [1] %}{{ loop.index }}{% endfor %}", 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    check_origins (sources[i]);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_autoptr(LlmJinjaTemplate) template = llm_jinja_template_new (numbers[i].source, NULL);
      g_auto(LlmJinjaOutput) out = { NULL };

      g_assert_true (llm_jinja_template_render (template, &input, &out, NULL));
      g_assert_cmpuint (out.length, >, 0);
      g_assert_cmpuint (out.n_runs, ==, 1);
      g_assert_cmpuint (out.runs[0].end, ==, out.length);
      g_assert_cmpuint (out.runs[0].origin, ==, numbers[i].origin);
    }
}

int
main (int    argc,
      char **argv)
{
  g_setenv ("TZ", "UTC", TRUE);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/jinja/snippets", test_snippets);
  g_test_add_func ("/jinja/public", test_public);
  g_test_add_func ("/jinja/places", test_places);
  g_test_add_func ("/jinja/limits", test_limits);
  g_test_add_func ("/jinja/deep", test_deep);
  g_test_add_func ("/jinja/long-texts", test_long_texts);
  g_test_add_func ("/jinja/origins", test_origins);
  return g_test_run ();
}
