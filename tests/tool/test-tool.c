/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The command-line forms of llmsvc-tool that scripts rely on. */

#include <string.h>

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "common/llmsvc-option-table.h"
#include "common/llmsvc-statistics.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

typedef struct
{
  int status;
  char *out;
  char *err;
} Run;

static void
run_clear (Run *run)
{
  g_free (run->out);
  g_free (run->err);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static char *model;

/* Runs the tool with the given arguments, NULL-terminated. */
static Run
run_tool (const char *first,
          ...)
{
  g_autoptr(GPtrArray) argv = g_ptr_array_new ();
  g_autoptr(GError) error = NULL;
  Run run = { 0 };
  va_list arguments;

  g_ptr_array_add (argv, (char *) g_getenv ("LLM_TOOL"));
  va_start (arguments, first);
  for (const char *argument = first; argument != NULL; argument = va_arg (arguments, const char *))
    g_ptr_array_add (argv, (char *) argument);
  va_end (arguments);
  g_ptr_array_add (argv, NULL);

  g_spawn_sync (NULL, (char **) argv->pdata, NULL, G_SPAWN_DEFAULT, NULL, NULL, &run.out, &run.err,
                &run.status, &error);
  g_assert_no_error (error);
  g_assert_true (WIFEXITED (run.status));
  run.status = WEXITSTATUS (run.status);
  return run;
}

static void
test_generate (void)
{
  g_auto(Run) first =
    run_tool ("generate", "--model", model, "--raw", "--temperature", "0", "--max-tokens", "12",
              "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n", NULL);
  g_auto(Run) again = run_tool ("generate", "--model", model, "--temperature", "0", "--max-tokens",
                                 "12", "Hello!", NULL);

  g_assert_cmpint (first.status, ==, 0);
  g_assert_cmpstr (first.err, ==, "");
  g_assert_cmpuint (strlen (first.out), >, 2);
  /* The template says the same as the raw prompt; only the first space differs. */
  g_assert_cmpint (again.status, ==, 0);
  g_assert_cmpstr (g_strchug (first.out), ==, again.out);
}

static void
test_generate_json (void)
{
  g_auto(Run) run = run_tool ("generate", "--model", model, "--json", "--option", "max-tokens=3",
                              "--temperature", "0", "Find me a comedy movie.", NULL);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (run.out, "\"output-tokens\":3"));
  g_assert_nonnull (strstr (run.out, "\"finish-reason\":\"length\""));
  g_assert_nonnull (strstr (run.out, "\"text\":\""));
}

/* Guesses change no byte; results tell of them. */
static void
test_generate_draft (void)
{
  const char *const prompt = "Red, green, blue. Red, green, blue. Red, green, blue. Red, green,";
  g_auto(Run) plain = run_tool ("generate", "--model", model, "--raw", "--temperature", "0.8",
                                "--seed", "5", "--max-tokens", "60", "--draft", "off", prompt,
                                NULL);
  g_auto(Run) drafted = run_tool ("generate", "--model", model, "--raw", "--temperature", "0.8",
                                  "--seed", "5", "--max-tokens", "60", "--draft", "lookup", prompt,
                                  NULL);
  g_autofree char *small = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models",
                                             "llmsvc-demo-draft-1M-F16.gguf", NULL);
  g_auto(Run) guessed = run_tool ("generate", "--model", model, "--raw", "--temperature", "0.8",
                                  "--seed", "5", "--max-tokens", "60", "--draft", small, prompt,
                                  NULL);
  g_auto(Run) json = run_tool ("generate", "--model", model, "--raw", "--json", "--max-tokens", "9",
                               "--draft=lookup", prompt, NULL);

  g_assert_cmpint (plain.status, ==, 0);
  g_assert_cmpint (drafted.status, ==, 0);
  g_assert_cmpstr (drafted.out, ==, plain.out);
  g_assert_nonnull (strstr (json.out, "\"drafted-tokens\":"));
  g_assert_nonnull (strstr (json.out, "\"accepted-tokens\":"));
  g_assert_nonnull (strstr (json.out, "\"passes\":"));
  g_assert_cmpint (guessed.status, ==, 0);
  g_assert_cmpstr (guessed.out, ==, plain.out);
}

/* With the weights as the file has them, the answer is much the same. */
static void
test_generate_exact (void)
{
  g_auto(Run) run = run_tool ("generate", "--model", model, "--exact", "--temperature", "0",
                              "--max-tokens", "12", "Hello!", NULL);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpuint (strlen (run.out), >, 2);
}

