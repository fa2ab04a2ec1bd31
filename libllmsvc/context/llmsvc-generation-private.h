/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How generations are made. The context's thread. */

#pragma once

#include "context/llmsvc-reader.h"
#include "llmsvc-generation.h"

G_BEGIN_DECLS

struct _LlmsvcGeneration
{
  GObject parent_instance;

  LlmsvcReader *reader;  /* (owned) */
  GInputStream *stream;  /* (nullable) (owned) */
};

LlmsvcGeneration *llmsvc_generation_new (LlmsvcReader *reader);

G_END_DECLS
