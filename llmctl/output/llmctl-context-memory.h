/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the service keeps a context, drawn for people: bytes by bits and place, and a map
 * with one character a chunk. A program of another version may have sent it: what is not
 * known is shown as such. Main thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

void llmctl_context_memory_print (LlmsvcContextMemory *memory);

G_END_DECLS