/* The file is made once, and named each time. */
static void
test_prepare (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_auto(Run) first = run_tool ("prepare", "--output-dir", folder, model, NULL);
  g_auto(Run) again = run_tool ("prepare", "--output-dir", folder, "--threads", "1", model, NULL);
  g_auto(Run) wrong = run_tool ("prepare", "--output-dir", folder, "/dev/null", model, NULL);
  g_auto(Run) below_file = run_tool ("prepare", "--output-dir", model, model, NULL);
  g_auto(Run) none = run_tool ("prepare", "--output-dir", folder, NULL);
  g_auto(Run) negative = run_tool ("prepare", "--threads", "-1", model, NULL);
  g_autofree char *path = g_strchomp (g_strdup (first.out));

  g_assert_cmpint (first.status, ==, 0);
  g_assert_cmpstr (first.err, ==, "");
  g_assert_true (g_str_has_prefix (path, folder));
  g_assert_true (g_file_test (path, G_FILE_TEST_IS_REGULAR));
  g_assert_cmpint (again.status, ==, 0);
  g_assert_cmpstr (again.out, ==, first.out);

  /* One that can't be prepared does not keep the others from it. */
  g_assert_cmpint (wrong.status, ==, 1);
  g_assert_cmpstr (wrong.out, ==, first.out);
  g_assert_nonnull (strstr (wrong.err, "/dev/null"));
  g_assert_cmpint (below_file.status, ==, 1);
  g_assert_nonnull (strstr (below_file.err, model));
  g_assert_cmpint (none.status, ==, 2);
  g_assert_cmpint (negative.status, ==, 2);
  llm_test_folder_remove (folder);
}

/* What it prints is what it keeps. */
static void
test_profile (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_auto(Run) json = run_tool ("profile", "--model", model, "--output-dir", folder, "--json", NULL);
  g_auto(Run) text = run_tool ("profile", "--model", model, "-o", folder, NULL);
  g_auto(Run) wrong = run_tool ("profile", "--model", "/dev/null", "-o", folder, NULL);
  g_auto(Run) below_file = run_tool ("profile", "--model", model, "-o", model, NULL);
  g_auto(Run) more = run_tool ("profile", "--model", model, "-o", folder, "more", NULL);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name = g_dir_read_name (dir);

  g_assert_cmpint (json.status, ==, 0);
  g_assert_cmpstr (json.err, ==, "");
  g_assert_nonnull (strstr (json.out, "\"prompt-us\":{\"1\":"));
  g_assert_nonnull (strstr (json.out, "\"read-bytes-per-us\":"));
  g_assert_cmpint (text.status, ==, 0);
  g_assert_nonnull (strstr (text.out, folder));
  g_assert_true (g_str_has_prefix (name, "profile-") && g_str_has_suffix (name, ".ini"));
  g_assert_null (g_dir_read_name (dir));
  g_assert_cmpint (wrong.status, ==, 1);
  g_assert_nonnull (strstr (wrong.err, "/dev/null"));
  g_assert_cmpint (below_file.status, ==, 1);
  g_assert_nonnull (strstr (below_file.err, model));
  g_assert_cmpint (more.status, ==, 2);
  llm_test_folder_remove (folder);
}

/* A model that fits into its budget reads nothing; one that can't work in it says what it needs. */
static void
test_profile_budget (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_auto(Run) json = run_tool ("profile", "--model", model, "-o", folder, "--budget", "100", "--json", NULL);
  g_auto(Run) text =
    run_tool ("profile", "--model", model, "-o", folder, "--budget", "100", "--token-ms", "60000", NULL);
  g_auto(Run) late =
    run_tool ("profile", "--model", model, "-o", folder, "--budget", "11", "--token-ms", "1", NULL);
  g_auto(Run) small = run_tool ("profile", "--model", model, "-o", folder, "--budget", "1", NULL);
  g_auto(Run) alone = run_tool ("profile", "--model", model, "-o", folder, "--token-ms", "1", NULL);
  g_auto(Run) negative = run_tool ("profile", "--model", model, "-o", folder, "--budget=-1", NULL);

  g_assert_cmpint (json.status, ==, 0);
  g_assert_cmpstr (json.err, ==, "");
  g_assert_nonnull (strstr (json.out, "\"read-bytes\":0"));
  g_assert_nonnull (strstr (json.out, "\"fits\":-1"));
  g_assert_cmpint (text.status, ==, 0);
  g_assert_nonnull (strstr (text.out, "At most 60000 ms a token: active=0"));
  g_assert_nonnull (strstr (text.out, "llmsvc-active finds them"));
  /* what streams of it is too little to tell how fast the disk is */
  g_assert_cmpint (late.status, ==, 1);
  g_assert_nonnull (strstr (late.err, "so small"));
  g_assert_cmpint (small.status, ==, 1);
  g_assert_nonnull (strstr (small.err, "MiB of memory at the least"));
  g_assert_cmpint (alone.status, ==, 2);
  g_assert_cmpint (negative.status, ==, 2);
  llm_test_folder_remove (folder);
}

