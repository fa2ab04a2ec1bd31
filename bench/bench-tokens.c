/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For the benchmarks in Python: what a model file says of itself as one line of JSON, then the
 * tokens of each line of the standard input.
 */

#include "bench.h"

#include <stdio.h>

#include "model/llm-model.h"

/* As many tokens as one call may name in logit-bias. */
#define MAX_ENDS 1024

static void
print_model (LlmModel *model)
{
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (model);
  guint n = 0;

  printf ("{\"context\":%u,\"eos\":%d,\"ends\":[", llm_model_get_hparams (model)->n_ctx,
          tokenizer->eos);
  for (guint id = 0; id < tokenizer->n_tokens && n < MAX_ENDS; id++)
    if (llm_tokenizer_ends_answer (tokenizer, (gint32) id))
      printf ("%s%u", n++ > 0 ? "," : "", id);
  printf ("]}\n");
}

static void
print_tokens (LlmTokenizer *tokenizer,
              const char   *text,
              gsize         length)
{
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  const LlmTextPart part = { text, length, FALSE };

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, ids);
  printf ("[");
  for (guint i = 0; i < ids->len; i++)
    printf ("%s%d", i > 0 ? "," : "", g_array_index (ids, gint32, i));
  printf ("]\n");
}

int
bench_tokens (int    argc,
              char **argv)
{
  g_autoptr(LlmModel) model = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *line = NULL;
  size_t size = 0;
  ssize_t length;

  model = argc == 2 ? llm_model_open (argv[1], &error) : NULL;
  if (model == NULL)
    {
      g_printerr ("llmsvc-bench: %s\n", error != NULL ? error->message : "tokens needs a model");
      return error != NULL ? 1 : 2;
    }
  print_model (model);
  fflush (stdout);
  while ((length = getline (&line, &size, stdin)) > 0)
    {
      print_tokens (llm_model_get_tokenizer (model), line,
                    (gsize) length - (line[length - 1] == '\n' ? 1 : 0));
      fflush (stdout);
    }
  return 0;
}
