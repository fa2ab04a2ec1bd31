/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One question, one answer, without a main loop.
 *
 *   cc ask.c -o ask $(pkg-config --cflags --libs llmsvc-1)
 *   ./ask "Find me a comedy movie."
 */

#include <llmsvc.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

int
main (int    argc,
      char **argv)
{
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(LlmsvcOptions) options = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  setlocale (LC_ALL, "");

  client = llmsvc_client_new_sync (G_BUS_TYPE_NONE, NULL, NULL, &error);
  if (client != NULL)
    {
      options = g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 64, "temperature", 0.0, NULL);
      answer = llmsvc_client_complete_sync (client, argc > 1 ? argv[1] : "Hello!", options, NULL,
                                            &error);
    }
  if (answer == NULL)
    {
      fprintf (stderr, "%s\n", error->message);
      return EXIT_FAILURE;
    }

  puts (llmsvc_answer_get_text (answer));
  return EXIT_SUCCESS;
}