static void
test_tokenize (void)
{
  g_auto(Run) json = run_tool ("tokenize", "--model", model, "--json", "Hello world", NULL);
  g_auto(Run) special =
    run_tool ("tokenize", "--model", model, "--json", "--no-bos", "<|im_end|>", NULL);
  g_auto(Run) plain = run_tool ("tokenize", "--model", model, "--json", "--no-bos", "--no-special",
                                "<|im_end|>", NULL);

  g_assert_cmpint (json.status, ==, 0);
  g_assert_cmpstr (json.out, ==,
                   "{\"version\":1,\"ids\":[1,3924,4012,1585],"
                   "\"pieces\":[\"<s>\",\" Hell\",\"o\",\" world\"]}\n");
  g_assert_cmpstr (special.out, ==, "{\"version\":1,\"ids\":[4],\"pieces\":[\"<|im_end|>\"]}\n");
  g_assert_null (strstr (plain.out, "[4]"));
}

static void
test_perplexity (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "text", NULL);
  g_autoptr(GString) text = g_string_new (NULL);
  g_auto(Run) none = { 0 };
  g_auto(Run) run = { 0 };
  const char *last;

  for (guint i = 0; i < 40; i++)
    g_string_append (text, "I want a restaurant in San Jose. ");
  g_assert_true (g_file_set_contents (path, text->str, text->len, NULL));
  run = run_tool ("perplexity", "--model", model, "--ctx", "64", path, NULL);
  g_assert_cmpint (run.status, ==, 0);
  last = strstr (run.out, "\nperplexity: ");
  g_assert_nonnull (last);
  /* It is the last line. */
  g_assert_true (strchr (last + 1, '\n')[1] == '\0');
  g_assert_cmpfloat (g_ascii_strtod (last + strlen ("\nperplexity: "), NULL), >, 1);
  g_assert_cmpfloat (g_ascii_strtod (last + strlen ("\nperplexity: "), NULL), <, 20);

  none = run_tool ("perplexity", "--model", model, "--ctx", "512", "/dev/null", NULL);
  g_assert_cmpint (none.status, ==, 1);
  llm_test_folder_remove (folder);
}

/* An adapter of the model's first query, or of another architecture's. */
static void
write_adapter (const char *path,
               const char *architecture)
{
  static const guint64 a_dims[] = { 64, 1 }, b_dims[] = { 1, 64 };
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  float values[64];

  for (guint i = 0; i < 64; i++)
    values[i] = i % 3 == 0 ? 0.5f : -0.25f;
  llm_test_gguf_add_string (gguf, "general.architecture", architecture);
  llm_test_gguf_add_string (gguf, "general.type", "adapter");
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, 2);
  llm_test_gguf_add_tensor (gguf, "blk.0.attn_q.weight.lora_a", LLK_F32, 2, a_dims, values);
  llm_test_gguf_add_tensor (gguf, "blk.0.attn_q.weight.lora_b", LLK_F32, 2, b_dims, values);
  bytes = llm_test_gguf_end (gguf);
  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL),
                                      (gssize) g_bytes_get_size (bytes), NULL));
}

static void
test_adapter (void)
{
  const LlmTestModel shape = { .seed = 1 };
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *small = g_build_filename (folder, "model.gguf", NULL);
  g_autofree char *adapter = g_build_filename (folder, "adapter.gguf", NULL);
  g_autofree char *other = g_build_filename (folder, "other.gguf", NULL);
  g_autofree char *path = g_build_filename (folder, "text", NULL);
  g_auto(Run) plain = { 0 };
  g_auto(Run) adapted = { 0 };
  g_auto(Run) wrong = { 0 };

  g_assert_true (g_file_set_contents (path, "hello world, I hear the cat is in town", -1, NULL));
  llm_test_model_write (&shape, small);
  write_adapter (adapter, "llama");
  write_adapter (other, "qwen3");
  plain = run_tool ("perplexity", "--model", small, "--ctx", "8", path, NULL);
  adapted = run_tool ("perplexity", "--model", small, "--lora", adapter, "--ctx", "8", path, NULL);
  wrong = run_tool ("perplexity", "--model", small, "--lora", other, "--ctx", "8", path, NULL);
  g_assert_cmpint (plain.status, ==, 0);
  g_assert_cmpint (adapted.status, ==, 0);
  g_assert_nonnull (strstr (plain.out, "\nnll: "));
  g_assert_nonnull (strstr (adapted.out, "\nnll: "));
  g_assert_cmpstr (strstr (plain.out, "\nnll: "), !=, strstr (adapted.out, "\nnll: "));
  g_assert_cmpint (wrong.status, ==, 1);
  g_assert_nonnull (strstr (wrong.err, "general.architecture"));
  llm_test_folder_remove (folder);
}

