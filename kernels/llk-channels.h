/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights by channel: what lies in a panel run after run (llk-panel.h), taken apart, so that the
 * weights of single inputs can be read from storage (ActiveFlow, A3). The heads of a panel's runs,
 * scales and multipliers, stay together; the codes of one input, sixteen outputs after the other,
 * are its channel. Put together again, a panel holds what it held for every input that is there: a
 * product with a row that is zero at all others has the bits of the whole panel's.
 *
 * Of sixteen outputs, a channel has
 *
 *   4 bits  8 bytes: byte j has output j in its low and output 8 + j in its high half
 *   8 bits  16 bytes: byte o is output o
 */

#pragma once

#include "kernels/llk-panel.h"

/* An input that is not there. */
#define LLK_NO_CHANNEL UINT32_MAX

/* Whether there is this layout for @type. */
bool   llk_channels_have       (LlkType type);
/* Bytes that sixteen outputs have of one input. */
size_t llk_channel_bytes       (LlkType type);
/* Bytes of the heads of a panel of the inputs [@in_first, @in_first + @n), as llk_panel_bytes(). */
size_t llk_channels_head_bytes (LlkType type, size_t in_first, size_t n);

/* Takes a panel of these inputs apart. @heads, @codes: (nullable): what is not wanted. @codes: those
 * of the first input; the others are @stride bytes apart. */
void   llk_channels_split      (LlkType type, const void *panel, size_t in_first, size_t n, void *heads,
                                uint8_t *codes, size_t stride);
/* Puts it together in @panel. @codes_at: [n]: where in @codes each input's are, or LLK_NO_CHANNEL;
 * codes of those are set to anything. */
void   llk_channels_gather     (LlkType type, const void *heads, size_t in_first, size_t n,
                                const uint8_t *codes, const uint32_t *codes_at, void *panel);
