"""Makes the small data set: sentences to a bank in eight intents, from templates and a seed. `python -m
…make_utterances`

The files have the format of banking77: `train.csv` and `test.csv` with the columns `text` and `category`.
"""

from __future__ import annotations

import csv
import itertools
import random
import string
from pathlib import Path

FOLDER = Path(__file__).with_name("data")
#: Sentences of each intent; a fifth of them go to the test.
EACH = 64

#: Words that templates may use in braces.
WORDS: dict[str, tuple[str, ...]] = {
    "opening": ("", "Hi, ", "Hello, ", "Please help, ", "Sorry, ", "Quick question: "),
    "card": ("card", "bank card", "debit card", "new card", "visa card"),
    "when": ("yesterday", "this morning", "last week", "on Monday", "two days ago", "an hour ago"),
    "sum": ("20 euros", "150 dollars", "five pounds", "my rent", "80 euros", "a small amount"),
    "who": ("my landlord", "my sister", "a friend", "the plumber", "my employer", "a shop"),
    "country": ("Spain", "Japan", "Canada", "Poland", "Brazil", "Norway"),
    "place": ("the supermarket", "a petrol station", "the train station", "a restaurant", "the airport"),
    "currency": ("yen", "dollars", "euros", "pounds", "kroner", "zloty"),
}

TEMPLATES: dict[str, tuple[str, ...]] = {
    "card_arrival": (
        "{opening}my {card} has not come in the mail yet",
        "{opening}when will the {card} that I ordered {when} be delivered?",
        "{opening}I am still waiting for my {card}, where is it?",
        "{opening}can I track the delivery of my {card}?",
    ),
    "lost_or_stolen_card": (
        "{opening}I lost my {card} at {place} {when}",
        "{opening}somebody stole my {card}, block it now",
        "{opening}my {card} was stolen in {country}",
        "{opening}I cannot find my {card} since I was at {place}",
    ),
    "change_pin": (
        "{opening}how do I change the PIN of my {card}?",
        "{opening}I want to choose another PIN",
        "{opening}can I set a new PIN at a cash machine in {country}?",
        "{opening}I forgot my PIN and need a different one",
    ),
    "top_up_failed": (
        "{opening}my top up of {sum} did not work {when}",
        "{opening}why was my top-up declined?",
        "{opening}I tried to add {sum} to my balance and it failed",
        "{opening}topping up with my {card} is rejected",
    ),
    "exchange_rate": (
        "{opening}what exchange rate do you use for {currency}?",
        "{opening}how many {currency} do I get for {sum}?",
        "{opening}is the rate for {currency} better at the weekend?",
        "{opening}the rate from {when} for {currency} looks wrong",
    ),
    "transfer_not_received": (
        "{opening}{who} has not received the {sum} that I sent {when}",
        "{opening}my transfer to {who} has not arrived",
        "{opening}where is the money that I transferred to {who} in {country}?",
        "{opening}how long does a transfer to {country} take?",
    ),
    "cash_withdrawal_charge": (
        "{opening}why was I charged for taking out cash in {country}?",
        "{opening}is there a fee when I withdraw {sum}?",
        "{opening}you took a fee for my cash withdrawal at {place}",
        "{opening}what does it cost to get {currency} from a cash machine?",
    ),
    "refund_missing": (
        "{opening}{place} promised a refund {when} and I do not see it",
        "{opening}my refund of {sum} is missing from my account",
        "{opening}I returned something at {place}, when do I get the money back?",
        "{opening}how do I ask {who} for my money back?",
    ),
}


def make_rows(seed: int = 77) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Rows (text, category) for training and for the test; no sentence is in both."""
    shuffle = random.Random(seed)
    train: list[tuple[str, str]] = []
    test: list[tuple[str, str]] = []
    for intent, templates in TEMPLATES.items():
        # Each template gives as many sentences as the others, however many words fit into it.
        parts = [
            shuffle.sample(_sentences(template), min(EACH, len(_sentences(template))))
            for template in templates
        ]
        mixed = list(dict.fromkeys(text for row in itertools.zip_longest(*parts) for text in row if text))[
            :EACH
        ]
        shuffle.shuffle(mixed)
        test += [(text, intent) for text in mixed[: EACH // 5]]
        train += [(text, intent) for text in mixed[EACH // 5 :]]
    shuffle.shuffle(train)
    shuffle.shuffle(test)
    return train, test


def _sentences(template: str) -> list[str]:
    names = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    filled = (
        template.format(**dict(zip(names, words, strict=True)))
        for words in itertools.product(*(WORDS[name] for name in names))
    )
    return [text[0].upper() + text[1:] for text in filled]


def write(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(("train", "test"), make_rows(), strict=True):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("text", "category"))
            writer.writerows(rows)


if __name__ == "__main__":
    write()
