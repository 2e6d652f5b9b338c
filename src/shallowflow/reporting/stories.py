"""The words of the report: each paper's story in two plain sentences, and its letters, explained."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Story(NamedTuple):
    """A paper for a reader who does not know it: a title, two sentences, letters and what they stand for."""

    title: str
    sentences: str = ""
    letters: tuple[tuple[str, str], ...] = ()

    def letters_in(self, texts: Iterable[str]) -> list[tuple[str, str]]:
        """Return the letters that occur in some texts, with their meanings, in the story's order."""
        joined = "\n".join(texts)
        return [pair for pair in self.letters if re.search(rf"(?<!\w){re.escape(pair[0])}(?!\w)", joined)]


STORIES = {
    "two_timescale": Story(
        "Two timescales",
        "A network of smooth steps learns a function that jumps: its weights, trained fast, always fit as"
        " well as the steps’ places allow, and the places, trained slowly, drift to the jumps. Trained at"
        " one speed, neurons wander off while the weights are still wrong, and a jump may be left alone.",
        (
            ("f", "the network"),
            ("f*", "the function to be learned"),
            ("ε", "how much slower the places of the neurons are trained than their weights"),
            ("η", "the width of a smooth step"),
            ("τ", "slow time, ε times the time of training"),
            ("m", "the number of neurons"),
            ("h", "the length of a training step"),
            ("a*", "the weights that fit best with the neurons where they are"),
        ),
    ),
    "early_alignment": Story(
        "Early alignment",
        "A network that starts very small first turns its neurons, before it learns anything visible, "
        "towards a few directions that the data alone decide. A wide network then acts like a narrow one:"
        " it generalises well, or is stuck at a fit that two neurons could beat.",
        (
            ("λ", "the size of the start"),
            ("τ", "the end of the early phase"),
            ("w_j", "the weights of a neuron from the inputs"),
            ("a_j", "its weight to the output"),
            ("G", "the function on directions whose critical points attract the neurons"),
            ("ε", "an exponent that trades time for accuracy"),
        ),
    ),
    "incremental": Story(
        "Incremental learning",
        "On orthogonal inputs a tiny network learns in jumps: for long it rests near a saddle, then one "
        "neuron grows and fits all the points on which it is active. A short algorithm foretells which "
        "points fall when, and the network that results is nearly the simplest that fits.",
        (
            ("α", "the size of the start"),
            ("n", "the number of points"),
            ("m", "the number of neurons"),
            ("t_n", "the time by which everything is fitted"),
        ),
    ),
    "weak_interaction": Story(
        "Weak interaction",
        "If inputs are nearly orthogonal, every point is learned almost by itself, and a small network "
        "fits them all at an exponential speed. How few neurons, how many dimensions and how fast is what"
        " the figures ask.",
        (
            ("μ", "the rate at which the loss falls, relative to the loss"),
            ("n", "the number of points"),
            ("p", "the number of neurons"),
            ("d", "the dimension of the inputs"),
        ),
    ),
    "plateau": Story(
        "Plateaus",
        "The paper’s account of plateaus: while no kink of the network passes a data point, training can "
        "only improve the straight pieces between kinks, and the loss comes to rest. A method that moves "
        "kinks on purpose, one data point at a time, gets past.",
        (
            ("b_j", "the place of a kink"),
            ("c_j", "the weight of a neuron"),
            ("Q_0", "the loss that the best lines of the present stage leave"),
        ),
    ),
}


def story_of(paper: str) -> Story:
    """Return a paper's story; of a paper that is not one of the five, its word as a title."""
    return STORIES.get(paper) or Story(paper.replace("_", " ").capitalize())
