"""Sentences with their roles, small enough to learn in seconds: who is before the verb, whom after
it, when at the end; a noun can be a predicate too."""

import json
import random
from pathlib import Path

from elmore.tasks.propositions import Proposition, RoleSentence
from elmore.tasks.readers.role_lines import read_role_lines
from elmore.tasks.spans import Span

PEOPLE = ["Anna", "Bob", "the cat", "my old dog"]
VERBS = {"saw": "see", "chased": "chase", "fed": "feed"}


def sentence(rng: random.Random) -> dict[str, object]:
    """As a line of the JSON: `Anna saw the cat yesterday .`, `Bob fed Anna after the attack .`"""
    who, whom = rng.sample(PEOPLE, 2)
    verb = rng.choice(sorted(VERBS))
    words, tags = [], []
    for role, text in (("ARG0", who), ("V", verb), ("ARG1", whom)):
        for i, word in enumerate(text.split()):
            words.append(word)
            tags.append(f"{'I' if i else 'B'}-{role}")
    place = words.index(verb)
    props = [{"predicate_index": place, "lemma": VERBS[verb], "tags": tags}]
    xpos = ["NN"] * len(words)
    xpos[place] = "VBD"
    match rng.randrange(3):
        case 0:
            words, xpos, tags[:] = [*words, "yesterday"], [*xpos, "RB"], [*tags, "B-ARGM-TMP"]
        case 1:
            start = len(words)
            words, xpos = [*words, "after", "the", "attack"], [*xpos, "IN", "DT", "NN"]
            tags += ["B-ARGM-TMP", "I-ARGM-TMP", "I-ARGM-TMP"]
            attack = ["B-ARG0", *["O"] * (start + 1), "B-V"]
            attack[: len(who.split())] = ["B-ARG0", *["I-ARG0"] * (len(who.split()) - 1)]
            props.append({"predicate_index": start + 2, "lemma": "attack", "tags": attack})
    for prop in props:
        prop["tags"] = [*prop["tags"], "O"]
    return {"words": [*words, "."], "xpos": [*xpos, "."], "props": props}


def write_roles(path: Path, n: int, seed: int) -> Path:
    rng = random.Random(seed)
    path.write_text("".join(json.dumps(sentence(rng)) + "\n" for _ in range(n)))
    return path


def roles(folder: Path, n: int, seed: int) -> list[RoleSentence]:
    return list(read_role_lines(write_roles(folder / f"roles{seed}.jsonl", n, seed)).examples)


def proposition(predicate: int, *pieces: tuple[int, int, str], lemma: str = "go") -> Proposition:
    return Proposition(predicate, lemma, tuple(Span(*piece) for piece in pieces))
