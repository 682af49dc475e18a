"""transformers: five models of toy size, trained and generating."""

from common import fill, say, torch, train, wave
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)  # fmt: skip

ids = (torch.arange(14).reshape(2, 7) * 5) % 32
small = {"vocab_size": 32, "attn_implementation": "eager"}
gpt = GPT2LMHeadModel(GPT2Config(n_positions=32, n_embd=16, n_layer=2, n_head=2, **small))
bert = BertForMaskedLM(
    BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, **small)
)
llama = LlamaForCausalLM(
    LlamaConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=32,
        **small,
    )
)
t5 = T5ForConditionalGeneration(
    T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
)
for name, model in (("gpt2", gpt), ("bert", bert), ("llama", llama), ("t5", t5)):
    fill(model).eval()
    out = model(input_ids=ids, labels=ids)
    say(name, [out.loss, out.logits])
    train(model, lambda model=model: model(input_ids=ids, labels=ids).loss, steps=2)
    if name != "bert":
        say(
            f"{name}.generated", model.generate(ids[:, :3], max_new_tokens=5, do_sample=False, pad_token_id=0)
        )
        say(
            f"{name}.beams",
            model.generate(ids[:, :3], max_new_tokens=4, num_beams=2, do_sample=False, pad_token_id=0),
        )
llama = LlamaForCausalLM(
    LlamaConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=32,
        vocab_size=32,
        attn_implementation="sdpa",
    )
)
fill(llama).eval()
say("sdpa", llama(input_ids=ids, attention_mask=(torch.arange(7) < 5).long().expand(2, 7)).logits[:, :5])
vit = ViTForImageClassification(
    ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=4,
    )
)
fill(vit).eval()
images = wave(2, 3, 8, 8)
train(vit, lambda: vit(images, labels=torch.tensor([0, 1])).loss, steps=2)