/* What is remembered is packed between calls: it matters, and little. */
static void
test_packed (void)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "golden", "heldout_sgd_chatml.txt", NULL);
  /* computed in floats, products don't round otherwise once something changed */
  static const struct { const char *bits, *exact; } ways[] = {
    { "8", NULL }, { "2", NULL }, { "8", "--exact" },
  };
  double divergences[G_N_ELEMENTS (ways)];

  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_auto(Run) run = run_tool ("divergence", "--model", model, "--tokens", "256", "--text",
                                  path, "--kv-bits", ways[i].bits, ways[i].exact, NULL);
      const char *mean = strstr (run.out, "\nmean divergence: ");

      g_assert_cmpstr (run.err, ==, "");
      g_assert_cmpint (run.status, ==, 0);
      g_assert_true (g_str_has_prefix (run.out, "compared: 32\n"));
      g_assert_nonnull (mean);
      g_assert_nonnull (strstr (mean, "\nsame top: "));
      divergences[i] = g_ascii_strtod (mean + strlen ("\nmean divergence: "), NULL);
    }
  g_assert_cmpfloat (divergences[0], <, 0.001);
  g_assert_cmpfloat (divergences[1], >, divergences[0]);
  g_assert_cmpfloat (divergences[1], <, 0.3);
  g_assert_cmpfloat (divergences[2], >, 0);
  g_assert_cmpfloat (divergences[2], <, 0.5 * divergences[0]);
}

static double
get_figure (const char *text,
            const char *name)
{
  const char *at = strstr (text, name);

  g_assert_nonnull (at);
  return g_ascii_strtod (at + strlen (name), NULL);
}

/* What whole numbers lose against floats; of one operator less. */
static void
test_arithmetic (void)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "golden", "heldout_sgd_chatml.txt", NULL);
  g_auto(Run) run = run_tool ("divergence", "--model", model, "--tokens", "256", "--text", path,
                              "--windows", "2", "--arithmetic", "--by-operator", NULL);
  double exact, mean;

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (run.out, "\nscored: 254\n"));
  exact = get_figure (run.out, "\nperplexity in floats: ");
  g_assert_cmpfloat (exact, >, 1);
  g_assert_cmpfloat_with_epsilon (get_figure (run.out, "\nperplexity: "), exact, exact / 50);
  mean = get_figure (run.out, "\nmean divergence: ");
  g_assert_cmpfloat (mean, >, 0);
  g_assert_cmpfloat (mean, <, 0.01);
  g_assert_cmpfloat (get_figure (run.out, "\n99th percentile: "), >, mean);
  g_assert_cmpfloat (get_figure (run.out, "\nffn-down: mean divergence "), >, 0);
  g_assert_cmpfloat (get_figure (run.out, "\nffn-down: mean divergence "), <, mean);
  g_assert_cmpfloat (get_figure (run.out, "\nsame top: "), >, 90);
}

