"""Talk without pictures: facts told and asked back, greetings, and questions outside the world."""

from __future__ import annotations

import random
from dataclasses import dataclass

FIRST_NAMES = (
    "Ana Ben Carla David Emma Felix Greta Hugo Ida Jonas Karin Leo Maria Nils Olga Paul Rosa Simon "
    "Tina Uwe Vera Willy Yara Zoe Adam Bella Chen Diego Elif Farid Gita Hanna Igor Jana Kofi Lena "
    "Mila Noah Omar Pia Quinn Ravi Sara Tom Uma Victor Wanda Xenia Yusuf Zara Alice Bob Clara Dan "
    "Eva Frank Gina Henry Iris Jack Kate Luis Mark Nora Oscar Petra Ralf Sofia Tariq Ursula Vlad "
    "Wei Amir Bruno Celine Dora Erik Fatima George Helen Ivan Julia Kevin Laura Max Nina Otto Peter"
).split()
# Only validation and test use these: recall must copy, not recognise.
HELD_OUT_NAMES = "Marta Kenji Lucas Irene Samir Alma Viktor Elena Boris Judith Anton Lily".split()
ANIMALS = (
    "cat dog horse fox bear wolf owl rabbit tiger lion elephant penguin dolphin whale turtle frog "
    "mouse snake eagle parrot goat sheep cow pig duck zebra giraffe monkey panda koala otter "
    "hedgehog squirrel deer bee octopus shark crab swan camel"
).split()
SYLLABLES = (
    "ba be bo da de di do fa fe ga go ha he jo ka ke ki la le li lo lu ma me mi mo na ne ni no "
    "pa pe ra re ri ro sa se si so ta te ti to va ve vi wa ya yo za ze ann ell ick ord und ast"
).split()


@dataclass(frozen=True)
class Fact:
    """Something a user tells about themselves."""

    name: str
    value: str


def random_name(rng: random.Random, held_out: bool, invented: float) -> str:
    """A listed name or, in a share `invented`, one put together: copying is to be learnt."""
    if rng.random() >= invented:
        return rng.choice(HELD_OUT_NAMES if held_out else FIRST_NAMES)
    if held_out:
        return _of_syllables(rng)  # syllables alone, so that figures of all runs compare
    name = HELD_OUT_NAMES[0]
    while name in HELD_OUT_NAMES:
        name = rng.choice((_of_syllables, _of_letters, _of_two_names))(rng)
    return name


def _of_syllables(rng: random.Random) -> str:
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))).capitalize()


def _of_letters(rng: random.Random) -> str:
    """Letters that can be spoken, in no listed order: every token of a name has to be looked up."""
    first = rng.randrange(2)
    kinds = ("aeiouy", "bcdfghjklmnprstvwxz")
    letters = (rng.choice(kinds[(first + i) % 2]) for i in range(rng.randint(3, 7)))
    return "".join(letters).capitalize()


def _of_two_names(rng: random.Random) -> str:
    """The beginning of one listed name and the end of another."""
    first, last = rng.sample(FIRST_NAMES, 2)
    return first[: rng.randint(1, len(first))] + last[rng.randrange(len(last)) :].lower()


def random_fact(rng: random.Random, name: str, held_out: bool, invented: float) -> Fact:
    """A fact of a sort with a random value."""
    if name == "name":
        return Fact(name, random_name(rng, held_out, invented))
    if name == "animal":
        return Fact(name, rng.choice(ANIMALS))
    return Fact(name, str(rng.randint(0, 99 if rng.random() < 0.7 else 999)))


FACTS = ("name", "animal", "number")


def tell(rng: random.Random, fact: Fact) -> tuple[str, str]:
    value = fact.value
    if fact.name == "name":
        forms: tuple[str, ...] = (
            f"My name is {value}.",
            f"Hello, my name is {value}.",
            f"I am {value}.",
            f"I'm {value}.",
            f"Hi, I am {value}.",
            f"Call me {value}.",
            f"Please call me {value}.",
            f"My friends call me {value}.",
            f"Remember that my name is {value}.",
        )
        return rng.choice(forms), f"Nice to meet you, {value}."
    if fact.name == "animal":
        forms = (
            f"My favourite animal is the {value}.",
            f"My favorite animal is the {value}.",
            f"The animal I like best is the {value}.",
            f"I like the {value} best of all animals.",
            f"Of all animals I like the {value} most.",
            f"Remember that my favourite animal is the {value}.",
        )
        return rng.choice(forms), f"I will remember that your favourite animal is the {value}."
    forms = (
        f"My lucky number is {value}.",
        f"My number is {value}.",
        f"My favourite number is {value}.",
        f"Remember the number {value}.",
        f"Please remember the number {value}.",
        f"The number to remember is {value}.",
    )
    return rng.choice(forms), f"I will remember that your number is {value}."


