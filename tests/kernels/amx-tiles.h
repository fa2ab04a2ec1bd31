/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tile registers of AMX in software, so that kernels/x86/llk-amx*.c run on
 * processors that have AVX-512 only. Included by force before these files, which are
 * compiled a second time for the tests, as the set "amx-emulated"; no program that is
 * installed has it. Results are those of the instructions, bit by bit. What a processor
 * would refuse, and loads or stores of rows that overlap, end the program with a
 * message. Each thread has tiles of its own.
 */

#pragma once

#include <immintrin.h>
#include <stddef.h>

void amx_load_config  (const void *config);
void amx_release      (void);
void amx_zero         (size_t tile);
void amx_load         (size_t tile, const void *base, size_t stride);
void amx_store        (size_t tile, void *base, size_t stride);
void amx_dot_bytes    (size_t sums, size_t a, size_t b, int a_is_signed, int b_is_signed);
void amx_dot_bfloats  (size_t sums, size_t a, size_t b);

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbusd
#undef _tile_dpbuud
#undef _tile_dpbf16ps

#define _tile_loadconfig(config) amx_load_config (config)
#define _tile_release() amx_release ()
#define _tile_zero(tile) amx_zero (tile)
#define _tile_loadd(tile, base, stride) amx_load (tile, base, stride)
#define _tile_stream_loadd(tile, base, stride) amx_load (tile, base, stride)
#define _tile_stored(tile, base, stride) amx_store (tile, base, stride)
#define _tile_dpbssd(sums, a, b) amx_dot_bytes (sums, a, b, 1, 1)
#define _tile_dpbsud(sums, a, b) amx_dot_bytes (sums, a, b, 1, 0)
#define _tile_dpbusd(sums, a, b) amx_dot_bytes (sums, a, b, 0, 1)
#define _tile_dpbuud(sums, a, b) amx_dot_bytes (sums, a, b, 0, 0)
#define _tile_dpbf16ps(sums, a, b) amx_dot_bfloats (sums, a, b)

/* Every symbol that these files define, beside those of the set "amx". */
#define llk_amx_attention llk_amx_emulated_attention
#define llk_amx_bf16 llk_amx_emulated_bf16
#define llk_amx_int8 llk_amx_emulated_int8
#define llk_amx_product llk_amx_emulated_product
