#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny llama model with seeded random weights: it says nothing of sense, but llama.cpp loads it,
tokenizes with it and decodes with it as with any other model."""
import sys

import gguf
import numpy as np

EMBED, LAYERS, HEADS, FEED_FORWARD, CONTEXT = 64, 2, 4, 128, 2048


def vocabulary():
    """SentencePiece-style: three special pieces, every byte, printable characters, a few words."""
    tokens = [b"<unk>", b"<s>", b"</s>"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    for byte in range(256):
        tokens.append(b"<0x%02X>" % byte)
        kinds.append(gguf.TokenType.BYTE)
    pieces = ["\u2581"] + [chr(c) for c in range(33, 127)]
    pieces += ["\u2581the", "\u2581a", "th", "he", "in", "an", "er", "on"]
    for piece in pieces:
        tokens.append(piece.encode())
        kinds.append(gguf.TokenType.NORMAL)
    scores = [0.0 if k != gguf.TokenType.NORMAL else -float(i) for i, k in enumerate(kinds)]
    return tokens, scores, kinds


def main(path):
    tokens, scores, kinds = vocabulary()
    rng = np.random.default_rng(20240229)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("tiny random llama")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(EMBED)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FEED_FORWARD)
    w.add_head_count(HEADS)
    w.add_head_count_kv(HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(EMBED // HEADS)
    w.add_vocab_size(len(tokens))
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)

    def weights(rows, cols):
        return (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)

    w.add_tensor("token_embd.weight", weights(len(tokens), EMBED))
    w.add_tensor("output_norm.weight", np.ones(EMBED, dtype=np.float32))
    output = weights(len(tokens), EMBED)
    output[2] = -output[1]  # the end token has no weight of its own that training would give it
    w.add_tensor("output.weight", output)
    for i in range(LAYERS):
        p = f"blk.{i}."
        w.add_tensor(p + "attn_norm.weight", np.ones(EMBED, dtype=np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            w.add_tensor(p + name + ".weight", weights(EMBED, EMBED))
        w.add_tensor(p + "ffn_norm.weight", np.ones(EMBED, dtype=np.float32))
        w.add_tensor(p + "ffn_gate.weight", weights(FEED_FORWARD, EMBED))
        w.add_tensor(p + "ffn_up.weight", weights(FEED_FORWARD, EMBED))
        w.add_tensor(p + "ffn_down.weight", weights(EMBED, FEED_FORWARD))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main(sys.argv[1])
