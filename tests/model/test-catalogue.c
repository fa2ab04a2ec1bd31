/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "model/llm-catalogue.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

typedef struct
{
  char *root;
  char *first;
  char *second;
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->root = llm_test_folder_new ();
  fixture->first = g_build_filename (fixture->root, "first", NULL);
  fixture->second = g_build_filename (fixture->root, "second", NULL);
  g_assert_cmpint (g_mkdir (fixture->first, 0700), ==, 0);
  g_assert_cmpint (g_mkdir (fixture->second, 0700), ==, 0);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_test_folder_remove (fixture->root);
  g_free (fixture->root);
  g_free (fixture->first);
  g_free (fixture->second);
}

static void
write_model (const char *folder,
             const char *name,
             const char *title)
{
  const LlmTestModel model = { .name = title, .n_layers = 1, .n_ctx = 99, .type = LLK_Q8_0 };
  g_autofree char *path = g_build_filename (folder, name, NULL);

  llm_test_model_write (&model, path);
}

static void
write_text (const char *folder,
            const char *name,
            const char *text)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
test_demo (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(LlmModelInfo) info = llm_model_info_read (path, FALSE);
  g_autoptr(LlmModelInfo) other = NULL;
  GStatBuf status;

  g_assert_no_error (info->error);
  g_assert_cmpstr (info->id, ==, "llmsvc-demo-8M-Q8_0");
  g_assert_cmpstr (info->title, ==, "llmsvc-demo-8M");
  g_assert_cmpstr (info->path, ==, path);
  g_assert_cmpstr (info->architecture, ==, "llama");
  g_assert_cmpstr (info->quantization, ==, "Q8_0");
  g_assert_cmpstr (info->license, ==, "cc-by-sa-4.0");
  g_assert_cmpuint (info->parameters, ==, 7868672);
  g_assert_cmpint (g_stat (path, &status), ==, 0);
  g_assert_cmpuint (info->file_bytes, ==, (guint64) status.st_size);
  g_assert_cmpuint (info->context_length, ==, 1024);
  g_assert_cmpuint (info->warnings->len, ==, 0);
  other = llm_model_info_ref (info);
  g_assert_true (other == info);
}

static void
test_scan (Fixture       *fixture,
           gconstpointer  data)
{
  g_autofree char *missing = g_build_filename (fixture->root, "missing", NULL);
  g_autofree char *sub = g_build_filename (fixture->first, "sub.gguf", NULL);
  g_autofree char *file = g_build_filename (fixture->root, "own.gguf", NULL);
  g_autofree char *pipe_path = g_build_filename (fixture->second, "pipe.gguf", NULL);
  const char *const folders[] = { fixture->first, missing, fixture->second, NULL };
  const struct
  {
    const char *id;
    const char *title;
    int code;   /* -1: fine */
  } expected[] = {
    { "own", "Own", -1 },
    { "a", "A", -1 },
    { "b", "B", -1 },
    { "part", "part", LLMSVC_ERROR_INVALID_MODEL },
    { "broken", "broken", LLMSVC_ERROR_INVALID_MODEL },
    { "dangling", "dangling", LLMSVC_ERROR_NOT_FOUND },
    { "pipe", "pipe", LLMSVC_ERROR_INVALID_MODEL },
    { "z", "Z", -1 },
  };
  g_autofree char *dangling = g_build_filename (fixture->second, "dangling.gguf", NULL);
  g_autoptr(GPtrArray) found = NULL;

  write_model (fixture->root, "own.gguf", "Own");
  write_model (fixture->first, "b.gguf", "B");
  write_model (fixture->first, "a.gguf", "A");
  write_model (fixture->first, "c.bin", "C");
  write_model (fixture->first, ".hidden.gguf", "Hidden");
  write_text (fixture->first, "part-00001-of-00003.gguf", "GGUF");
  write_text (fixture->first, "part-00002-of-00003.gguf", "GGUF");
  g_assert_cmpint (g_mkdir (sub, 0700), ==, 0);
  write_model (sub, "deep.gguf", "Deep");
  write_model (fixture->second, "z.gguf", "Z");
  write_model (fixture->second, "b.gguf", "Another B");
  write_model (fixture->second, "own.gguf", "Another own");
  write_text (fixture->second, "broken.gguf", "not a model");
  g_assert_cmpint (mkfifo (pipe_path, 0600), ==, 0);
  g_assert_cmpint (symlink ("nowhere", dangling), ==, 0);

  found = llm_catalogue_scan (folders, file, FALSE, NULL);
  g_assert_cmpuint (found->len, ==, G_N_ELEMENTS (expected));
  for (guint i = 0; i < found->len; i++)
    {
      const LlmModelInfo *info = g_ptr_array_index (found, i);

      g_assert_cmpstr (info->id, ==, expected[i].id);
      g_assert_cmpstr (info->title, ==, expected[i].title);
      if (expected[i].code >= 0)
        {
          g_assert_error (info->error, LLMSVC_ERROR, expected[i].code);
          g_assert_nonnull (strstr (info->error->message, info->path));
        }
      else
        {
          g_assert_no_error (info->error);
          g_assert_cmpuint (info->context_length, ==, 99);
          g_assert_cmpstr (info->quantization, ==, "Q8_0");
        }
    }
}

