#!/usr/bin/env python3
"""Makes tests/golden/bundle/: a tiny BERT as TensorFlow itself saves it.

Run it with tensorflow installed: hack/gen-golden-bundle.py
The names are those of google-research/bert's checkpoints, optimizer state included. Elements are
the same function of the full name as in gen-golden-pretrained.py, of the name and the layout that
we use: kernels lie transposed here.
"""
import json
import os
import shutil

import numpy as np
import tensorflow as tf

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "bundle")
V, C, F, P = 11, 4, 8, 6
CONFIG = {"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
          "hidden_size": C, "initializer_range": 0.02, "intermediate_size": F,
          "max_position_embeddings": P, "num_attention_heads": 2, "num_hidden_layers": 1,
          "type_vocab_size": 2, "vocab_size": V}


def fill(name, *shape):
    start = sum(name.encode())
    values = [((start + 7 * i) % 255 - 127) / 64 for i in range(int(np.prod(shape)))]
    return np.array(values, dtype=np.float32).reshape(shape)


def tensors():
    out = {}

    def put(path, name, *shape):
        out[path] = fill(name, *shape)

    def dense(path, name, to, of):
        out[path + "/kernel"] = fill(name + ".weight", to, of).T
        put(path + "/bias", name + ".bias", to)

    def norm(path, name):
        put(path + "/LayerNorm/gamma", name + ".LayerNorm.weight", C)
        put(path + "/LayerNorm/beta", name + ".LayerNorm.bias", C)

    for what, n in (("word", V), ("position", P), ("token_type", 2)):
        put(f"bert/embeddings/{what}_embeddings", f"bert.embeddings.{what}_embeddings.weight", n, C)
    norm("bert/embeddings", "bert.embeddings")
    path, name = "bert/encoder/layer_0", "bert.encoder.layer.0"
    for what in ("query", "key", "value"):
        dense(f"{path}/attention/self/{what}", f"{name}.attention.self.{what}", C, C)
    dense(f"{path}/attention/output/dense", f"{name}.attention.output.dense", C, C)
    norm(f"{path}/attention/output", f"{name}.attention.output")
    dense(f"{path}/intermediate/dense", f"{name}.intermediate.dense", F, C)
    dense(f"{path}/output/dense", f"{name}.output.dense", C, F)
    norm(f"{path}/output", f"{name}.output")
    dense("bert/pooler/dense", "bert.pooler.dense", C, C)
    dense("cls/predictions/transform/dense", "cls.predictions.transform.dense", C, C)
    norm("cls/predictions/transform", "cls.predictions.transform")
    put("cls/predictions/output_bias", "cls.predictions.bias", V)
    put("cls/seq_relationship/output_weights", "cls.seq_relationship.weight", 2, C)
    put("cls/seq_relationship/output_bias", "cls.seq_relationship.bias", 2)
    out["bert/pooler/dense/bias/adam_m"] = np.zeros(C, np.float32)
    out["bert/pooler/dense/bias/adam_v"] = np.zeros(C, np.float32)
    out["global_step"] = np.int64(1000)
    return out


def save(prefix, part):
    names = sorted(part)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(part[n]) for n in names])


def main():
    all_of_it = tensors()
    names = sorted(all_of_it)
    for folder, n_shards in (("one", 1), ("two", 2)):
        path = os.path.join(HERE, folder)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        prefixes = [os.path.join(path, f"part{i}") for i in range(n_shards)]
        for i, prefix in enumerate(prefixes):
            save(prefix, {n: all_of_it[n] for n in names[i::n_shards]})
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes,
                                      destination_prefix=os.path.join(path, "bert_model.ckpt"))
        with open(os.path.join(path, "bert_config.json"), "w", encoding="ascii") as f:
            json.dump(CONFIG, f, indent=2, sort_keys=True)
            f.write("\n")


if __name__ == "__main__":
    main()
