/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A file of translations and errors said in its language, which must come out in UTF-8. */

#include <stddef.h>
#include <stdint.h>

#include "base/llm-translation.h"
#include "common/llmsvc-error-private.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autoptr(GError) key = llmsvc_error_new (LLMSVC_ERROR_FAILED, NULL, "key %s", "“x”");
  g_autoptr(GError) other = g_error_new_literal (G_IO_ERROR, G_IO_ERROR_FAILED, "No model");
  g_autoptr(GError) all = llmsvc_error_new (LLMSVC_ERROR_FAILED, key, "%s: %s is %u of %g [%c] %%",
                                            "No model", key->message, 7u, 0.5, 'c');
  const GError *errors[] = { key, other, all };
  g_autoptr(GBytes) bytes = g_bytes_new (data, size);
  g_autoptr(LlmTranslation) translation = llm_translation_new (bytes);

  for (guint i = 0; translation != NULL && i < G_N_ELEMENTS (errors); i++)
    {
      g_autofree char *found = llm_translation_apply (translation, errors[i]);

      if (!g_utf8_validate (found, -1, NULL))
        g_error ("A translation is not in UTF-8");
    }
  return 0;
}