/* How to ask a model without a template is said at once. */
static void
test_without_template (Fixture       *fixture,
                       gconstpointer  data)
{
  static const char key[] = "tokenizer.chat_template";
  g_autofree char *path = g_build_filename (fixture->root, "plain.gguf", NULL);
  g_autofree char *contents = NULL;
  g_autoptr(LlmModelInfo) info = NULL;
  gsize length;
  char *found;

  write_model (fixture->root, "plain.gguf", "Plain");
  g_assert_true (g_file_get_contents (path, &contents, &length, NULL));
  found = memmem (contents, length, key, strlen (key));
  g_assert_nonnull (found);
  *found = 'x';
  g_assert_true (g_file_set_contents (path, contents, (gssize) length, NULL));

  info = llm_model_info_read (path, FALSE);
  g_assert_no_error (info->error);
  g_assert_cmpuint (info->warnings->len, ==, 1);
  g_assert_nonnull (strstr (((GError *) info->warnings->pdata[0])->message, "(raw)"));
}

static void
test_nothing (Fixture       *fixture,
              gconstpointer  data)
{
  const char *const folders[] = { fixture->first, NULL };
  g_autofree char *file = g_build_filename (fixture->root, "gone.gguf", NULL);
  g_autoptr(GPtrArray) none = llm_catalogue_scan (folders, NULL, FALSE, NULL);
  g_autoptr(GPtrArray) nowhere = llm_catalogue_scan (NULL, NULL, FALSE, NULL);
  g_autoptr(GPtrArray) gone = llm_catalogue_scan (folders, file, FALSE, NULL);

  g_assert_cmpuint (none->len, ==, 0);
  g_assert_cmpuint (nowhere->len, ==, 0);
  g_assert_cmpuint (gone->len, ==, 1);
  g_assert_error (((LlmModelInfo *) g_ptr_array_index (gone, 0))->error, LLMSVC_ERROR,
                  LLMSVC_ERROR_NOT_FOUND);
}

/* Names that are not UTF-8, and titles that are not for people. */
static void
test_strange_names (Fixture       *fixture,
                    gconstpointer  data)
{
  const char *const folders[] = { fixture->first, NULL };
  g_autoptr(GPtrArray) found = NULL;
  g_autoptr(GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree char *long_title = g_strnfill (5000, 't');

  write_model (fixture->first, "x\xff.gguf", "line\nline\x1b[2J");
  write_model (fixture->first, "x\xfe.gguf", long_title);
  write_text (fixture->first, "x\xfd.gguf", "GGUX");
  found = llm_catalogue_scan (folders, NULL, FALSE, NULL);

  g_assert_cmpuint (found->len, ==, 3);
  for (guint i = 0; i < found->len; i++)
    {
      const LlmModelInfo *info = g_ptr_array_index (found, i);

      if (i == 0)
        g_assert_true (g_utf8_validate (info->error->message, -1, NULL));
      else
        g_assert_no_error (info->error);
      g_assert_true (g_utf8_validate (info->id, -1, NULL));
      g_assert_true (g_hash_table_add (ids, info->id));
      g_assert_cmpuint (strlen (info->title), <=, 256);
      g_assert_null (strpbrk (info->title, "\n\x1b"));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/catalogue/demo", test_demo);
  g_test_add ("/catalogue/scan", Fixture, NULL, set_up, test_scan, tear_down);
  g_test_add ("/catalogue/nothing", Fixture, NULL, set_up, test_nothing, tear_down);
  g_test_add ("/catalogue/without-template", Fixture, NULL, set_up, test_without_template, tear_down);
  g_test_add ("/catalogue/strange-names", Fixture, NULL, set_up, test_strange_names, tear_down);
  return g_test_run ();
}
