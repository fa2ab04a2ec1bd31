/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Into panels and out of them again. */

#include "kernels/llk-panel.h"

#include "kernels/llk-block.h"
#include "kernels/llk-run.h"

#define INLINE static inline __attribute__ ((always_inline))
#define N LLK_PANEL_OUTPUTS
#define VECTOR 64

/* Where the bytes of output @o are in vectors g = 0…3. */
static size_t
find_lane (size_t o)
{
  return o % 4 * VECTOR + o / 4 * 16;
}

/* Where the bits of output @o are in @n_words times 8 bytes for each vector g. */
static size_t
find_bits (size_t o,
           size_t n_words)
{
  return o % 4 * n_words * 8 + o / 4 * 2;
}

/* Sixteen bits: bit @bit of each of sixteen codes. */
static void
put_ones (const uint8_t *codes,
          unsigned       bit,
          uint8_t       *dst)
{
  for (size_t i = 0; i < 16; i++)
    dst[i / 8] |= (uint8_t) ((codes[i] >> bit & 1) << i % 8);
}

static void
get_ones (const uint8_t *src,
          unsigned       bit,
          uint8_t       *codes)
{
  for (size_t i = 0; i < 16; i++)
    codes[i] |= (uint8_t) ((src[i / 8] >> i % 8 & 1) << bit);
}

/* @n codes of sixteen neighbours each, @bits of each from bit @from on, side by side in
 * sixteen bytes. */
static void
put_bytes (const uint8_t *codes,
           unsigned       from,
           unsigned       bits,
           uint8_t       *dst)
{
  for (size_t c = 0; c < 8 / bits; c++)
    for (size_t i = 0; i < 16; i++)
      dst[i] |= (uint8_t) ((codes[16 * c + i] >> from & ((1u << bits) - 1)) << bits * c);
}

static void
get_bytes (const uint8_t *src,
           unsigned       from,
           unsigned       bits,
           uint8_t       *codes)
{
  for (size_t c = 0; c < 8 / bits; c++)
    for (size_t i = 0; i < 16; i++)
      codes[16 * c + i] |= (uint8_t) ((src[i] >> bits * c & ((1u << bits) - 1)) << from);
}

typedef void (*Bytes) (const uint8_t *from, unsigned first_bit, unsigned bits, uint8_t *to);
typedef void (*Ones) (const uint8_t *from, unsigned bit, uint8_t *to);

/* 64 codes of output @o: calls @bytes and @ones with what belongs together, the codes and
 * their place, in the order that @is_read says. */
INLINE void
for_each_part (unsigned  bits,
               uint8_t  *codes,
               uint8_t  *place,
               size_t    n,
               size_t    o,
               Bytes     bytes,
               Ones      ones,
               bool      is_read)
{
#define BYTES(code, first_bit, n_bits, at)                                                     \
  (is_read ? bytes (at, first_bit, n_bits, code) : bytes (code, first_bit, n_bits, at))
#define ONES(code, bit, at) (is_read ? ones (at, bit, code) : ones (code, bit, at))
  size_t half = 2 * 16 * bits * N / 8; /* bytes of 32 inputs */

  for (size_t j = 0; j < n / 32 && bits >= 4; j++)
    {
      uint8_t *block = place + j * (bits == 6 ? 4 * VECTOR : half);

      BYTES (codes + 32 * j, 0, 4, block + find_lane (o));
      if (bits == 5)
        for (size_t h = 0; h < 2; h++)
          ONES (codes + 32 * j + 16 * h, 4, block + 4 * VECTOR + 8 * h + find_bits (o, 2));
    }
  if (bits == 6)
    BYTES (codes, 4, 2, place + 8 * VECTOR + find_lane (o));
  if (bits <= 3)
    BYTES (codes, 0, 2, place + find_lane (o));
  for (size_t c = 0; c < 4 && bits == 3; c++)
    ONES (codes + 16 * c, 2, place + 4 * VECTOR + 8 * c + find_bits (o, 4));
#undef BYTES
#undef ONES
}

static void
put_codes (LlkPanelShape  shape,
           uint8_t       *codes,
           size_t         n,
           size_t         o,
           uint8_t       *dst)
{
  if (shape.bits == 8)
    for (size_t i = 0; i < n; i++)
      dst[i / 4 * VECTOR + 4 * o + i % 4] = codes[i];
  else
    for (size_t i = 0; i < n; i += 64)
      for_each_part (shape.bits, codes + i, dst + i * 2 * shape.bits, n - i < 64 ? n - i : 64, o,
                     put_bytes, put_ones, false);
}