/* One task of each kind; what the model says is up to the model. */
static void
test_accuracy (void)
{
  static const char tasks[] =
    "{\"prompt\": \"<|im_start|>user\\nHello!<|im_end|>\\n<|im_start|>assistant\\n\", "
    "\"answer\": \"Hi\"}\n"
    "\n"
    "{\"prompt\": \"<|im_start|>system\\nYou are a helpful assistant. Today is 2019-03-01. "
    "You can call these functions:\\n"
    "# Movies_3\\nFindMovies(directed_by?, genre?, cast?)<|im_end|>\\n"
    "<|im_start|>user\\nI want to watch a movie that Ian Hendry is in.<|im_end|>\\n"
    "<|im_start|>assistant\\n\", "
    "\"answer\": \"<tool_call>{\\\"name\\\": \\\"FindMovies\\\", \\\"arguments\\\": "
    "{\\\"cast\\\": \\\"Ian Hendry\\\"}}</tool_call>\"}\n";
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "tasks", NULL);
  g_auto(Run) run = { 0 };
  g_auto(Run) wrong = { 0 };

  g_assert_true (g_file_set_contents (path, tasks, -1, NULL));
  run = run_tool ("accuracy", "--model", model, "--kv", "llms", path, NULL);
  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_str_has_prefix (run.out,
                                   "tasks: 2\ncalls: 1\nvalid calls: 1\nright functions: 1\n"));
  g_assert_nonnull (strstr (run.out, " of 1\nwrong calls: 0\n"));

  g_assert_true (g_file_set_contents (path, "{\"prompt\": 5, \"answer\": \"\"}", -1, NULL));
  wrong = run_tool ("accuracy", "--model", model, path, NULL);
  g_assert_cmpint (wrong.status, ==, 1);
  g_assert_nonnull (strstr (wrong.err, "Line 1"));
  llm_test_folder_remove (folder);
}

/* Answers leave weights out, and prompts do not: the first token is the whole model's, what follows is not. */
static void
test_sparse_answers (void)
{
  static const char *const prompts[] = {
    "Once upon a time", "The weather in Paris is", "I want to", "She said that the", "My favourite food is",
    "The train leaves",
  };
  static const struct
  {
    const char *n_tokens, *active, *expected;
  } cases[] = {
    { "1", "0", "exact answers: 6\n" }, { "1", "80", "exact answers: 6\n" },
    { "6", "0", "exact answers: 6\n" }, { "6", "80", "exact answers: 0\n" },
  };
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *own = g_build_filename (folder, "model.gguf", NULL);
  g_autofree char *companion = g_build_filename (folder, "model.llmsvc.gguf", NULL);
  g_autofree char *shipped = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "companion",
                                               "llmsvc-demo-8M-Q8_0.llmsvc.gguf", NULL);
  g_autofree char *path = g_build_filename (folder, "tasks", NULL);

  g_assert_cmpint (symlink (model, own), ==, 0);
  g_assert_cmpint (symlink (shipped, companion), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GString) tasks = g_string_new (NULL);
      g_auto(Run) scored = { 0 };

      for (guint j = 0; j < G_N_ELEMENTS (prompts); j++)
        {
          g_auto(Run) answer = run_tool ("generate", "--raw", "--model", model, "--temperature", "0", "--max-tokens",
                                         cases[i].n_tokens, prompts[j], NULL);
          g_autofree char *escaped = g_strescape (g_strstrip (answer.out), "");

          g_string_append_printf (tasks, "{\"prompt\": \"%s\", \"answer\": \"%s\"}\n", prompts[j], escaped);
        }
      g_assert_true (g_file_set_contents (path, tasks->str, -1, NULL));
      scored = run_tool ("accuracy", "--model", own, "--max-tokens", cases[i].n_tokens, "--active", cases[i].active,
                         path, NULL);
      g_assert_cmpstr (scored.err, ==, "");
      g_assert_true (g_str_has_suffix (scored.out, cases[i].expected));
    }
  llm_test_folder_remove (folder);
}

/* How good sparse answers are goes into the companion beside what sub-models are; the same each time. */
static void
test_sparse_quality (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *own = g_build_filename (folder, "model.gguf", NULL);
  g_autofree char *companion = g_build_filename (folder, "model.llmsvc.gguf", NULL);
  g_autofree char *shipped = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "companion",
                                               "llmsvc-demo-8M-Q8_0.llmsvc.gguf", NULL);
  g_autofree char *path = g_build_filename (folder, "tasks", NULL);
  g_autofree char *bytes[2] = { NULL };
  gsize sizes[2];
  g_auto(Run) shown = { 0 };

  g_assert_cmpint (symlink (model, own), ==, 0);
  g_assert_true (g_file_get_contents (shipped, &bytes[0], &sizes[0], NULL));
  g_assert_true (g_file_set_contents (companion, bytes[0], (gssize) sizes[0], NULL));
  g_assert_true (g_file_set_contents (path, "{\"prompt\": \"Once upon\", \"answer\": \" a time\"}\n", -1, NULL));
  for (guint i = 0; i < 2; i++)
    {
      g_auto(Run) measured = run_tool ("quality", "--model", own, "--windows", "1", "--max-tokens", "4", path, NULL);

      g_clear_pointer (&bytes[i], g_free);
      g_assert_cmpstr (measured.err, ==, "");
      g_assert_cmpint (measured.status, ==, 0);
      g_assert_nonnull (strstr (measured.out, "\nactive quality"));
      g_assert_true (g_file_get_contents (companion, &bytes[i], &sizes[i], NULL));
    }
  g_assert_cmpmem (bytes[0], sizes[0], bytes[1], sizes[1]);
  g_clear_pointer (&bytes[0], g_free);
  g_clear_pointer (&bytes[1], g_free);
  shown = run_tool ("inspect", own, NULL);
  g_assert_nonnull (strstr (shown.out, "down     quality\n"));
  g_assert_null (strstr (shown.out, "  –\n"));
  llm_test_folder_remove (folder);
}

