"""Exercise 5: what the lab's table says about the three gates, what it does not say, and one test of one's own."""

from collections.abc import Callable, Mapping
from typing import Any

from bertch15.check.exercise_5.gains import check_gains
from bertch15.check.exercise_5.prediction import Declared, read
from bertch15.check.kit.reasons import Reason
from bertch15.check.kit.together import Mistake, together
from bertch15.check.kit.verdict import (
    EMPTY,
    RIGHT,
    Part,
    Verdict,
    as_tensor,
    careful,
    sealed,
    untouched,
    wrong,
)
from bertch15.lab import LabResult

SCARCE = Reason(
    "scarce",
    "a23a05741ec01ef2",
    {
        "5956ea62c539f9d5": "Both groups of words are asked with the same few labels. What differs between them?",
        "c28028d1ce3152a9": "This says what a few labels cannot do by themselves. Which gate asks for that?",
        "95941991832b5dd1": "This says how sure the result is, and not under which condition it was had.",
    },
)
HUNGRY = Reason(
    "hungry",
    "bb213ed699207718",
    {
        "fa3026a1499da191": "Both groups need a representation alike. What is it that only one of them has?",
        "384aa953e036b772": "This says how little supervision there was. Which gate asks for that?",
        "cffb334159da5f4d": "This says how sure the result is, and not under which condition it was had.",
    },
)
COVERS = Reason(
    "covers",
    "aac90f03f53cf10b",
    {
        "d7b4ff24b07f4750": "The number of labels differs here, and the source is the same. Which gate asks for "
        "that?",
        "6a33100983fb3d40": "The scratch arm has read no source at all, so it cannot tell a covered word from "
        "another.",
        "0b0499c1665cdbc0": "This says how sure the result is, and not under which condition it was had.",
    },
)
BITWISE = Reason(
    "bitwise",
    "6a33f376eba06db9",
    {
        "7cf38871fb2f11f9": "A state is made of an embedding row and of all that the blocks do with it. Did the "
        "blocks stay as they were?",
        "1c7e8e7bdba0178e": "A row that stayed is still read by blocks that moved. Where the accuracy would end "
        "had to be measured.",
        "2f88ce3522fe8b3a": "The check compares the weights before and after pretraining: it was made before "
        "there was any label.",
    },
)
SURPRISE = Reason(
    "surprise",
    "e620f440d1a273db",
    {
        "1745bac68a2164a4": "Enough with which sentence? Read both lines, and each seed.",
        "7963b44bb77514a5": "The two sentences differ in their cues, in their length and in how they begin. Do "
        "these runs part one from another?",
        "25106295bceac40d": "Section 15.8 has the same run with all eight. These runs hold the number of "
        "sentences fixed.",
    },
)

UNSUPPORTED = "101e71ebc338f974"
"""The seal of the two letters, sorted."""
SUPPORTED = {
    "4cb5212d669572c6": "The paired gains at the smallest budget support this one.",
    "58bc4786aaa1ea9a": "The control words support this one: they have a row and no sentence.",
    "fffed09ce0e595ff": "The column of the training words supports this one.",
    "c2ef398ab149698d": "This one is careful: it names the corpus, and five units are counted as five.",
}


@careful
def check_unsupported(answer: Any) -> Part:
    """Check which two conclusions the lab does not support."""
    if untouched(answer):
        return EMPTY
    letters = sorted({str(letter).strip().lower() for letter in answer} - {"", ",", " "})
    if len(letters) != 2 or not set(letters) <= set("abcdef"):
        return wrong("Name two letters out of a to f, such as a list of two letters in quotes.")
    if sealed("unsupported", "".join(letters)) == UNSUPPORTED:
        return RIGHT
    says = [SUPPORTED[seal] for letter in letters if (seal := sealed("unsupported", letter)) in SUPPORTED]
    return wrong(" ".join(says))


@careful
def check_prediction(prediction: Any, declared: Any) -> Part:
    """Check that a test was declared that could fail, and that it was not changed since."""
    if untouched(prediction):
        return EMPTY
    try:
        now = read(prediction)
    except Mistake as mistake:
        return wrong(str(mistake))
    if not isinstance(declared, Declared):
        return wrong("The prediction is complete. Run the cell that declares it.")
    if now != declared:
        return wrong(
            "This is not the prediction that was declared before the run. A declaration is worth something "
            "because it stays; declare another test and run that one."
        )
    return "right", f"Declared before the run, as {declared.fingerprint}. Whether it comes true earns no point."


@careful
def check_held(held: Any, declared: Any, trial: Any) -> Part:
    """Check that the student reads the declared run rightly: within the bounds or not."""
    if untouched(held):
        return EMPTY
    if not isinstance(declared, Declared) or not isinstance(trial, LabResult):
        return wrong("There is no run to read yet: declare a test first.")
    if not declared.of(trial):
        return wrong("This run is not the one that was declared: it has other sentences, labels or seeds.")
    if isinstance(held, str) or as_tensor(held).numel() != 1:
        return wrong("Answer with True or False.")
    if bool(held) == declared.holds(trial):
        return RIGHT
    if bool(held) == declared.holds(trial, "covered"):
        return wrong("You read the covered words. The test was about the held-out ones.")
    return wrong("Compare the mean over the seeds with both bounds. A refuted prediction is a full answer too.")


def gates(answers: Any, *names: str) -> Verdict:
    """Check exercise 5: `answers` is a dictionary; names: the parts to be shown, all of them by default."""

    def reason(question: Reason, because: str) -> Callable[[Mapping[str, Any]], Part]:
        return lambda given: question.check(given.get(question.question), given.get(because))

    return together(
        "gates",
        answers,
        names,
        {
            "gains": lambda given: check_gains(given.get("gains")),
            "scarce": reason(SCARCE, "gates because"),
            "hungry": reason(HUNGRY, "gates because"),
            "covers": reason(COVERS, "gates because"),
            "bitwise": reason(BITWISE, "bitwise because"),
            "unsupported": lambda given: check_unsupported(given.get("unsupported")),
            "prediction": lambda given: check_prediction(given.get("prediction"), given.get("declared")),
            "held": lambda given: check_held(given.get("held"), given.get("declared"), given.get("trial")),
            "surprise": reason(SURPRISE, "surprise because"),
        },
    )
