"""peft: adapters on a toy GPT-2, trained and merged."""

from common import fill, say, torch, train
from peft import IA3Config, LoraConfig, PrefixTuningConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

ids = (torch.arange(14).reshape(2, 7) * 5) % 32


def base():
    return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=32, n_embd=16, n_layer=2, n_head=2)).eval()


for name, config in (
    ("lora", LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)),
    (
        "ia3",
        IA3Config(
            target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True
        ),
    ),
    ("prefix", PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")),
):
    model = fill(get_peft_model(base(), config)).eval()
    say(
        name,
        [model(input_ids=ids, labels=ids).loss, torch.tensor(float(model.get_nb_trainable_parameters()[0]))],
    )
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    train(
        model,
        lambda model=model: model(input_ids=ids, labels=ids).loss,
        2,
        torch.optim.AdamW(trained, lr=0.01),
    )
    if name != "prefix":
        say(f"{name}.merged", model.merge_and_unload()(input_ids=ids).logits)