/* The same each time; every other piece from where the template lets a user begin. */
static void
test_draw (void)
{
  g_auto(Run) first = run_tool ("draw", "--model", model, "--windows=2", "--tokens=24", NULL);
  g_auto(Run) again = run_tool ("draw", "--model", model, "--windows=2", "--tokens=24", NULL);
  g_auto(Run) ids = run_tool ("draw", "--model", model, "--windows=2", "--tokens=24", "--json", NULL);
  g_auto(GStrv) pieces = g_strsplit (first.out, "<s>", -1);
  g_autoptr(JsonNode) parsed = json_from_string (ids.out, NULL);

  g_assert_cmpint (first.status, ==, 0);
  g_assert_cmpstr (first.err, ==, "");
  g_assert_cmpstr (first.out, ==, again.out);
  g_assert_cmpuint (g_strv_length (pieces), >=, 3);
  g_assert_false (g_str_has_prefix (pieces[1], "<|im_start|>"));
  g_assert_true (g_str_has_prefix (pieces[2], "<|im_start|> user\n"));
  g_assert_nonnull (parsed);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (json_node_get_object (parsed), "ids")),
                    ==, 48);
}

static void
test_inspect (void)
{
  g_auto(Run) run = run_tool ("inspect", model, NULL);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_nonnull (strstr (run.out, "general.architecture"));
  g_assert_nonnull (strstr (run.out, "blk.7.ffn_down.weight"));
  g_assert_nonnull (strstr (run.out, "usable: yes, template with system"));
}

/* What “llmctl model check” shows. */
static void
test_inspect_names (void)
{
  g_auto(Run) run = run_tool ("inspect", "--names", NULL);
  g_auto(Run) json = run_tool ("inspect", "--names", "--json", NULL);
  g_auto(Run) both = run_tool ("inspect", "--names", model, NULL);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (g_regex_match_simple ("^architectures: .*\\bllama, .*\\bqwen3vl\\b", run.out, 0, 0));
  g_assert_true (g_regex_match_simple ("(?m)^pre-tokenizers: .*\\btekken\\b", run.out, 0, 0));
  g_assert_true (g_regex_match_simple ("(?m)^types: F32, .*\\bQ1_0$", run.out, 0, 0));
  g_assert_cmpint (json.status, ==, 0);
  g_assert_nonnull (strstr (json.out, "\"kimi-k2\""));
  g_assert_cmpint (both.status, ==, 2);
}

static void
test_inspect_summary (void)
{
  g_auto(Run) run = run_tool ("inspect", "--summary", model, NULL);
  g_auto(Run) json = run_tool ("inspect", "--json", model, NULL);
  g_autoptr(JsonParser) parser = json_parser_new ();
  g_autoptr(GError) error = NULL;
  JsonObject *object;

  g_assert_cmpint (run.status, ==, 0);
  g_assert_null (strstr (run.out, "blk.7.ffn_down.weight"));
  g_assert_nonnull (strstr (run.out, "quantization: Q8_0"));
  g_assert_nonnull (strstr (run.out, "usable: yes, template with system"));

  g_assert_cmpint (json.status, ==, 0);
  json_parser_load_from_data (parser, json.out, -1, &error);
  g_assert_no_error (error);
  object = json_node_get_object (json_parser_get_root (parser));
  g_assert_true (json_object_get_boolean_member (object, "usable"));
  g_assert_cmpstr (json_object_get_string_member (object, "template"), ==, "system");
  g_assert_cmpint (json_object_get_int_member (object, "weight-bytes"), >, 0);
  g_assert_cmpint (json_object_get_int_member (object, "weight-bytes"), <,
                   json_object_get_int_member (object, "file-bytes"));
  g_assert_cmpint (json_object_get_int_member (object, "token-bytes"), >, 0);
}