RECALL = {
    "name": (
        "What is my name?",
        "What is my name?",
        "Do you know my name?",
        "Do you remember my name?",
        "Who am I?",
        "What am I called?",
        "Tell me my name.",
    ),
    "animal": (
        "What is my favourite animal?",
        "What is my favorite animal?",
        "Which animal do I like best?",
        "Which animal do I like most?",
        "Do you remember my favourite animal?",
        "What animal do I like?",
    ),
    "number": (
        "What is my number?",
        "What is my lucky number?",
        "What is my favourite number?",
        "Which number did I tell you?",
        "What number did I ask you to remember?",
        "Do you remember my number?",
    ),
}
TOLD = {
    "name": "Your name is {}.",
    "animal": "Your favourite animal is the {}.",
    "number": "Your number is {}.",
}
NOT_TOLD = {
    "name": "You have not told me your name yet.",
    "animal": "You have not told me your favourite animal yet.",
    "number": "You have not told me your number yet.",
}
THOUGHTS = {
    "name": "I look back for the name.",
    "animal": "I look back for the animal.",
    "number": "I look back for the number.",
}


def recall(rng: random.Random, name: str, value: str | None) -> tuple[str, str]:
    """Asking for a fact, and the answer; `value` is None where it was never told."""
    answer = NOT_TOLD[name] if value is None else TOLD[name].format(value)
    return rng.choice(RECALL[name]), answer


WHAT_I_DO = "I can describe simple pictures of shapes and remember what you tell me."
WHO_I_AM = "I am a small demo model. I know simple pictures of shapes."
FILLER = (
    (("Hello!", "Hi!", "Hello", "Hi", "Hey!", "Hello there!"), "Hello! How can I help you?"),
    (("Good morning!", "Good morning"), "Good morning! How can I help you?"),
    (("Good evening!", "Good evening"), "Good evening! How can I help you?"),
    (("How are you?", "How are you today?", "How is it going?"), "I am fine, thank you."),
    (
        ("Thank you.", "Thanks!", "Thank you very much.", "Thanks a lot!", "Great, thank you."),
        "You are welcome.",
    ),
    (
        ("What can you do?", "How can you help me?", "What do you know?", "Help", "Help me."),
        WHAT_I_DO,
    ),
    (("Who are you?", "What are you?", "What is your name?", "What model are you?"), WHO_I_AM),
    (("Goodbye!", "Bye!", "See you later!", "Bye bye."), "Goodbye!"),
    (("Good.", "Nice!", "Great!", "Well done!", "That is right.", "Very good."), "I am glad."),
    (("Okay.", "OK", "I see.", "All right.", "Fine."), "What else would you like to know?"),
    (("Let us go on.", "Next question.", "One more question.", "Go on."), "Please go on."),
)
REFUSAL = "I only know simple pictures of shapes, and what you tell me."
NO_PICTURE = "I do not see a picture yet."
NO_SUCH_PICTURE = "I have not seen that many pictures yet."
COUNTRIES = "France Spain Italy Japan Brazil Canada Egypt Kenya India China Peru Norway".split()
TOPICS = (
    "football music history physics cooking politics the weather the stock market chess poetry "
    "films cars gardening dinosaurs the moon the ocean space computers painting maths"
).split()
OUTSIDE_FORMS = (
    "What is the capital of {country}?",
    "How many people live in {country}?",
    "Who is the president of {country}?",
    "Where is {country}?",
    "Tell me about {topic}.",
    "What do you think about {topic}?",
    "Write a poem about {topic}.",
    "Write a story about {a} {animal}.",
    "Explain {topic} to me.",
    "What is the weather like?",
    "What is the weather like in {country}?",
    "What time is it?",
    "What day is it today?",
    "Tell me a joke.",
    "Sing a song.",
    "Translate this into French.",
    "Write a Python program.",
    "How do I cook rice?",
    "How do I bake a cake?",
    "What is {n} plus {m}?",
    "What is {n} times {m}?",
    "What does {a} {animal} eat?",
    "How fast is {a} {animal}?",
    "Who wrote Hamlet?",
    "Who won the world cup?",
    "What is the meaning of life?",
    "Can you book a flight to {country}?",
    "Recommend a good book.",
    "What is the best film?",
    "How far away is the moon?",
    "Why is the sky blue?",
    "How old are you?",
)


def outside(rng: random.Random) -> tuple[str, str]:
    """A question from outside the world, and the polite refusal."""
    animal = rng.choice(ANIMALS)
    form = rng.choice(OUTSIDE_FORMS)
    asked = form.format(
        country=rng.choice(COUNTRIES),
        topic=rng.choice(TOPICS),
        animal=animal,
        a="an" if animal[0] in "aeiou" else "a",
        n=rng.randint(1, 99),
        m=rng.randint(1, 99),
    )
    return asked, REFUSAL


def filler(rng: random.Random) -> tuple[str, str]:
    forms, answer = rng.choice(FILLER)
    return rng.choice(forms), answer


SYSTEM_TEXTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant.",
    "You answer questions about pictures.",
    "You are Waymark, a friendly assistant. Answer briefly.",
    "Be brief.",
    "Answer in one sentence.",
    "You are a careful assistant that looks at pictures and answers in English.",
)
