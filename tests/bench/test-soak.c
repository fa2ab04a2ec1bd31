/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A soak of half a minute: no turn is lost, all kinds of calls are made, and the service ends with
 * what it had in the middle. How long anything takes, no test knows. */

#include <string.h>

#include <json-glib/json-glib.h>

#include "bench/bench-rig.h"

static char *
find_model (void)
{
  return g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
}

static JsonObject *
parse (const BenchRigRun  *run,
       JsonNode          **root)
{
  g_autoptr(GError) error = NULL;

  *root = json_from_string (run->out, &error);
  if (error != NULL)
    g_test_message ("%s", run->err);
  g_assert_no_error (error);
  g_assert_true (JSON_NODE_HOLDS_OBJECT (*root));
  return json_node_get_object (*root);
}

static double
get_late (JsonObject *object,
          const char *held)
{
  JsonObject *at_rest = json_object_get_object_member (object, "at-rest");

  return json_object_get_double_member (json_object_get_object_member (at_rest, held),
                                        "last-quarter");
}

static void
test_quick (void)
{
  g_autofree char *model = find_model ();
  g_auto(BenchRigRun) run = bench_rig_run ("soak", "--daemon", g_getenv ("LLM_DAEMON"), "--model",
                                           model, "--quick", "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);
  JsonArray *complaints = json_object_get_array_member (object, "complaints");
  JsonObject *calls = json_object_get_object_member (object, "calls");

  for (guint i = 0; i < json_array_get_length (complaints); i++)
    g_test_message ("%s", json_array_get_string_element (complaints, i));
  g_assert_cmpfloat (json_object_get_double_member (object, "wrong"), ==, 0);
  g_assert_cmpfloat (json_object_get_double_member (object, "turns"), >, 0);
  g_assert_cmpfloat (json_object_get_double_member (calls, "Generate, read to the end"), >, 0);
  /* half of the contexts have names and outlive the service */
  g_assert_cmpfloat (json_object_get_double_member (object, "compared-at-end"), ==, 32);
  g_assert_cmpfloat (json_object_get_double_member (object, "compared-after-kill"), ==, 16);
  g_assert_cmpfloat (json_object_get_double_member (object, "compared-after-end"), ==, 16);
  /* nobody else is left at rest: these, and the one that asks */
  g_assert_cmpfloat (get_late (object, "contexts"), ==, 33);
  g_assert_cmpfloat (get_late (object, "calls"), ==, 0);
}

static void
test_hostile (void)
{
  g_autofree char *model = find_model ();
  g_auto(BenchRigRun) run = bench_rig_run ("soak", "--daemon", g_getenv ("LLM_DAEMON"), "--model",
                                           model, "--quick", "--hostile", "garbage", "--hostile",
                                           "connections", "--json", NULL);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object = parse (&run, &root);

  /* the steady caller had its answers beside both */
  g_assert_true (json_object_has_member (object, "garbage: first token, beside it"));
  g_assert_true (json_object_has_member (object, "connections: first token, beside it"));
}

static void
test_bad_input (void)
{
  g_autofree char *model = find_model ();
  g_auto(BenchRigRun) none = bench_rig_run ("soak", "--model", model, NULL);
  g_auto(BenchRigRun) kind = bench_rig_run ("soak", "--daemon", g_getenv ("LLM_DAEMON"), "--model",
                                            model, "--hostile", "rudeness", NULL);

  g_assert_cmpint (none.status, ==, 2);
  g_assert_nonnull (strstr (none.err, "--daemon"));
  g_assert_cmpint (kind.status, ==, 1);
  g_assert_nonnull (strstr (kind.err, "rudeness"));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/soak/quick", test_quick);
  g_test_add_func ("/soak/hostile", test_hostile);
  g_test_add_func ("/soak/bad-input", test_bad_input);
  return g_test_run ();
}
