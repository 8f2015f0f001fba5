"""Libraries on top of transformers' Trainer: `python -m ...fine_tuning NAME`.

Models are small and begin at random, the words are numbers: nothing is fetched.
"""

import sys
import tempfile
import warnings

import torch

from . import declare
from .kits.huggingface import clock, quiet_arguments
from .truth import Truth, same_each_time

_WORDS = 60


def _tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = {"[PAD]": 0, "[UNK]": 1, "[EOS]": 2}
    words = Tokenizer(
        models.WordLevel(special | {str(i): i + 3 for i in range(_WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
    )


def _text(index):
    return " ".join(str((index * 7 + place * place) % _WORDS) for place in range(5 + index % 11))


def _language_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(7)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    config = GPT2Config(vocab_size=_WORDS + 3, pad_token_id=0, eos_token_id=2, **sizes)
    return GPT2LMHeadModel(config)


def _clocked(kind, truth, rows=1):
    """The library's trainer, and a clock around its steps and epochs; a sample has so many rows."""

    class Clocked(kind):
        def __init__(self, *args, **named):
            super().__init__(*args, callbacks=[clock(truth)], **named)

        def training_step(self, model, inputs, *more):
            size = next(len(one) for one in inputs.values() if torch.is_tensor(one))
            loss = super().training_step(model, inputs, *more)
            truth.trained(size // rows, loss.item())
            return loss

    return Clocked


def peft_lora():
    """LoRA on a causal language model, trained by transformers' Trainer."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    truth, tokenizer = Truth(), _tokenizer()
    config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, target_modules=["c_attn"])
    net = get_peft_model(_language_model(), config)
    rows = [tokenizer(_text(index)) for index in range(300)]
    with quiet_arguments(TrainingArguments) as arguments:
        _clocked(Trainer, truth)(
            net,
            arguments,
            train_dataset=rows,
            data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        ).train()
    truth.tell()


def trl_sft():
    """Supervised fine-tuning on texts."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    truth = Truth()
    rows = Dataset.from_list([{"text": _text(index)} for index in range(300)])
    with quiet_arguments(SFTConfig, max_length=32) as arguments:
        trainer = _clocked(SFTTrainer, truth)(
            _language_model(), arguments, train_dataset=rows, processing_class=_tokenizer()
        )
        trainer.train()
    truth.tell()


def trl_dpo():
    """Preferences: a chosen and a rejected answer to each prompt."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    truth = Truth()
    rows = [
        {"prompt": _text(i), "chosen": " " + _text(i + 1), "rejected": " " + _text(i + 2)}
        for i in range(160)
    ]
    with quiet_arguments(DPOConfig, max_length=64) as arguments:
        trainer = _clocked(DPOTrainer, truth, rows=2)(
            _language_model(),
            ref_model=_language_model(),
            args=arguments,
            train_dataset=Dataset.from_list(rows),
            processing_class=_tokenizer(),
        )
        trainer.train()
    truth.tell()


def _embedder():
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel

    torch.manual_seed(7)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=_WORDS + 3, intermediate_size=64, pad_token_id=0, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        _tokenizer().save_pretrained(folder)
        words = models.Transformer(folder, max_seq_length=32)
    return SentenceTransformer(modules=[words, models.Pooling(32)], device="cpu")


def sentence_transformers():
    """Its own Trainer: pairs, and the other pairs of the batch as negatives."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        losses,
    )

    truth, net = Truth(), _embedder()
    pairs = [{"anchor": _text(i), "positive": _text(i + 77)} for i in range(300)]
    with quiet_arguments(SentenceTransformerTrainingArguments) as arguments:
        trainer = _clocked(SentenceTransformerTrainer, truth)(
            model=net,
            args=arguments,
            train_dataset=Dataset.from_list(pairs),
            loss=losses.MultipleNegativesRankingLoss(net),
        )
        trainer.train()
    truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    declare()
    same_each_time()
    globals()[sys.argv[1]]()
