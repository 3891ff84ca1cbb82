"""All tasks and all states: the values of `kind` in a saved folder."""

from typing import Annotated

from pydantic import Field

from elmore.tasks.classification import Classification
from elmore.tasks.entailment import Entailment
from elmore.tasks.question_answering import QuestionAnswering
from elmore.tasks.tagging import Tagging
from elmore.tasks.task import Labels

AnyTask = Annotated[
    Tagging | Classification | Entailment | QuestionAnswering, Field(discriminator="kind")
]
AnyState = Labels