static void
get_codes (LlkPanelShape  shape,
           const uint8_t *panel,
           size_t         n,
           size_t         o,
           uint8_t       *codes)
{
  uint8_t *src = (uint8_t *) (uintptr_t) panel; /* only read */

  if (shape.bits == 8)
    for (size_t i = 0; i < n; i++)
      codes[i] = src[i / 4 * VECTOR + 4 * o + i % 4];
  else
    for (size_t i = 0; i < n; i += 64)
      for_each_part (shape.bits, codes + i, src + i * 2 * shape.bits, n - i < 64 ? n - i : 64, o,
                     get_bytes, get_ones, true);
}

/* Of block @b and output @o. */
static size_t
find_byte (size_t b,
           size_t o)
{
  return b / 4 * 4 * N + 4 * o + b % 4;
}

static bool
has_half_scales (LlkType type)
{
  return type == LLK_Q2_K || type == LLK_Q4_K || type == LLK_Q5_K;
}

/* Inputs [@first, @first + @n) of a run into a panel's @dst, which begins with them. */
static void
put_run (LlkType       type,
         LlkPanelShape shape,
         LlkRun       *run,
         size_t        first,
         size_t        n,
         size_t        o,
         uint8_t      *dst)
{
  int8_t *r = (int8_t *) dst + shape.scales;
  uint8_t *m = dst + shape.scales + shape.multipliers;

  if (has_half_scales (type))
    {
      memcpy (dst + 2 * o, &run->half_scale, 2);
      memcpy (dst + 2 * N + 2 * o, &run->half_min, 2);
    }
  else
    memcpy (dst + 4 * o, &run->scale, 4);
  if (shape.scales == 128)
    memcpy (dst + 4 * N + 4 * o, &run->min_scale, 4);

  for (size_t b = 0; b * shape.block < n; b++)
    {
      size_t from = first / shape.block + b;

      r[find_byte (b, o)] = (int8_t) (type == LLK_Q2_K   ? run->r[from] | run->m[from] << 4
                                      : type == LLK_Q8_0 ? llk_run_byte (run->r[from])
                                                         : run->r[from]);
      if (shape.minima == 128)
        m[find_byte (b, o)] = (uint8_t) run->m[from];
      else if (shape.minima == 256)
        memcpy (m + 2 * llk_panel_find_minimum (b, o), &run->m[from], 2);
    }
  put_codes (shape, run->codes + first, n, o, dst + llk_panel_head_bytes (shape));
}

void
llk_panel_get_run (LlkType        type,
                   const uint8_t *src,
                   size_t         n,
                   size_t         o,
                   LlkRun        *run)
{
  LlkPanelShape shape = llk_panel_shape (type);
  const int8_t *r = (const int8_t *) src + shape.scales;
  const uint8_t *m = src + shape.scales + shape.multipliers;

  memset (run, 0, sizeof *run);
  if (has_half_scales (type))
    {
      run->scale = llk_float_of_half (llk_load_u16 (src + 2 * o)) * llk_run_factor (type);
      run->min_scale = -llk_float_of_half (llk_load_u16 (src + 2 * N + 2 * o));
    }
  else
    memcpy (&run->scale, src + 4 * o, 4);
  if (shape.scales == 128)
    memcpy (&run->min_scale, src + 4 * N + 4 * o, 4);

  for (size_t b = 0; b * shape.block < n; b++)
    {
      run->r[b] = r[find_byte (b, o)];
      if (type == LLK_Q8_0)
        run->r[b] = (uint8_t) run->r[b] == 255 ? 256 : (uint8_t) run->r[b];
      else if (type == LLK_Q2_K)
        {
          run->m[b] = (uint8_t) run->r[b] >> 4;
          run->r[b] &= 15;
        }
      else if (shape.minima == 128)
        run->m[b] = m[find_byte (b, o)];
      else if (shape.minima == 256)
        memcpy (&run->m[b], m + 2 * llk_panel_find_minimum (b, o), 2);
    }
  get_codes (shape, src + llk_panel_head_bytes (shape), n, o, run->codes);
}

/* The place of one value of a plain type. */
INLINE size_t
find_plain (LlkType type,
            size_t  input,
            size_t  output)
{
  switch (type)
    {
    case LLK_F32:
      return (input * N + output) * 4;
    case LLK_BF16:
      return (input / 2 * N + output) * 4 + input % 2 * 2;
    default:
      return (input * N + output) * 2;
    }
}

