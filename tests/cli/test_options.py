"""The arguments and options of every command, frozen: scripts rely on these names."""

from typing import Any

import pytest
import typer

from elmore.cli.main import app

PIECES = " --cased --lowercase --pieces"
EVALUATE_TASK = "--set --cache --encoder --model --quiet --test"
COMMANDS = {
    "demo": "--json --model --plot --word" + PIECES,
    "embed": (
        "input output --batch-sentences --batch-words --device --errors --forget-sentences "
        "--as-is --format --layers --lines --model --on --options --precision --quiet --resume "
        "--stateful --tokenize --use-sentence-keys --workers" + PIECES
    ),
    "pretrain": (
        "corpus --as-is --epochs --errors --from --lines --minutes --no-resume --output --plot "
        "--quiet --recipe --resume --set --steps --tokenize --valid --vocabulary"
    ),
    "evaluate": (
        "source text --as-is --carry-state --errors --first-words --lines --max-words "
        "--no-carry-state --no-tokenize --options --per-sentence --quiet --tokenize"
    ),
    "models": "--cached --json --verify",
    "download": "names --accept-changed --quiet",
    "card": "source --data --language --license --name --options --output",
    "push": "source target --data --language --license --options --private",
    "export": (
        "source text target --as-is --device --errors --lines --most --options --quiet --static "
        "--tokenize" + PIECES
    ),
    "convert": "source target --options" + PIECES,
    "compare": (
        "name --cache --dev --encoders --epochs --fine-tune --fractions --on --output --quiet "
        "--seeds --set --source-lm --target-lm --test --train --workers"
    ),
    "lens": (
        "corpus source --as-is --errors --layers --lines --options --output --quiet --set "
        "--tokenize --words" + PIECES
    ),
    "index build": (
        "corpus --add --as-is --device --errors --force --keep --lines --model --on --options "
        "--output --precision --quiet --tokenize --uses --vectors --words --workers" + PIECES
    ),
    "index verify": "folder",
    "index compact": "folder --quiet",
    "neighbors": "folder sentence --all-words --layer --model --word -k",
    "senses": "folder word --layer --typical",
    "substitutes": (
        "source sentence --all --cased --device --json --lowercase --options --position --top "
        "--word"
    ),
    "doctor": "source --options" + PIECES,
    "serve": (
        "--allow-host --api-key --batch-words --client-connections --device --held-bytes --host "
        "--index --max-bytes --max-connections --max-words --model --no-substitutes --options "
        "--port --precision --queue-words --quiet --substitutes" + PIECES
    ),
    "store fill": (
        "folder text --as-is --device --errors --gamma --keep --lines --model --on --options "
        "--precision --quiet --tokenize --workers" + PIECES
    ),
    "store info": "folder",
    "store verify": "folder",
    "store export": "folder target --quiet",
    "store merge": "sources target --quiet",
    "store plan": (
        "text --as-is --cased --errors --lines --lowercase --model --options --tokenize"
    ),
    "task train": (
        "name --cache --dev --encoder --epochs --fine-tune --output --quiet --resume --seed "
        "--set --source-lm --start --target-lm --train"
    ),
    "task predict": (
        "input name --attention --cache --encoder --html --model --n-best --output --picture "
        "--quiet --set --text"
    ),
    "task evaluate ner": EVALUATE_TASK,
    "task evaluate chunking": EVALUATE_TASK,
    "task evaluate taglm": EVALUATE_TASK,
    "task evaluate pos": EVALUATE_TASK,
    "task evaluate sst": EVALUATE_TASK,
    "task evaluate classify": EVALUATE_TASK,
    "task evaluate entailment": EVALUATE_TASK,
    "task evaluate qa": EVALUATE_TASK,
    "task evaluate srl": EVALUATE_TASK,
    "task evaluate coref": EVALUATE_TASK,
    "task evaluate gap": "--cache --encoder --model --output --quiet --test",
    "score ner": "gold predicted --json",
    "score squad": "gold predicted --json",
    "score srl": "gold predicted --json",
    "score coref": "key response --json --metric",
    "score gap": "gold predicted --json",
    "task evaluate translate": EVALUATE_TASK,
    "task evaluate summarize": EVALUATE_TASK,
    "task evaluate wsd": "--cache --dev --encoder --json --quiet --semcor --sets",
    "task evaluate wic": "--cache --encoder --json --quiet --test --train",
    "task evaluate probes": (
        "--cache --dev --encoder --json --quiet --semcor --sets --test --train"
    ),
}


def leaves(command: Any, name: str = "") -> dict[str, Any]:
    if not hasattr(command, "commands"):
        return {name: command}
    return {
        path: leaf
        for part, inner in command.commands.items()
        for path, leaf in leaves(inner, f"{name} {part}".strip()).items()
    }


LEAVES = leaves(typer.main.get_command(app))


def test_these_are_all_commands():
    assert LEAVES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_these_arguments_and_options(name: str):
    parameters = LEAVES[name].params
    names = {option for one in parameters for option in (*one.opts, *one.secondary_opts)}
    assert names - {"--help"} == set(COMMANDS[name].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_short_help(name: str):
    for one in LEAVES[name].params:
        if hasattr(one, "help") and "--help" not in one.opts:
            assert one.help.endswith("."), (name, one.name)
            assert len(one.help) < 100, (name, one.name)
