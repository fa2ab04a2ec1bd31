/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One answer as a stream of plain UTF-8 text. Any thread, one at a time. */

#pragma once

#include "context/llmsvc-reader.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_TEXT_STREAM (llmsvc_text_stream_get_type ())
G_DECLARE_FINAL_TYPE (LlmsvcTextStream, llmsvc_text_stream, LLMSVC, TEXT_STREAM, GInputStream)

GInputStream *llmsvc_text_stream_new (LlmsvcReader *reader);

G_END_DECLS