/* Docs are made from it: every option is there, with a name for each call that takes it. */
static void
test_options (void)
{
  g_auto(Run) run = run_tool ("options", "--json", NULL);
  g_auto(Run) list = run_tool ("options", NULL);
  g_autoptr(JsonParser) parser = json_parser_new ();
  g_autoptr(GError) error = NULL;
  JsonArray *options;

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpint (list.status, ==, 0);
  json_parser_load_from_data (parser, run.out, -1, &error);
  g_assert_no_error (error);
  options = json_object_get_array_member (json_node_get_object (json_parser_get_root (parser)),
                                          "options");
  g_assert_cmpuint (json_array_get_length (options), ==, LLMSVC_N_OPTIONS);

  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info (i);
      JsonObject *option = json_array_get_object_element (options, i);
      JsonArray *methods = json_object_get_array_member (option, "methods");

      g_assert_cmpstr (json_object_get_string_member (option, "key"), ==, info->key);
      g_assert_cmpstr (json_object_get_string_member (option, "type"), ==, info->type);
      g_assert_cmpuint (json_array_get_length (methods), ==,
                        (guint) __builtin_popcount (info->calls));
      g_assert_nonnull (strstr (list.out, info->summary));
    }
  g_assert_nonnull (strstr (list.out, "max-tokens (u)"));
  g_assert_nonnull (strstr (list.out, "1 to 16777216 tokens"));
}

static void
test_statistics (void)
{
  g_auto(Run) run = run_tool ("statistics", "--json", NULL);
  g_auto(Run) list = run_tool ("statistics", NULL);
  g_autoptr(JsonNode) root = json_from_string (run.out, NULL);
  JsonArray *statistics = json_object_get_array_member (json_node_get_object (root), "statistics");

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpint (list.status, ==, 0);
  g_assert_cmpuint (json_array_get_length (statistics), ==, LLMSVC_N_STATISTICS);
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    {
      const LlmsvcStatisticInfo *info = llmsvc_statistic_get_info (i);
      JsonObject *figure = json_array_get_object_element (statistics, i);

      g_assert_cmpstr (json_object_get_string_member (figure, "key"), ==, info->key);
      g_assert_cmpstr (json_object_get_string_member (figure, "help"), ==, info->help);
      g_assert_nonnull (strstr (list.out, info->help));
    }
  g_assert_nonnull (strstr (list.out, "stall-ms (counter, ms)"));
}

