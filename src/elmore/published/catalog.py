"""Which models were published, under which names people know them, and where their files are.
Sizes and checksums were not published: they are recorded at the first download.
"""

import difflib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from elmore.errors import InputError

_ALLENNLP = (
    "https://allennlp.s3.amazonaws.com/models",
    "https://s3-us-west-2.amazonaws.com/allennlp/models",
)
_NLPL = ("https://vectors.nlpl.eu/repository/11",)


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file, and the addresses it can be had from."""

    name: str
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A model: the file that `Embedder.load` reads, its options if they are apart."""

    name: str
    about: str
    weights: PublishedFile
    """The weights, or an archive with everything in it."""
    options: PublishedFile | None = None

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """The small one first: if it cannot be had, nothing large is downloaded."""
        return (self.weights,) if self.options is None else (self.options, self.weights)


def _file(path: str, bases: tuple[str, ...] = _ALLENNLP) -> PublishedFile:
    return PublishedFile(path.rpartition("/")[2], tuple(f"{base}/{path}" for base in bases))


def _pair(name: str, about: str, options: str, weights: str) -> Published:
    return Published(name, about, _file(weights), _file(options))


def _elmo(name: str, about: str, size: str) -> Published:
    stem = f"elmo/{size}/elmo_{size}"
    return _pair(name, about, f"{stem}_options.json", f"{stem}_weights.hdf5")


_LARGE = "elmo_2x4096_512_2048cnn_2xhighway"
_ELMO = [
    _elmo("elmo-small", "English, 13.6M parameters", "2x1024_128_2048cnn_1xhighway"),
    _elmo("elmo-medium", "English, 28.0M parameters", "2x2048_256_2048cnn_1xhighway"),
    _elmo("elmo-original", "English, 93.6M parameters", "2x4096_512_2048cnn_2xhighway"),
    _elmo(
        "elmo-5.5b",
        "English, 93.6M parameters, 5.5 billion words",
        "2x4096_512_2048cnn_2xhighway_5.5B",
    ),
    _pair(
        "elmo-pubmed",
        "English, biomedical, 93.6M parameters",
        f"elmo/contributed/pubmed/{_LARGE}_options.json",
        f"elmo/contributed/pubmed/{_LARGE}_weights_PubMed_only.hdf5",
    ),
    _pair(
        "elmo-pt",
        "Portuguese",
        "elmo/contributed/pt/elmo_pt_options.json",
        "elmo/contributed/pt/elmo_pt_weights.hdf5",
    ),
    Published(
        "transformer-elmo",
        "English, Transformer with 6 layers",
        _file("transformer-elmo-2019.01.10.tar.gz"),
    ),
]

_ALIGNED = {
    "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian",
    "pt": "Portuguese", "sv": "Swedish",
}  # fmt: skip

_TASKS = {
    "esim-elmo": ("entailment", "esim-elmo-2018.05.17"),
    "fine-grained-ner-elmo": ("NER", "fine-grained-ner-model-elmo-2018.12.21"),
    "constituency-elmo": ("constituency parsing", "elmo-constituency-parser-2018.03.14"),
    "sst-5-elmo": ("SST-5", "sst-5-elmo-biattentive-classification-network-2018.09.04"),
    "decomposable-attention-elmo": ("entailment", "decomposable-attention-elmo-2018.02.19"),
}

# ELMoForManyLangs: the code of a language, its number in NLPL's repository, its name.
_MANYLANGS = """
ar 136 Arabic|bg 137 Bulgarian|ca 138 Catalan|cs 139 Czech|cu 140 Old Church Slavonic|da 141 Danish
de 142 German|el 143 Greek|en 144 English|es 145 Spanish|et 146 Estonian|eu 147 Basque
fa 148 Persian|fi 149 Finnish|fr 150 French|ga 151 Irish|gl 152 Galician|grc 153 Ancient Greek
he 154 Hebrew|hi 155 Hindi|hr 156 Croatian|hu 157 Hungarian|id 158 Indonesian|it 159 Italian
ja 160 Japanese|ko 161 Korean|la 162 Latin|lv 163 Latvian|nl 164 Dutch|nb 165 Norwegian Bokmål
nn 166 Norwegian Nynorsk|pl 167 Polish|pt 168 Portuguese|ro 169 Romanian|ru 170 Russian
sk 171 Slovak|sl 172 Slovene|sv 173 Swedish|tr 174 Turkish|ug 175 Uyghur|uk 176 Ukrainian
ur 177 Urdu|vi 178 Vietnamese|zh 179 Chinese (traditional)
"""

_ALIASES = {"elmo-large": "elmo-5.5b", "elmo": "elmo-original"}


@cache
def catalog() -> dict[str, Published]:
    """Every published model by its name."""
    aligned = [
        _pair(
            f"aligned-{code}",
            f"{language}, anchored for alignment across languages",
            "multilingual_elmo/options262.json",
            f"multilingual_elmo/{code}_weights.hdf5",
        )
        for code, language in _ALIGNED.items()
    ]
    tasks = [
        Published(name, f"English, the ELMo inside a model of {task}", _file(f"{file}.tar.gz"))
        for name, (task, file) in _TASKS.items()
    ]
    rows = (row.split(" ", 2) for line in _MANYLANGS.split("\n") for row in line.split("|") if row)
    many = [
        Published(
            f"manylangs-{code}", f"{language}, ELMoForManyLangs", _file(f"{number}.zip", _NLPL)
        )
        for code, number, language in rows
    ]
    return {model.name: model for model in [*_ELMO, *aligned, *tasks, *many]}


def shipped() -> list[Path]:
    """Folders of the models inside the package itself."""
    folder = Path(str(files("elmore") / "pretrained"))
    return sorted(f for f in folder.iterdir() if f.is_dir()) if folder.is_dir() else []


def is_published(name: str) -> bool:
    return name in _ALIASES or name in catalog()


def find_published(name: str) -> Published:
    """The model of this name, or an error with the nearest names."""
    known = catalog()
    name = _ALIASES.get(name, name)
    if name not in known:
        near = difflib.get_close_matches(name, [*known, *_ALIASES])
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InputError(
            f"No published model is called {name!r}; `elmore models` lists them.{hint}"
        )
    return known[name]
