"""`elmore substitutes`: the words that a model would most likely put in place of another."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import Device, Lowercase, OptionsFile
from elmore.errors import InputError

if TYPE_CHECKING:
    from elmore.predictor.place import Place


def substitutes(
    source: Annotated[
        str,
        typer.Argument(help="A BERT with its MLM head, or an ELMo's softmax."),
    ],
    sentence: Annotated[str, typer.Argument(help="The sentence; it is split into words.")],
    word: Annotated[str, typer.Option(help="The word in it to replace.")],
    position: Annotated[
        int | None,
        typer.Option(help="Which word, counted from 0, if it occurs more than once.", min=0),
    ] = None,
    top: Annotated[int, typer.Option(help="The number of substitutes.", min=1)] = 10,
    every: Annotated[
        bool, typer.Option("--all", help="Also list marks and pieces that continue a word.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    options: OptionsFile = None,
    lowercase: Lowercase = None,
    device: Device = "auto",
) -> None:
    """Show the words most likely in place of a word, which the model does not see."""
    check_files(model=source)
    from elmore.predictor.place import places_of
    from elmore.predictor.predictor import Predictor

    place = _chosen(places_of(sentence, word), word, position)
    predictor = Predictor.load(source, options=options, lowercase=lowercase, device=device)
    (found,) = predictor.substitutes([place], top=top, whole_words=not every)
    if as_json:
        listed = [{"word": one.word, "probability": one.probability} for one in found]
        answer = {"words": list(place.words), "position": place.position, "substitutes": listed}
        print(json.dumps(answer, ensure_ascii=False))
        return
    for one in found:
        print(f"{one.probability:.4f}  {one.word}")


def _chosen(places: "list[Place]", word: str, position: int | None) -> "Place":
    """The place at `position`, or the first."""
    numbers = [place.position for place in places]
    if position is not None:
        if position not in numbers:
            raise InputError(
                f"Word {position} of the sentence is not {word!r}, which is word "
                f"{', '.join(map(str, numbers))} (counted from 0)."
            )
        return places[numbers.index(position)]
    if len(places) > 1:
        print(
            f"elmore: {word!r} is word {', '.join(map(str, numbers))} of the sentence (counted "
            f"from 0); this is about word {numbers[0]}. --position chooses another.",
            file=sys.stderr,
        )
    return places[0]
