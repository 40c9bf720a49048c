"""What page Overview tells those who never heard of routers, tokens or KV caches."""

from __future__ import annotations

import streamlit as st

LEAD = (
    "People talk with AI models that run in several cities. For each message a <b>router</b> "
    "picks the model, the machine and the city, and so the power grid that carries the answer. "
    "Two routers get the same conversations here: <b>CarbonRouter</b> counts what it costs to "
    "move a conversation; <b>FairCarbon</b> looks at each message by itself."
)

WORDS = {
    "Session and turn": "A conversation, and one question in it with its answer.",
    "Token": "A piece of a word: what models read and write. A page of text is some 700 of them.",
    "KV cache": "A model's working notes on the conversation so far, in the fast memory of the "
    "machine that answered last.",
    "Recomputed history": "The conversation so far, read again where no notes of it are kept: "
    "after a move, or after a pause so long that the notes were dropped.",
    "Host servers": "The computers that the GPUs, the processors of the models, sit in. They draw "
    "power for as long as a turn keeps its GPUs.",
    "Move": "A turn answered by another model, machine type or city than the turn before.",
    "CO2e": "Greenhouse gases, as the amount of carbon dioxide with the same warming.",
    "Carbon intensity": "Grams of CO2e for each kilowatt-hour of a grid. It changes by the hour.",
    "PUE": "Energy that enters a data centre for each unit that reaches its computers.",
    "Time to first token, latency": "How long until the answer begins, and until it is complete. "
    "Estimated, without waiting in a queue. p95: 95 of 100 turns take no longer.",
    "Predicted quality": "The chance that the model answers an exam question as hard as this "
    "prompt correctly.",
    "Gate and look-ahead": "Two rules of CarbonRouter: hold a conversation that would come "
    "straight back, or weigh the turns that are likely to follow.",
    "Sticky, cleanest region, nearest region": "Three simple routers to compare with: "
    "stay where the conversation is; go where the grid is cleanest now; stay near the user.",
    "Hindsight optimum": "The best possible result if every conversation were known "
    "beforehand. No router can know that. It shows how much more could be saved.",
    "Free migration (bound)": "The emissions if moving cost nothing, since all notes were "
    "everywhere. No real system does that. It shows what moving costs.",
    "Preset": "A set of choices to start from. Paper keeps the notes of a conversation for an "
    "hour, only where its last turn ran; the other two keep them wherever a turn ran, for 10 "
    "minutes or for an hour.",
    "95 % interval": "A few long conversations hold most of the carbon, so other conversations "
    "would give another figure. In 95 of 100 cases it would lie in this range.",
}

YOURS_AND_MEASURED = (
    "<b>Yours to change</b> (page Scenario): cities, machines, models, dates, how long caches are "
    "kept, and the limits on quality and waiting. <b>Measured:</b> the conversations, the energy "
    "of models on machines, the grids. <b>Estimated:</b> waiting times and quality."
)


def words() -> None:
    """The words of the page, behind a click."""
    with st.expander("New to this? The words on this page, and what is measured"):
        items = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in WORDS.items())
        st.html(f'<p class="cr-note">{YOURS_AND_MEASURED}</p><dl class="cr-words">{items}</dl>')
