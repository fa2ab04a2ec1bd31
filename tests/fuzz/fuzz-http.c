/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bodies of requests to the endpoint: of each kind, as the first byte says. Whatever they are, they are
 * read or refused. */

#include <glib.h>

#include "http-dialect.h"
#include "http-error.h"

int
LLVMFuzzerTestOneInput (const guint8 *data,
                        gsize         size)
{
  static const HttpDialect *const all[] = { &http_chat, &http_responses, &http_completions };
  g_autoptr(GError) error = NULL;
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(HttpRequest) request = NULL;

  if (size == 0)
    return 0;
  root = http_request_parse ((const char *) data + 1, size - 1, &error);
  if (root != NULL)
    request = all[data[0] % G_N_ELEMENTS (all)]->read (json_node_get_object (root), &error);
  if (request == NULL)
    {
      g_autofree char *json = http_error_to_json (error);

      g_assert_cmpuint (http_error_get_status (error), ==, 400);
      g_assert_nonnull (json);
    }
  else
    g_assert_true (request->prompt != NULL || request->messages->len > 0);
  return 0;
}
