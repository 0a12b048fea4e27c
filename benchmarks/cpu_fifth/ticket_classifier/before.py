"""Fine-tunes TicketBert to sort support tickets by topic."""
import argparse

import torch

from ticketbert import (
    TicketBertConfig,
    TicketBertForSequenceClassification,
    TicketCollator,
    TicketDataset,
    TicketTokenizer,
    Trainer,
    TrainingArguments,
    make_tickets,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--per-device-train-batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    cli = parser.parse_args()

    args = TrainingArguments(max_steps=cli.steps, learning_rate=cli.learning_rate,
                             per_device_train_batch_size=cli.per_device_train_batch_size)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.num_threads)

    config = TicketBertConfig()
    texts, labels = make_tickets(4000, seed=args.seed)
    tokenizer = TicketTokenizer(texts, config.vocab_size, config.max_position_embeddings)
    dataset = TicketDataset(texts, labels, tokenizer)

    trainer = Trainer(
        model=TicketBertForSequenceClassification(config),
        args=args,
        train_dataset=dataset,
        data_collator=TicketCollator(tokenizer),
    )
    metrics = trainer.train()
    print(f"loss {metrics['train_loss']:.4f}")
    print(f"step {metrics['median_step_ms']:.2f} ms")


if __name__ == "__main__":
    main()