/* Every fault has its status and says what is wrong. */
static void
test_faults (void)
{
  const struct
  {
    const char *arguments[7];
    int status;
    const char *message;
  } faults[] = {
    { { NULL }, 2, "Usage" },
    { { "sing", NULL }, 2, "sing" },
    { { "generate", "Hello!", NULL }, 2, "--model" },
    { { "generate", "--model", "/nowhere.gguf", "Hello!", NULL }, 1, "/nowhere.gguf" },
    { { "generate", "--model", "/dev/null", "Hello!", NULL }, 1, "/dev/null" },
    { { "generate", "--loud", "Hello!", NULL }, 2, "--loud" },
    { { "generate", "--model", "MODEL", "--option=temperature=hot", "Hello!", NULL }, 2,
      "temperature" },
    { { "generate", "--model", "MODEL", "--option=top-p=7.0", "Hello!", NULL }, 2, "top-p" },
    { { "generate", "--model", "MODEL", "--draft=magic", "Hello!", NULL }, 1, "magic" },
    { { "generate", "--model", "MODEL", NULL }, 2, "PROMPT" },
    { { "generate", "--model", "MODEL", "\xff\xfe", NULL }, 2, "UTF-8" },
    { { "perplexity", "--model", "MODEL", "--ctx", "1", NULL }, 2, "" },
    { { "calibrate", "--model", "MODEL", "--windows=0", "/dev/null", NULL }, 2, "--windows" },
    { { "calibrate", "--model", "MODEL", "--scored=0", "/dev/null", NULL }, 2, "--scored" },
    { { "calibrate", "--model", "MODEL", "--divergence=0", "/dev/null", NULL }, 2, "--divergence" },
    { { "calibrate", "--model", "/nowhere.gguf", "/dev/null", NULL }, 1, "/nowhere.gguf" },
    { { "calibrate", "--model", "MODEL", "/nowhere", NULL }, 1, "/nowhere" },
    { { "calibrate", "--model", "MODEL", "/dev/null", NULL }, 1, "2048 are needed" },
    { { "quality", "--model", "MODEL", NULL }, 1, "no sub-models" },
    { { "quality", "--model", "MODEL", "--windows=0", NULL }, 2, "--windows" },
    { { "quality", "--model", "MODEL", "/nowhere", NULL }, 1, "/nowhere" },
    { { "quality", "--model", "/nowhere.gguf", NULL }, 1, "/nowhere.gguf" },
    { { "draw", NULL }, 2, "--model" },
    { { "draw", "--model", "MODEL", "--tokens=4", NULL }, 2, "--tokens" },
    { { "perplexity", "--model", "MODEL", "/nowhere", NULL }, 1, "/nowhere" },
    { { "perplexity", "--model", "MODEL", "--active=81", "text", NULL }, 2, "--active" },
    { { "perplexity", "--model", "MODEL", "--keep-smallest", "text", NULL }, 2, "--active" },
    { { "perplexity", "--model", "MODEL", "--active=50", "/dev/null", NULL }, 1,
      "no activation thresholds" },
    { { "perplexity", "--model", "MODEL", "--kv=best", "text", NULL }, 2, "--kv" },
    { { "divergence", "--model", "MODEL", "--kv-bits=5", NULL }, 2, "--kv-bits" },
    { { "divergence", "--model", "MODEL", "--tokens=100000", NULL }, 1, "--tokens" },
    { { "divergence", "--model", "MODEL", "--arithmetic", NULL }, 2, "--text" },
    { { "divergence", "--model", "MODEL", "--by-operator", NULL }, 2, "--arithmetic" },
    { { "divergence", "--model", "MODEL", "--arithmetic", "--text=/dev/null", NULL }, 1,
      "no window" },
    { { "divergence", "--model", "MODEL", "--whole", "--text=/dev/null", NULL }, 2, "--sub-model" },
    { { "divergence", "--model", "MODEL", "--active=50", NULL }, 2, "--whole" },
    { { "divergence", "--model", "MODEL", "--whole", "--active=50", "--text=/dev/null", NULL }, 1,
      "no activation thresholds" },
    { { "perplexity", "--model", "MODEL", "--lora=/nowhere", "/dev/null", NULL }, 1, "/nowhere" },
    { { "accuracy", "--model", "MODEL", "/nowhere", NULL }, 1, "/nowhere" },
    { { "tokenize", "text", NULL }, 2, "--model" },
    { { "inspect", "/nowhere.gguf", NULL }, 1, "/nowhere.gguf" },
    { { "inspect", NULL }, 2, "FILE" },
    { { "options", "max-tokens", NULL }, 2, "options" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      const char *arguments[7];
      g_auto(Run) run = { 0 };

      for (guint j = 0; j < G_N_ELEMENTS (arguments); j++)
        arguments[j] =
          g_strcmp0 (faults[i].arguments[j], "MODEL") == 0 ? model : faults[i].arguments[j];
      run = run_tool (arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                      arguments[5], arguments[6], NULL);
      g_test_message ("%s → %d: %s", arguments[0], run.status, run.err);
      g_assert_cmpint (run.status, ==, faults[i].status);
      g_assert_nonnull (strstr (run.err, faults[i].message));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  model = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_test_add_func ("/tool/generate", test_generate);
  g_test_add_func ("/tool/generate-json", test_generate_json);
  g_test_add_func ("/tool/generate-draft", test_generate_draft);
  g_test_add_func ("/tool/generate-exact", test_generate_exact);
  g_test_add_func ("/tool/prepare", test_prepare);
  g_test_add_func ("/tool/profile", test_profile);
  g_test_add_func ("/tool/profile-budget", test_profile_budget);
  g_test_add_func ("/tool/tokenize", test_tokenize);
  g_test_add_func ("/tool/perplexity", test_perplexity);
  g_test_add_func ("/tool/adapter", test_adapter);
  g_test_add_func ("/tool/packed", test_packed);
  g_test_add_func ("/tool/arithmetic", test_arithmetic);
  g_test_add_func ("/tool/accuracy", test_accuracy);
  g_test_add_func ("/tool/sparse-answers", test_sparse_answers);
  g_test_add_func ("/tool/sparse-quality", test_sparse_quality);
  g_test_add_func ("/tool/draw", test_draw);
  g_test_add_func ("/tool/inspect", test_inspect);
  g_test_add_func ("/tool/inspect/names", test_inspect_names);
  g_test_add_func ("/tool/inspect/summary", test_inspect_summary);
  g_test_add_func ("/tool/options", test_options);
  g_test_add_func ("/tool/statistics", test_statistics);
  g_test_add_func ("/tool/faults", test_faults);
  return g_test_run ();
}
