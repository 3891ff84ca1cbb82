"""Which tasks there are: what a saved folder's `kind` may say."""

from typing import Annotated

from pydantic import Field

from elmore.tasks.classification import Classification
from elmore.tasks.entailment import Entailment
from elmore.tasks.question_answering import QuestionAnswering
from elmore.tasks.tagging import Tagging

AnyTask = Annotated[
    Tagging | Classification | Entailment | QuestionAnswering, Field(discriminator="kind")
]