/* @n rows of a plain type of @bytes bytes. */
INLINE void
pack_plain (LlkType        type,
            size_t         bytes,
            const uint8_t *src,
            size_t         row_bytes,
            size_t         n_in,
            size_t         n,
            uint8_t       *panel)
{
  for (size_t i = 0; i < n_in; i++)
    for (size_t o = 0; o < n; o++)
      memcpy (panel + find_plain (type, i, o), src + o * row_bytes + i * bytes, bytes);
}

size_t
llk_panel_bytes (LlkType type,
                 size_t  in_first,
                 size_t  n)
{
  LlkPanelShape shape = llk_panel_shape (type);
  size_t bytes, n_runs;

  if (shape.bits == 0)
    {
      bytes = n * llk_type_block_bytes (type) * N;
      return (bytes + LLK_PANEL_ALIGNMENT - 1) / LLK_PANEL_ALIGNMENT * LLK_PANEL_ALIGNMENT;
    }

  n_runs = n > 0 ? (in_first + n - 1) / LLK_RUN - in_first / LLK_RUN + 1 : 0;
  return n_runs * llk_panel_head_bytes (shape) + n * 2 * shape.bits;
}

void
llk_panel_pack (LlkType     type,
                const void *rows,
                size_t      row_bytes,
                size_t      n_in,
                size_t      n_out,
                size_t      first,
                size_t      in_first,
                size_t      n,
                void       *panel)
{
  LlkPanelShape shape = llk_panel_shape (type);
  size_t n_outputs = first + N <= n_out ? N : n_out - first;
  size_t block_bytes = llk_type_block_bytes (type);
  size_t block = llk_type_block_size (type);
  const uint8_t *src = (const uint8_t *) rows + first * row_bytes;
  uint8_t *dst = panel;
  LlkRun run;

  memset (panel, 0, llk_panel_bytes (type, in_first, n));
  if (shape.bits == 0)
    {
      src += in_first * block_bytes;
      if (type == LLK_F32)
        pack_plain (LLK_F32, 4, src, row_bytes, n, n_outputs, panel);
      else if (type == LLK_F16)
        pack_plain (LLK_F16, 2, src, row_bytes, n, n_outputs, panel);
      else
        pack_plain (LLK_BF16, 2, src, row_bytes, n, n_outputs, panel);
      return;
    }

  for (size_t i = in_first; i < in_first + n;)
    {
      size_t at = i / LLK_RUN * LLK_RUN;
      size_t whole = n_in - at < LLK_RUN ? n_in - at : LLK_RUN;
      size_t end = at + whole < in_first + n ? at + whole : in_first + n;

      for (size_t o = 0; o < n_outputs; o++)
        {
          llk_run_read (type, src + o * row_bytes + at / block * block_bytes, whole, &run);
          put_run (type, shape, &run, i - at, end - i, o, dst);
        }
      dst += llk_panel_run_bytes (shape, end - i);
      i = end;
    }
}

static void
unpack_run (LlkType        type,
            LlkPanelShape  shape,
            const LlkRun  *run,
            size_t         n,
            float         *dst)
{
  const int16_t *base = llk_run_base (type);

  for (size_t i = 0; i < n; i++)
    dst[i] = run->scale
             * (float) llk_run_weight (type, base[run->codes[i]], run->r[i / shape.block]);
  if (llk_run_has_minima (type))
    for (size_t i = 0; i < n; i++)
      dst[i] += run->min_scale * (float) run->m[i / shape.block];
}

void
llk_panel_unpack (LlkType     type,
                  const void *panel,
                  size_t      in_first,
                  size_t      n,
                  size_t      output,
                  float      *dst)
{
  LlkPanelShape shape = llk_panel_shape (type);
  const uint8_t *src = panel;
  LlkRun run;

  for (size_t i = 0; shape.bits == 0 && i < n; i++)
    {
      const uint8_t *value = src + find_plain (type, i, output);

      if (type == LLK_F32)
        memcpy (dst + i, value, sizeof *dst);
      else
        dst[i] = type == LLK_F16 ? llk_float_of_half (llk_load_u16 (value))
                                 : llk_float_of_bf16 (llk_load_u16 (value));
    }
  for (size_t i = in_first; shape.bits != 0 && i < in_first + n;)
    {
      size_t at = i / LLK_RUN * LLK_RUN;
      size_t end = at + LLK_RUN < in_first + n ? at + LLK_RUN : in_first + n;

      llk_panel_get_run (type, src, end - i, output, &run);
      unpack_run (type, shape, &run, end - i, dst + (i - in_first));
      src += llk_panel_run_bytes (shape, end - i);
      i = end;
    }
}
