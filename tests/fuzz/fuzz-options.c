/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A dictionary of options for any call: the first byte chooses the call, the
 * second whether the rest is the bytes of an a{sv} or the text of one. A parsed
 * value must be in its option's range and of its type.
 */

#include <gio/gio.h>
#include <stddef.h>
#include <stdint.h>

#include "common/llm-call-options.h"

#define N_CALLS       21
#define MAX_TEXT_SIZE 4096

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static GVariant *
read_dict (const uint8_t *data,
           size_t         size,
           gboolean       is_text)
{
  g_autoptr(GBytes) bytes = NULL;

  /* The parser of GVariant's text form is not under test. */
  if (is_text && (size > MAX_TEXT_SIZE || !g_utf8_validate_len ((const char *) data, size, NULL)))
    return NULL;
  if (is_text)
    return g_variant_parse (G_VARIANT_TYPE_VARDICT, (const char *) data,
                            (const char *) data + size, NULL, NULL);

  bytes = g_bytes_new (data, size);
  return g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE_VARDICT, bytes, FALSE));
}

static void
check_value (const LlmCallOptions   *options,
             const LlmsvcOptionInfo *info)
{
  GVariant *value = llm_call_options_get_variant (options, info->id);
  double number;

  if (value == NULL)
    return;
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE (info->type)))
    g_error ("Option “%s” has another type than the table says", info->key);

  switch (info->type[0])
    {
    case 'u':
    case 't':
      number = (double) llm_call_options_get_uint (options, info->id, 0);
      break;
    case 'd':
      number = llm_call_options_get_double (options, info->id, 0);
      break;
    default:
      return;
    }
  if (!(number >= info->min && number <= info->max))
    g_error ("Option “%s” is out of its range", info->key);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  static const char *const features[] = { "json-schema", "sub-models", NULL };
  g_autoptr(GVariant) dict = NULL;
  g_autoptr(LlmCallOptions) options = NULL;
  g_autoptr(GError) error = NULL;

  if (size < 2)
    return 0;

  dict = read_dict (data + 2, size - 2, (data[1] & 1) != 0);
  if (dict == NULL)
    return 0;

  options = llm_call_options_parse (dict, (LlmsvcCall) (1 << (data[0] % N_CALLS)),
                                    (data[1] & 2) != 0 ? features : NULL, &error);
  if ((options == NULL) != (error != NULL))
    g_error ("Neither options nor an error, or both");
  if (options == NULL)
    return 0;

  for (int id = 0; id < LLMSVC_N_OPTIONS; id++)
    check_value (options, llmsvc_option_get_info ((LlmsvcOption) id));

  return 0;
}
