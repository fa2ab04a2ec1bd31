#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes random adapters (LoRA) for models of ../architectures, with the keys and
names that llama.cpp's convert_lora_to_gguf.py writes; README.md says what their
logits are. The same script writes the same bytes everywhere.
"""

import importlib.util
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent


def load_models():
    path = HERE.parent / 'architectures' / 'make-models.py'
    spec = importlib.util.spec_from_file_location('models', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


M = load_models()
N_Q, N_KV = M.N_HEADS * M.HEAD_DIM, M.N_KV_HEADS * M.HEAD_DIM
# Inputs and outputs of what is adapted.
SHAPES = {
    'attn_q': (M.N_EMBD, N_Q),
    'attn_k': (M.N_EMBD, N_KV),
    'attn_v': (M.N_EMBD, N_KV),
    'attn_qkv': (M.N_EMBD, N_Q + 2 * N_KV),
    'attn_output': (N_Q, M.N_EMBD),
    'ffn_gate': (M.N_EMBD, M.N_FF),
    'ffn_up': (M.N_EMBD, M.N_FF),
    'ffn_down': (M.N_FF, M.N_EMBD),
}


def write(model, architecture, rank, alpha, tensors):
    gguf = M.Gguf(architecture)
    draw = random.Random('lora ' + model)

    def matrix(name, n_in, n_out):
        values = [round(256 * draw.uniform(-0.5, 0.5)) / 256 for _ in range(n_in * n_out)]
        gguf.tensor(name, [n_in, n_out], values)

    gguf.add('general.architecture', M.STRING, architecture)
    gguf.add('general.type', M.STRING, 'adapter')
    gguf.add('adapter.type', M.STRING, 'lora')
    gguf.add('adapter.lora.alpha', M.FLOAT32, alpha)
    gguf.add('general.license', M.STRING, 'cc0-1.0')
    for name, n_in, n_out in tensors:
        matrix(name + '.weight.lora_a', n_in, rank)
        matrix(name + '.weight.lora_b', rank, n_out)
    gguf.write(HERE / (model + '.gguf'))


def layer(index, names, double=()):
    return [(f'blk.{index}.{name}', SHAPES[name][0], SHAPES[name][1] * (2 if name in double else 1))
            for name in names]


EVERY = ('attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down')
FUSED = ('attn_qkv', 'attn_output', 'ffn_up', 'ffn_down')

write('llama-llama3', 'llama', 4, 2.0,
      layer(0, EVERY) + layer(1, ('attn_q', 'ffn_down')) + [('output', M.N_EMBD, M.N_VOCAB)])
write('phi3', 'phi3', 3, 4.0, layer(0, FUSED, ('ffn_up',)) + layer(1, FUSED, ('ffn_up',)))
# no alpha: 0 stands for a scale of 1
write('qwen3', 'qwen3', 2, 0.0, layer(0, EVERY) + layer(1, EVERY))
